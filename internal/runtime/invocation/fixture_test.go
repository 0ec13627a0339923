package invocation

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/journal/memory"
	"github.com/capstan-dev/capstan/internal/runtime/plan"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
	"github.com/capstan-dev/capstan/internal/runtime/tool/definition"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
	"github.com/capstan-dev/capstan/internal/testing/site"
	"github.com/capstan-dev/capstan/internal/testing/ticker"
)

var (
	started = ticker.Start
	session = journal.Session{Namespace: "ns", Name: "demo", UID: "session-uid"}
)

// bench is a Runner on a journal.
type bench struct {
	*Runner
	t *testing.T
}

func newBench(t *testing.T) *bench {
	return onStore(t, memory.New())
}

func onStore(t *testing.T, store journal.Store) *bench {
	t.Helper()
	clock := (&ticker.Ticker{}).Tick
	return &bench{t: t, Runner: &Runner{Log: journal.New(store, journal.Options{Clock: clock}), Clock: clock}}
}

// close appends the entry that closes the step of the Turn's call. parts are the ordinals of the entries whose
// outcomes the record has.
func (b *bench) close(turn turnstate.Turn, parts ...int64) (*journal.Closed, error) {
	b.t.Helper()
	return b.Log.Append(b.t.Context(), session, journal.Record{
		Turn: turn.Ref, Step: turn.Step(), OpenedAt: turn.Progress.Plan.OpenedAtOrdinal,
		Transition: plan.AfterAct(turn.Progress), Parts: parts,
	})
}

// reaching gives a bench a client that reaches a site on this machine, and no Secrets.
func (b *bench) reaching(s *site.Site) *bench {
	b.Egress, b.Secrets = s.Egress(), site.NoSecrets
	return b
}

// acting is a Turn with one open call.
func acting(executor v1alpha1.ToolExecutor, class v1alpha1.SideEffect) (turnstate.Turn, v1alpha1.ToolCall) {
	turn := turnstate.Turn{
		Session:  session,
		Ref:      v1alpha1.JournalTurn{Name: "demo-1", UID: "turn-uid"},
		Progress: plan.Begin(1, metav1.NewMicroTime(started)),
		Local:    executor == v1alpha1.ToolExecutorJob,
	}
	turn.Progress.Plan.Step, turn.Progress.Plan.Phase = 2, v1alpha1.PlanPhaseAct
	turn.Progress.Phase = v1alpha1.TurnPhaseAct
	call := v1alpha1.ToolCall{
		ID: "1-0", Name: "ask", Executor: executor, SideEffect: class, Attempt: 1, State: v1alpha1.ToolCallStatePending,
	}
	turn.Progress.ToolCalls = []v1alpha1.ToolCall{call}
	turn.Progress.Summary.ToolCalls = 1
	return turn, call
}

// requesting is a Turn with one open call of an HTTP tool, and the call.
func requesting(s *site.Site, class v1alpha1.SideEffect) (turnstate.Turn, Call) {
	turn, call := acting(v1alpha1.ToolExecutorHTTP, class)
	return turn, Call{
		Call: call, Arguments: "{}", Definition: definition.Of(toolOf(s)), Attempt: NewAttempt(&Line{}),
	}
}

// succeeded is the outcome of a call with a result.
func succeeded(text string) tool.Outcome {
	return tool.Outcome{
		State: v1alpha1.ToolCallStateSucceeded, Reason: v1alpha1.ToolCallReasonCompleted, Result: &text,
		Started: true, StartedAt: started, FinishedAt: started.Add(2 * time.Second),
	}
}

// entries is the number of entries in the journal.
func (b *bench) entries() int64 {
	b.t.Helper()
	view, err := b.Log.View(b.t.Context(), session, 0)
	if err != nil {
		b.t.Fatal(err)
	}
	return view.Head
}

// claimFor appends a claim of the Turn's call to the journal.
func (b *bench) claimFor(turn turnstate.Turn, holder string) {
	b.t.Helper()
	if _, _, err := b.Log.Claim(
		b.t.Context(),
		session,
		turn.Ref,
		2,
		1,
		journal.ClaimedCall{ID: "1-0", Holder: holder},
	); err != nil {
		b.t.Fatal(err)
	}
}
