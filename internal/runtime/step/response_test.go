package step

import (
	"context"
	"errors"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/internal/runtime/excerpt"
	"github.com/capstan-dev/capstan/internal/runtime/fairshare"
	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/runtime/plan"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

// long is a response that status has only the start of.
var long = strings.Repeat("A needle in a haystack.\n", 1000)

// responded runs a Turn whose model responds with a text, and returns what status has of it.
func (b *bench) responded(name, text string) string {
	b.t.Helper()
	turn := newTurn(name)
	turn.Ref.UID = types.UID(name)
	if view, err := b.Log.View(b.t.Context(), session, 0); err == nil {
		turn.Progress = plan.Begin(view.Head+1, *turn.Progress.Summary.StartedAt)
	}
	b.responds(text)
	ended, _ := b.reason(turn, with())
	return ended.Progress.Output
}

// Rules: SPAWN-03.
func TestTheResponseOfATurnIsThatOfNoOtherTurn(t *testing.T) {
	b := newBench(t)
	start := b.responded("demo-1", long)
	if !ResponseCut(start) {
		t.Fatalf("status has %d bytes", len(start))
	}
	b.responded("demo-2", "Something else.")
	if text, err := b.Response(t.Context(), session, start); err != nil || text != long {
		t.Errorf("the response is %.40q, %v", text, err)
	}
}

// A Turn whose last response has no text ends with its text before.
func TestTheResponseOfATurnMayBeAnEarlierText(t *testing.T) {
	b, c := newBench(t), with(jobTool("look"))
	turn := newTurn("demo-1")
	b.responds(long, model.ToolCall{ProviderID: "a", Name: "look", Arguments: "{}"})
	turn, _ = b.reason(turn, c)
	turn = b.looked(turn)
	b.responds("")
	turn, _ = b.reason(turn, c)
	if start := turn.Progress.Output; start != excerpt.Encoded(long, turnstate.MaxOutputBytes) {
		t.Fatalf("the Turn ends with %.40q", start)
	}
	if text, err := b.Response(t.Context(), session, turn.Progress.Output); err != nil || text != long {
		t.Errorf("the response is %.40q, %v", text, err)
	}
}

func TestAResponseIsReadWithinTheMemoryOfItsNamespace(t *testing.T) {
	b := newBench(t)
	start := b.responded("demo-1", long)
	for name, test := range map[string]struct {
		total int64
		large bool
	}{"there is room": {1 << 40, false}, "there is none": {ResponseBytes(1), true}} {
		t.Run(name, func(t *testing.T) {
			pool := fairshare.NewPool(fairshare.Options{Total: fairshare.Amount{Places: 1, Bytes: test.total}})
			share, err := pool.Request(fairshare.Request{Namespace: "ns", Amount: fairshare.Amount{Places: 1, Bytes: 1}})
			if err != nil {
				t.Fatal(err)
			}
			text, err := b.Response(fairshare.NewContext(context.Background(), share), session, start)
			if large := new(fairshare.TooLargeError); errors.As(err, &large) != test.large {
				t.Errorf("reading reports %v", err)
			}
			if !test.large && (text != long || share.Amount().Bytes < int64(len(long))) {
				t.Errorf("the response is %.40q, under %+v", text, share.Amount())
			}
		})
	}
}
