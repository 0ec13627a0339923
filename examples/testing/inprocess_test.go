package agents

import (
	"os"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
	"github.com/capstan-dev/capstan/capstantest/inprocess"
)

// support builds a runtime of the same manifests, with the same functions, without an API server.
func support(t *testing.T, options ...inprocess.Option) *inprocess.Runtime {
	t.Helper()
	runtime, err := inprocess.New(t.Context(), append([]inprocess.Option{
		inprocess.WithManifests(os.DirFS("manifests")),
		inprocess.WithManifests(os.DirFS("testdata")),
		inprocess.WithTools(shop),
	}, options...)...)
	if err != nil {
		t.Fatal(err)
	}
	return runtime
}

func TestTheCustomerIsAskedFirst(t *testing.T) {
	runtime := support(t)
	turn, err := runtime.RunTurn(t.Context(), &v1alpha1.Turn{
		ObjectMeta: metav1.ObjectMeta{Name: "question"},
		Spec:       v1alpha1.TurnSpec{SessionRef: v1alpha1.LocalReference{Name: "ada"}, Input: "I want my money back."},
	})
	if err != nil {
		t.Fatal(err)
	}
	if waits, _ := capstantest.WaitForTools("ask-customer").Match(turn); !waits {
		t.Fatalf("the Turn is %+v", turn.Status)
	}
	turn, err = runtime.Answer(t.Context(), "question", "2-0", "Yes, it leaks.")
	if err != nil {
		t.Fatal(err)
	}
	if want := "Order: 1815, a teapot, 40 euros Refund: paid"; turn.Status.Output != want {
		t.Errorf("the agent responded %q, want %q", turn.Status.Output, want)
	}
}

func TestTheAgentIsToldToAskFirst(t *testing.T) {
	next, err := support(t).LoadContext(t.Context(), "ada")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(next.SystemPrompt, "never pay money back without the customer's word") || len(next.Tools) != 3 {
		t.Errorf("the model would receive %q and the tools %+v", next.SystemPrompt, next.Tools)
	}
}

func TestARefundThatBreaksIsNotPaidAgain(t *testing.T) {
	runtime := support(
		t,
		inprocess.WithTool("refund", func(inprocess.Call) (stdout, stderr string, exit int) { panic("the line is dead") }),
	)
	asked, err := runtime.RunText(t.Context(), "ada", "I want my money back.")
	if err != nil {
		t.Fatal(err)
	}
	turn, err := runtime.Answer(t.Context(), asked.Name, "2-0", "Yes.")
	if err != nil {
		t.Fatal(err)
	}
	if unknown, _ := capstantest.HaveToolCall("refund", v1alpha1.ToolCallStateUnknown, v1alpha1.ToolCallReasonPanicked).
		Match(turn); !unknown {
		t.Errorf("the Turn is %+v", turn.Status)
	}
}
