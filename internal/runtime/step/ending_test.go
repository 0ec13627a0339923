package step

import (
	"context"
	"errors"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/act"
	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/journal/memory"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

func succeeded(text string) tool.Outcome {
	return tool.Outcome{
		State:      v1alpha1.ToolCallStateSucceeded,
		Reason:     v1alpha1.ToolCallReasonCompleted,
		Result:     &text,
		Started:    true,
		StartedAt:  started,
		FinishedAt: started.Add(2e9),
	}
}

// acting is a Turn whose open step has a Job call 1-0 and a client call 1-1.
func (b *bench) acting() (turnstate.Turn, []journal.PlannedCall) {
	b.t.Helper()
	b.responds("", append(calls(1, "work"), calls(1, "ask")...)...)
	turn, closed := b.reason(newTurn("demo-1"), with(jobTool("work"), clientTool("ask")))
	return turn, planned(closed)
}

// Rules: TOOL-02, TOOL-03.
func TestTheEventsOfAnActStepAreInOrder(t *testing.T) {
	b := newBench(t)
	turn, bulk := b.acting()
	closed, err := b.Act(t.Context(), turn, facts{
		Outcomes: map[string]tool.Outcome{
			"1-0": succeeded("done"),
			"1-1": clientOutcome(journal.SettledCall{ID: "1-1", Error: pointerTo("away")}),
		},
		Sources: map[string]types.UID{"1-1": "result-uid"},
		Planned: bulk,
	}.step())
	if err != nil {
		t.Fatal(err)
	}
	b.expectTypes(
		closed.Events,
		"act.started tool.started tool.completed act.completed tool.completed",
	)
	p := closed.Transition
	if p.Phase != v1alpha1.TurnPhaseReason || p.Iteration != 2 || p.Plan.Step != 3 || p.Summary.Calls != "2/2, 1 failed" ||
		p.Summary.FailedToolCalls != 1 {
		t.Errorf("progress %+v, plan %+v, summary %+v", p, p.Plan, p.Summary)
	}
	if p.ToolCalls[0].State != v1alpha1.ToolCallStateSucceeded || p.ToolCalls[0].Preview != "done" ||
		p.ToolCalls[1].State != v1alpha1.ToolCallStateFailed ||
		p.ToolCalls[1].Preview != "away" {
		t.Errorf("calls %+v", p.ToolCalls)
	}
	if got := Sources(closed); len(got) != 1 || got[0] != "result-uid" {
		t.Errorf("sources %v", got)
	}
	if e := closed.Events[1]; !e.Time.Time.Equal(started) {
		t.Errorf("the tool started at %s, the event reports %s", started, e.Time)
	}
}

// Rules: CLIENT-06, DUR-08.
func TestACallWithoutAResultIsRepairedInThePrompt(t *testing.T) {
	b := newBench(t)
	turn, bulk := b.acting()
	closed, err := b.Act(
		t.Context(),
		turn,
		facts{
			Outcomes: map[string]tool.Outcome{"1-0": succeeded("done"), "1-1": act.NoClientOutcome()},
			Planned:  bulk,
		}.step(),
	)
	if err != nil {
		t.Fatal(err)
	}
	b.expectTypes(closed.Events, "act.started tool.started tool.completed act.completed")
	b.responds("Well.")
	_, closed = b.reason(after(turn, closed), with())
	b.expectTypes(
		closed.Events,
		"reason.started transcript.repaired output.message.started llm.generation output.message.completed reason.completed "+
			"turn.completed session.idled",
	)
	last := b.asked[len(b.asked)-1].Messages
	if m := event.Unfenced(last[len(last)-1]); m.ToolCallID != "1-1" || m.Error != event.SentenceNotExecuted {
		t.Errorf("the model reads %+v", m)
	}
}

func TestAResultInTheJournalMustBeCollected(t *testing.T) {
	b := newBench(t)
	turn, bulk := b.acting()
	ref, _, err := b.Log.Settle(
		t.Context(),
		session,
		turn.Ref,
		turn.Step(),
		turn.Progress.Plan.OpenedAtOrdinal,
		journal.SettledCall{ID: "1-1", Source: "first", Result: pointerTo("yes")},
	)
	if err != nil {
		t.Fatal(err)
	}
	results := facts{
		Outcomes: map[string]tool.Outcome{"1-0": succeeded("done"), "1-1": succeeded("no")},
		Planned:  bulk,
	}
	if _, err := b.Act(t.Context(), turn, results.step()); !errors.Is(err, journal.ErrStale) {
		t.Fatalf("error %v, want %v", err, journal.ErrStale)
	}
	results.Outcomes["1-1"] = clientOutcome(ref.Call)
	results.Settled = map[string]journal.SettledRef{"1-1": ref}
	closed, err := b.Act(t.Context(), turn, results.step())
	if err != nil || len(closed.Settled) != 1 {
		t.Fatalf("settled %+v, error %v", closed, err)
	}
}

func TestCancelInAReasonStep(t *testing.T) {
	b := newBench(t)
	turn := newTurn("demo-1")
	closed, err := b.Cancel(t.Context(), turn, nil)
	if err != nil {
		t.Fatal(err)
	}
	b.expectTypes(closed.Events, openingTypes, failedTypes)
	p := closed.Transition
	if p.Phase != v1alpha1.TurnPhaseCancelled || p.Error.Code != "cancelled" ||
		p.Plan.Phase != v1alpha1.PlanPhaseComplete ||
		p.Summary.FinishedAt == nil {
		t.Errorf("progress %+v", p)
	}
	// The response that comes too late changes nothing.
	turn, late := b.reason(turn, with())
	if !late.Adopted || turn.Progress.Phase != v1alpha1.TurnPhaseCancelled {
		t.Errorf("adopted %v, phase %s", late.Adopted, turn.Progress.Phase)
	}
}

func TestCancelAdoptsWhatIsDecided(t *testing.T) {
	b := newBench(t)
	b.reason(newTurn("demo-1"), with())
	closed, err := b.Cancel(t.Context(), newTurn("demo-1"), nil)
	if err != nil || !closed.Adopted || closed.Transition.Phase != v1alpha1.TurnPhaseSucceeded {
		t.Errorf("adopted %+v, error %v", closed, err)
	}
}

// The outcomes of the calls of a cancelled act step: only a call that was certainly never released counts as not
// executed (invariant 4).
func TestCancelInAnActStepRecordsWhatIsKnownOfEachCall(t *testing.T) {
	const unknown, not = v1alpha1.ToolCallStateUnknown, v1alpha1.ToolCallStateNotExecuted
	for name, test := range map[string]struct {
		call  v1alpha1.ToolCall
		known *tool.Outcome
		want  v1alpha1.ToolCallState
	}{
		"AtMostOnce, withdrawn": {
			call: v1alpha1.ToolCall{
				Executor: v1alpha1.ToolExecutorJob, SideEffect: v1alpha1.SideEffectAtMostOnce, Attempt: 1, State: not,
				Preview: "no",
			},
			want: not,
		},
		"AtMostOnce, not withdrawn": {
			call: v1alpha1.ToolCall{
				Executor: v1alpha1.ToolExecutorJob, SideEffect: v1alpha1.SideEffectAtMostOnce, Attempt: 1,
				State: v1alpha1.ToolCallStatePending,
			},
			want: unknown,
		},
		"AtMostOnce, concluded": {
			call: v1alpha1.ToolCall{
				Executor: v1alpha1.ToolExecutorJob, SideEffect: v1alpha1.SideEffectAtMostOnce, Attempt: 1,
				State: v1alpha1.ToolCallStatePending,
			},
			known: &tool.Outcome{State: not, Error: "x"}, want: unknown,
		},
		"AtMostOnce, given to a pod": {
			call: v1alpha1.ToolCall{
				Executor: v1alpha1.ToolExecutorJob, SideEffect: v1alpha1.SideEffectAtMostOnce, Attempt: 1,
				State: v1alpha1.ToolCallStatePending, PodUID: "p",
			},
			want: unknown,
		},
		"Pure, according to status": {
			call: v1alpha1.ToolCall{
				Executor: v1alpha1.ToolExecutorJob, SideEffect: v1alpha1.SideEffectPure, Attempt: 1,
				State: v1alpha1.ToolCallStatePending,
			},
			want: unknown,
		},
		"Pure, seen to run": {
			call: v1alpha1.ToolCall{
				Executor: v1alpha1.ToolExecutorJob, SideEffect: v1alpha1.SideEffectPure, Attempt: 1,
				State: v1alpha1.ToolCallStateRunning,
			},
			want: unknown,
		},
		"waits for its approval": {
			call: v1alpha1.ToolCall{
				Executor: v1alpha1.ToolExecutorJob, SideEffect: v1alpha1.SideEffectPure,
				Policy: v1alpha1.ToolPolicyRequiresApproval, State: v1alpha1.ToolCallStateWaiting,
			},
			want: not,
		},
		"Pure, approved": {
			call: v1alpha1.ToolCall{
				Executor: v1alpha1.ToolExecutorJob, SideEffect: v1alpha1.SideEffectPure,
				Policy: v1alpha1.ToolPolicyRequiresApproval, Attempt: 1, State: v1alpha1.ToolCallStatePending,
			},
			want: unknown,
		},
		"a client's": {
			call: v1alpha1.ToolCall{Executor: v1alpha1.ToolExecutorClient, State: v1alpha1.ToolCallStateWaiting}, want: not,
		},
		"refused": {
			call: v1alpha1.ToolCall{
				Executor: v1alpha1.ToolExecutorNone, State: not, Reason: v1alpha1.ToolCallReasonInvalidArguments, Preview: "no",
			},
			want: not,
		},
		"ended, according to status": {
			call: v1alpha1.ToolCall{Executor: v1alpha1.ToolExecutorJob, State: v1alpha1.ToolCallStateSucceeded, Preview: "so"},
			want: v1alpha1.ToolCallStateFailed,
		},
		"ended, as this process knows": {
			call:  v1alpha1.ToolCall{Executor: v1alpha1.ToolExecutorJob, State: v1alpha1.ToolCallStatePending},
			known: pointerTo(succeeded("so")), want: v1alpha1.ToolCallStateSucceeded,
		},
		"failed, as this process knows": {
			call:  v1alpha1.ToolCall{Executor: v1alpha1.ToolExecutorJob, State: v1alpha1.ToolCallStateRunning, PodUID: "p"},
			known: &tool.Outcome{State: v1alpha1.ToolCallStateFailed, Error: "x"}, want: v1alpha1.ToolCallStateFailed,
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			turn := newTurn("demo-1")
			turn.Progress.Plan.Step, turn.Progress.Plan.Phase = 2, v1alpha1.PlanPhaseAct
			turn.Progress.Phase = v1alpha1.TurnPhaseAct
			test.call.ID, test.call.Name = "1-0", "t"
			turn.Progress.ToolCalls = []v1alpha1.ToolCall{test.call}
			turn.Progress.Summary.ToolCalls = 1
			known := facts{}
			if test.known != nil {
				known.Outcomes = map[string]tool.Outcome{"1-0": *test.known}
			}
			closed, err := b.Cancel(t.Context(), turn, known.step())
			if err != nil {
				t.Fatal(err)
			}
			p, counted := closed.Transition, "1/1"
			if test.want == v1alpha1.ToolCallStateFailed || test.want == v1alpha1.ToolCallStateUnknown {
				counted += ", 1 failed"
			}
			if p.ToolCalls[0].State != test.want || p.Summary.Calls != counted {
				t.Errorf("%+v, calls %s; want %s and %s", p.ToolCalls[0], p.Summary.Calls, test.want, counted)
			}
			messages := b.transcript()
			if m := messages[len(messages)-1]; m.Role != event.RoleToolResult || m.ToolCallID != "1-0" ||
				(m.Error == "") != (test.want == v1alpha1.ToolCallStateSucceeded) {
				t.Errorf("the next Turn's model reads %+v", m)
			}
		})
	}
}

func TestADeterminismViolationNamesCallAndJob(t *testing.T) {
	b := newBench(t)
	turn, bulk := b.acting()
	closed, err := b.Fail(
		t.Context(),
		turn,
		turnstate.DeterminismViolation(turn.Progress.ToolCalls[0], "tool-abc"),
		facts{Planned: bulk}.step(),
	)
	if err != nil {
		t.Fatal(err)
	}
	e := closed.Transition.Error
	if closed.Transition.Phase != v1alpha1.TurnPhaseFailed || e.Fields["call"] != "1-0" || e.Fields["job"] != "tool-abc" ||
		e.Fields["violation"] != "determinism" {
		t.Errorf("error %+v", e)
	}
}

func TestAFullJournalEndsTheTurnAndStatesWhatToDo(t *testing.T) {
	b := newBench(t)
	turn := newTurn("demo-1")
	turn.Session.Limit = 4 << 10
	b.responds(strings.Repeat("long ", 2000))
	closed, err := b.Reason(t.Context(), turn, with())
	if err != nil {
		t.Fatal(err)
	}
	b.expectTypes(closed.Events, openingTypes, failedTypes)
	if e := closed.Transition.Error; e.Code != v1alpha1.ErrorCodeJournalFull ||
		!strings.Contains(e.Message, "journalLimit of Session demo") {
		t.Errorf("error %+v", e)
	}

	b = newBench(t)
	turn, bulk := b.acting()
	turn.Session.Limit = 16 << 10
	closed, err = b.Act(
		t.Context(),
		turn,
		facts{
			Outcomes: map[string]tool.Outcome{"1-0": succeeded(strings.Repeat("x", 60<<10)), "1-1": succeeded("y")},
			Planned:  bulk,
		}.step(),
	)
	if err != nil {
		t.Fatal(err)
	}
	if closed.Transition.Error.Code != v1alpha1.ErrorCodeJournalFull ||
		closed.Transition.ToolCalls[0].State != v1alpha1.ToolCallStateSucceeded {
		t.Errorf("transition %+v", closed.Transition)
	}
}

// raced lets another writer append just before a create.
type raced struct {
	journal.Store
	before func()
}

// Create implements journal.Store.
func (r *raced) Create(ctx context.Context, s journal.Session, e *v1alpha1.JournalEntrySpec) error {
	if before := r.before; before != nil {
		r.before = nil
		before()
	}
	return r.Store.Create(ctx, s, e)
}

func TestAbandonEndsADeletedTurnWhereverItStands(t *testing.T) {
	for name, test := range map[string]struct {
		began func(b *bench)
		want  []string
		phase v1alpha1.TurnPhase
	}{
		"before its first step was closed": {
			began: func(*bench) {}, want: []string{failedTypes}, phase: v1alpha1.TurnPhaseCancelled,
		},
		"while its tools run": {
			began: func(b *bench) { b.acting() },
			want: []string{
				"act.started tool.completed act.completed tool.completed", failedTypes,
			}, phase: v1alpha1.TurnPhaseCancelled,
		},
		"after its end": {
			began: func(b *bench) { b.reason(newTurn("demo-1"), with()) },
			want:  []string{openingTypes, reasonTypes, "turn.completed session.idled"}, phase: v1alpha1.TurnPhaseSucceeded,
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			test.began(b)
			closed, err := b.Abandon(t.Context(), session, newTurn("demo-1").Ref, turnstate.Admission{OpenedAtOrdinal: 1}, nil)
			if err != nil {
				t.Fatal(err)
			}
			b.expectTypes(closed.Events, test.want...)
			if p := closed.Transition; p.Phase != test.phase || p.Plan.Phase != v1alpha1.PlanPhaseComplete {
				t.Errorf("phase %s, plan %+v", p.Phase, p.Plan)
			}
		})
	}
}

// A model call in progress may close the step first and plan tool calls. The Session must not be released before
// the Turn has ended.
func TestAbandonContinuesWhenAnotherProcessClosesTheStep(t *testing.T) {
	store := &raced{Store: memory.New()}
	b, other := onStore(t, store), onStore(t, store)
	store.before = func() { other.acting() }
	closed, err := b.Abandon(t.Context(), session, newTurn("demo-1").Ref, turnstate.Admission{OpenedAtOrdinal: 1}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if closed.Transition.Plan.Phase != v1alpha1.PlanPhaseComplete || closed.Step != 2 {
		t.Errorf("step %d is closed with plan %+v; the Turn has not ended", closed.Step, closed.Transition.Plan)
	}
}

func TestClientOutcome(t *testing.T) {
	if o := clientOutcome(
		journal.SettledCall{},
	); o.State != v1alpha1.ToolCallStateSucceeded || o.Result == nil ||
		*o.Result != "" {
		t.Errorf("no result at all: %+v", o)
	}
	if o := clientOutcome(
		journal.SettledCall{Result: pointerTo("r"), Error: pointerTo("e")},
	); o.State != v1alpha1.ToolCallStateFailed || o.Error != "e" ||
		o.Result != nil {
		t.Errorf("an error: %+v", o)
	}
}

func TestEventsOfEndedCalls(t *testing.T) {
	for name, test := range map[string]struct {
		outcome tool.Outcome
		status  string
	}{
		"a result": {succeeded("x"), event.StatusSuccess},
		"an error": {
			tool.Outcome{State: v1alpha1.ToolCallStateFailed, Reason: v1alpha1.ToolCallReasonExitCode, Error: "x"},
			event.StatusError,
		},
		"a timeout": {
			tool.Outcome{State: v1alpha1.ToolCallStateFailed, Reason: v1alpha1.ToolCallReasonTimeout, Error: "x"},
			event.StatusTimeout,
		},
		"never ran": {tool.Outcome{State: v1alpha1.ToolCallStateNotExecuted, Error: "x"}, event.StatusError},
		"unknown": {
			tool.Outcome{State: v1alpha1.ToolCallStateUnknown, Reason: v1alpha1.ToolCallReasonTimeout, Error: "x"},
			event.StatusInterrupted,
		},
		"empty error": {tool.Outcome{State: v1alpha1.ToolCallStateFailed}, event.StatusError},
	} {
		t.Run(name, func(t *testing.T) {
			got := completed(v1alpha1.ToolCall{ID: "1-0", Name: "t", Fingerprint: "f"}, "", test.outcome)
			if got.Status != test.status || got.Success != (test.status == event.StatusSuccess) || got.Fingerprint != "f" {
				t.Errorf("%+v, want status %s", got, test.status)
			}
		})
	}
	if ms := completed(v1alpha1.ToolCall{}, "", succeeded("x")).DurationMS; ms == nil || *ms != 2000 {
		t.Errorf("duration %v", ms)
	}
}

func pointerTo[T any](v T) *T { return &v }

// TestATurnThatNeverBeganIsNotAbandoned has a Turn vanish whose name another one had: it has ended without an entry of
// its own.
func TestATurnThatNeverBeganIsNotAbandoned(t *testing.T) {
	b := newBench(t)
	_, closed := b.reason(newTurn("demo-1"), with())
	ref := newTurn("demo-1").Ref
	ref.UID = "created-again"
	again, err := b.Abandon(t.Context(), session, ref, turnstate.Admission{OpenedAtOrdinal: closed.Ordinal + 1}, nil)
	if err != nil || again != nil {
		t.Errorf("abandoned with %+v, %v", again, err)
	}
	view, err := b.Log.View(t.Context(), session, 0)
	if err != nil || view.Head != closed.Ordinal {
		t.Errorf("the journal ends at %d, want %d: %v", view.Head, closed.Ordinal, err)
	}
}
