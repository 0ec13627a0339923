package step

import (
	"errors"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/act"
	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

// guardedTool is a Tool whose calls need approval.
func guardedTool(name string) *v1alpha1.Tool {
	guarded := jobTool(name)
	guarded.Spec.Policy = v1alpha1.ToolPolicyRequiresApproval
	return guarded
}

func TestACallThatNeedsApprovalIsPinnedAsOneThatWaits(t *testing.T) {
	b := newBench(t)
	strict := guardedTool("strict")
	strict.Spec.InputSchema = &v1alpha1.JSON{Raw: []byte(`{"type":"object","required":["x"]}`)}
	strict.Spec.ApprovalTimeout = &metav1.Duration{Duration: time.Minute}
	b.responds(
		"",
		model.ToolCall{Name: "pay", Arguments: `{"euros": 40}`},
		model.ToolCall{Name: "strict", Arguments: `{}`},
		model.ToolCall{Name: "strict", Arguments: `{"x": 1}`},
	)
	turn, closed := b.reason(newTurn("demo-1"), with(guardedTool("pay"), strict))
	p := turn.Progress
	if p.Phase != v1alpha1.TurnPhaseWaitingForToolResults || p.Summary.Calls != "1/3" {
		t.Errorf("phase %s, calls %s", p.Phase, p.Summary.Calls)
	}
	pay := p.ToolCalls[0]
	if pay.Executor != v1alpha1.ToolExecutorJob ||
		pay.Policy != v1alpha1.ToolPolicyRequiresApproval ||
		pay.State != v1alpha1.ToolCallStateWaiting ||
		pay.Reason != v1alpha1.ReasonApproval ||
		pay.Attempt != 0 ||
		pay.SideEffect != v1alpha1.SideEffectAtMostOnce ||
		pay.Arguments != `{"euros": 40}` ||
		pay.Preview != "" ||
		len(pay.CallDigest) != 64 {
		t.Errorf("pinned as %+v", pay)
	}
	for id, timeout := range map[int]time.Duration{0: 24 * time.Hour, 2: time.Minute} {
		if wait := p.ToolCalls[id].ApproveBy.Sub(closed.Time.Time); wait < timeout-time.Second || wait > timeout+time.Second {
			t.Errorf("call %d can be approved for %v, want %v", id, wait, timeout)
		}
	}
	if refused := p.ToolCalls[1]; refused.Executor != v1alpha1.ToolExecutorNone ||
		refused.State != v1alpha1.ToolCallStateNotExecuted ||
		refused.ApproveBy != nil {
		t.Errorf("arguments without an approval: %+v", refused)
	}
}

func TestARejectionThatCompletesTheStepIsRecordedWithItsSource(t *testing.T) {
	b := newBench(t)
	b.responds("", calls(1, "pay")...)
	turn, closed := b.reason(newTurn("demo-1"), with(guardedTool("pay")))
	acted, err := b.Act(t.Context(), turn, facts{
		Outcomes: map[string]tool.Outcome{
			"1-0": tool.Rejected(""),
		},
		Sources: map[string]types.UID{"1-0": "result-uid"},
		Planned: planned(closed),
	}.step())
	if err != nil {
		t.Fatal(err)
	}
	b.expectTypes(acted.Events, "act.started tool.completed act.completed")
	if got := Sources(acted); len(got) != 1 || got[0] != "result-uid" {
		t.Errorf("sources %v", got)
	}
	if c := acted.Transition.ToolCalls[0]; c.State != v1alpha1.ToolCallStateNotExecuted ||
		c.Reason != v1alpha1.ToolCallReasonRejected ||
		c.Attempt != 0 {
		t.Errorf("call %+v", c)
	}
	messages := b.transcript()
	if m := messages[len(messages)-1]; m.Role != event.RoleToolResult ||
		!strings.HasPrefix(m.Error, "The tool was not executed: its approval was rejected.") {
		t.Errorf("the model reads %+v", m)
	}
}

// A process that lags must not record a call as not approved in time if the journal has its approval.
func TestAnApprovalThatIsInTheLogIsNotClosedOver(t *testing.T) {
	b := newBench(t)
	b.responds("", calls(1, "pay")...)
	turn, bulk := b.reason(newTurn("demo-1"), with(guardedTool("pay")))
	ref, _, err := b.Log.Settle(t.Context(), session, turn.Ref, turn.Step(), turn.Progress.Plan.OpenedAtOrdinal,
		journal.SettledCall{ID: "1-0", Source: "result-uid", Decision: v1alpha1.DecisionApprove, By: "ann"})
	if err != nil {
		t.Fatal(err)
	}
	for name, outcome := range map[string]tool.Outcome{
		"too late": tool.ApprovalTimedOut(), "rejected": tool.Rejected(""),
	} {
		results := facts{Outcomes: map[string]tool.Outcome{"1-0": outcome}, Planned: planned(bulk)}
		if _, err := b.Act(t.Context(), turn, results.step()); !errors.Is(err, journal.ErrStale) {
			t.Errorf("%s: error %v, want %v", name, err, journal.ErrStale)
		}
	}
	act.Approve(&turn.Progress.ToolCalls[0])
	closed, err := b.Act(t.Context(), turn, facts{
		Outcomes: map[string]tool.Outcome{"1-0": succeeded("paid")}, Settled: map[string]journal.SettledRef{"1-0": ref},
		Sources: map[string]types.UID{"1-0": "result-uid"}, Planned: planned(bulk),
	}.step())
	if err != nil || len(closed.Settled) != 1 || closed.Settled[0].Call.By != "ann" {
		t.Fatalf("closed as %+v, error %v", closed, err)
	}
}

func TestADecisionThatTheLogHasNoRoomForEndsTheTurn(t *testing.T) {
	b := newBench(t)
	b.responds("", append(calls(1, "pay"), calls(1, "ask")...)...)
	turn, bulk := b.reason(newTurn("demo-1"), with(guardedTool("pay"), clientTool("ask")))
	approve := journal.SettledCall{ID: "1-0", Source: "result-uid", Decision: v1alpha1.DecisionApprove, By: "ann"}
	full := turn
	full.Session.Limit = 1
	ref, closed, err := b.Keep(t.Context(), full, approve, facts{Planned: planned(bulk)}.step())
	if err != nil || ref.Ordinal != 0 || closed == nil || closed.Transition.Error.Code != v1alpha1.ErrorCodeJournalFull {
		t.Fatalf("kept as %+v, closed as %+v, error %v", ref, closed, err)
	}
	for _, call := range closed.Transition.ToolCalls {
		if call.State != v1alpha1.ToolCallStateNotExecuted {
			t.Errorf("call %+v", call)
		}
	}
	if _, again, err := b.Keep(
		t.Context(),
		turn,
		approve,
		nil,
	); err != nil || again == nil ||
		again.Ordinal != closed.Ordinal {
		t.Errorf("with room, but late: %+v, %v", again, err)
	}
}

func TestADecisionThatIsKeptIsThereForTheNextProcess(t *testing.T) {
	b := newBench(t)
	b.responds("", calls(1, "pay")...)
	turn, _ := b.reason(newTurn("demo-1"), with(guardedTool("pay")))
	ref, closed, err := b.Keep(
		t.Context(),
		turn,
		journal.SettledCall{ID: "1-0", Source: "result-uid", Decision: v1alpha1.DecisionApprove, By: "ann"},
		nil,
	)
	if err != nil || closed != nil || ref.Ordinal == 0 {
		t.Fatalf("kept as %+v, %+v, %v", ref, closed, err)
	}
	settled, err := b.Log.Settled(t.Context(), session, turn.Ref.UID, turn.Step(), turn.Progress.Plan.OpenedAtOrdinal)
	if err != nil || len(settled) != 1 || settled[0].Call.Decision != v1alpha1.DecisionApprove ||
		settled[0].Call.By != "ann" {
		t.Errorf("the journal has %+v, %v", settled, err)
	}
}

// A process that ends a Turn without knowing that a call of it was approved must not record the call as not executed:
// another process may have started it.
func TestTheEndOfATurnTakesInApprovals(t *testing.T) {
	approve := journal.SettledCall{ID: "1-0", Source: "result-uid", Decision: v1alpha1.DecisionApprove, By: "ann"}
	ends := map[string]func(*bench, turnstate.Turn, *act.Step) (*journal.Closed, error){
		"cancelled": func(b *bench, turn turnstate.Turn, known *act.Step) (*journal.Closed, error) {
			return b.Cancel(t.Context(), turn, known)
		},
		"too slow": func(b *bench, turn turnstate.Turn, known *act.Step) (*journal.Closed, error) {
			return b.Expire(t.Context(), turn, turnstate.DeadlineExceeded(time.Second), known)
		},
		"deleted": func(b *bench, turn turnstate.Turn, _ *act.Step) (*journal.Closed, error) {
			return b.Abandon(t.Context(), session, turn.Ref, turnstate.Admission{OpenedAtOrdinal: 1}, nil)
		},
	}
	for name, end := range ends {
		for state, known := range map[string]map[string]tool.Outcome{
			"waiting": nil, "timed out": {"1-0": tool.ApprovalTimedOut()},
		} {
			t.Run(name+" while "+state, func(t *testing.T) {
				b := newBench(t)
				b.responds("", calls(1, "pay")...)
				turn, bulk := b.reason(newTurn("demo-1"), with(guardedTool("pay")))
				ref, _, err := b.Keep(t.Context(), turn, approve, nil)
				if err != nil {
					t.Fatal(err)
				}
				closed, err := end(b, turn, facts{Outcomes: known, Planned: planned(bulk)}.step())
				if err != nil {
					t.Fatal(err)
				}
				if call := closed.Transition.ToolCalls[0]; call.State != v1alpha1.ToolCallStateUnknown ||
					call.Reason != "TurnEnded" {
					t.Errorf("the call is %+v", call)
				}
				if len(closed.Settled) != 1 || closed.Settled[0].Ordinal != ref.Ordinal {
					t.Errorf("settled %+v", closed.Settled)
				}
			})
		}
	}
}

func TestTheEndOfATurnKnowsThatAnApprovedCallWasNotLetGo(t *testing.T) {
	b := newBench(t)
	b.responds("", calls(1, "pay")...)
	turn, _ := b.reason(newTurn("demo-1"), with(guardedTool("pay")))
	if _, _, err := b.Keep(
		t.Context(),
		turn,
		journal.SettledCall{ID: "1-0", Decision: v1alpha1.DecisionApprove},
		nil,
	); err != nil {
		t.Fatal(err)
	}
	act.Approve(&turn.Progress.ToolCalls[0])
	(*act.Step)(nil).Withdraw(turn.Progress.ToolCalls)
	closed, err := b.Cancel(t.Context(), turn, nil)
	if err != nil || closed.Transition.ToolCalls[0].State != v1alpha1.ToolCallStateNotExecuted {
		t.Errorf("closed as %+v, error %v", closed, err)
	}
}
