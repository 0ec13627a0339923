package step

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/act"
	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/journal/journaltest"
	"github.com/capstan-dev/capstan/internal/runtime/journal/memory"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

// waitingTurn is a Turn that waits for a client beside three Jobs that have ended, and what is known of them.
func (b *bench) waitingTurn() (turnstate.Turn, *act.Step) {
	b.t.Helper()
	work, pay := jobTool("work"), jobTool("pay")
	work.Spec.SideEffect = v1alpha1.SideEffectPure
	made := append(calls(2, "work"), calls(1, "pay")...)
	b.responds("", append(made, calls(1, "ask")...)...)
	turn, closed := b.reason(newTurn("demo-1"), with(work, pay, clientTool("ask")))
	long := strings.Repeat("long text ", 6<<10)
	known := facts{
		Outcomes: map[string]tool.Outcome{
			"1-0": {
				State: v1alpha1.ToolCallStateSucceeded, Reason: "Completed", Result: &long, Started: true, StartedAt: started,
				FinishedAt: started.Add(time.Second), Image: "registry.example/tool@sha256:0123",
			},
			"1-1": {
				State:      v1alpha1.ToolCallStateFailed,
				Reason:     "ExitCode",
				Error:      long[:4<<10],
				Started:    true,
				StartedAt:  started,
				FinishedAt: started,
			},
			"1-2": {State: v1alpha1.ToolCallStateNotExecuted, Reason: "Refused", Error: "It was not started."},
		},
		Planned: planned(closed),
	}
	return turn, known.step()
}

// answered adds the client's result to what is known.
func answered(known *act.Step) *act.Step {
	outcome := clientOutcome(journal.SettledCall{ID: "1-3", Result: new("yes")})
	known.Row("1-3").Outcome = &outcome
	return known
}

// newFences matches the nonces, which are new with every event.
var newFences = regexp.MustCompile(`"fence":"[0-9a-f]+"`)

// callEvents returns the events of a step about its calls.
func callEvents(t *testing.T, closed *journal.Closed) string {
	t.Helper()
	var lines []string
	for _, e := range closed.Events {
		if e.Type == event.TypeToolCompleted || e.Type == event.TypeToolStarted {
			lines = append(
				lines,
				e.Type+" "+e.Time.String()[:19]+" "+e.Context[contextToolImage]+" "+newFences.ReplaceAllString(
					string(e.Data.Raw),
					"",
				),
			)
		}
	}
	return strings.Join(lines, "\n")
}

func TestAStepRecordsTheSameWithOrWithoutAPart(t *testing.T) {
	plain := newBench(t)
	turn, known := plain.waitingTurn()
	closed, err := plain.Act(t.Context(), turn, answered(known))
	if err != nil {
		t.Fatal(err)
	}
	want := callEvents(t, closed)

	b := newBench(t)
	turn, known = b.waitingTurn()
	if n, bytes := known.Held(turn.Progress.ToolCalls); n != 2 || bytes < 64<<10 {
		t.Errorf("%d outcomes of %d bytes are only in memory", n, bytes)
	}
	for range 2 { // Nothing is left to keep for the second time.
		if closed, err := b.KeepOutcomes(t.Context(), turn, known); err != nil || closed != nil {
			t.Fatalf("keeping gives %v, %v", closed, err)
		}
	}
	n, bytes := known.Held(turn.Progress.ToolCalls)
	view, err := b.Log.View(t.Context(), session, 0)
	if err != nil || n != 0 || bytes > 1<<10 || view.Head != 2 {
		t.Errorf("%d outcomes of %d bytes are in memory, the journal has %d entries, %v", n, bytes, view.Head, err)
	}
	if short, _ := known.Outcome("1-0"); short.State != v1alpha1.ToolCallStateSucceeded ||
		tool.ShownPreview(*short.Result) != tool.ShownPreview(strings.Repeat("long text ", 6<<10)) {
		t.Errorf("the short outcome is %+v", short)
	}
	closed, err = b.Act(t.Context(), turn, answered(known))
	if err != nil {
		t.Fatal(err)
	}
	if got := callEvents(t, closed); got != want {
		t.Errorf("the step has the events\n%s\nwant\n%s", got, want)
	}
	if len(closed.Settled) != 2 || closed.Settled[0].Ordinal != 2 {
		t.Errorf("the step takes in %+v", closed.Settled)
	}
}

// A process without memory ends the Turn, as one with memory does.
func TestEveryEndHasTheOutcomesOfThePart(t *testing.T) {
	for name, end := range map[string]func(*bench, context.Context, turnstate.Turn, *act.Step) (*journal.Closed, error){
		"cancelled": func(b *bench, ctx context.Context, t turnstate.Turn, r *act.Step) (*journal.Closed, error) {
			return b.Cancel(ctx, t, r)
		},
		"deleted": func(b *bench, ctx context.Context, t turnstate.Turn, r *act.Step) (*journal.Closed, error) {
			return b.Deleted(ctx, t, r)
		},
		"expired": func(b *bench, ctx context.Context, t turnstate.Turn, r *act.Step) (*journal.Closed, error) {
			return b.Expire(ctx, t, turnstate.WaitTimeout(time.Hour), r)
		},
		"abandoned": func(b *bench, ctx context.Context, t turnstate.Turn, _ *act.Step) (*journal.Closed, error) {
			return b.Abandon(ctx, t.Session, t.Ref, turnstate.Admission{OpenedAtOrdinal: 1}, nil)
		},
	} {
		for _, remembers := range []bool{true, false} {
			b := newBench(t)
			turn, known := b.waitingTurn()
			turn.Progress.ToolCalls[0].PodUID = "pod-uid"
			if _, err := b.KeepOutcomes(t.Context(), turn, known); err != nil {
				t.Fatal(err)
			}
			turn.Progress.ToolCalls[0].PodUID = "" // as another process may know it
			if !remembers {
				known = facts{Planned: known.Planned}.step()
			}
			closed, err := end(b, t.Context(), turn, known)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			text := callEvents(t, closed)
			if strings.Count(text, "long text ") < 6<<10+400 || !strings.Contains(text, "sha256:0123") {
				t.Errorf("%s, with memory: %v: the end has events of %d bytes", name, remembers, len(text))
			}
			if got := closed.Transition.ToolCalls[0]; got.PodUID != "pod-uid" || got.State != v1alpha1.ToolCallStateSucceeded {
				t.Errorf("%s, with memory: %v: the call is %s in pod %q", name, remembers, got.State, got.PodUID)
			}
		}
	}
}

// Of two processes the one whose part comes first decides; the other's memory follows it.
func TestTheFirstPartDecides(t *testing.T) {
	b := newBench(t)
	turn, first := b.waitingTurn()
	second := facts{
		Outcomes: map[string]tool.Outcome{"1-0": succeeded("another text"), "1-1": succeeded("well after all")},
		Planned:  first.Planned,
	}.step()
	if _, err := b.KeepOutcomes(t.Context(), turn, first); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Act(t.Context(), turn, answered(facts{Outcomes: map[string]tool.Outcome{
		"1-0": succeeded("another text"), "1-1": succeeded("well after all"), "1-2": succeeded("so"),
	}, Planned: first.Planned}.step())); !errors.Is(err, journal.ErrStale) {
		t.Fatalf("a step that knows nothing of the part is closed with %v", err)
	}
	if _, err := b.KeepOutcomes(t.Context(), turn, second); err != nil {
		t.Fatal(err)
	}
	if got, _ := second.Outcome("1-1"); got.State != v1alpha1.ToolCallStateFailed ||
		second.Row("1-0").RecordedOutcome.Ordinal == 0 || second.Row("1-1").RecordedOutcome.Ordinal == 0 {
		t.Errorf("the second process has %+v", got)
	}
}

// failingStore accepts no part with outcomes.
type failingStore struct {
	journal.Store
	err error
}

func (s failingStore) Create(ctx context.Context, of journal.Session, e *v1alpha1.JournalEntrySpec) error {
	if len(journaltest.Content(e).Outcomes) > 0 {
		return s.err
	}
	return s.Store.Create(ctx, of, e)
}

func TestAPartThatIsRefusedLeavesTheOutcomes(t *testing.T) {
	b := onStore(t, failingStore{memory.New(), errors.Join(journal.ErrRefused, errors.New("exceeded quota"))})
	turn, known := b.waitingTurn()
	asked := len(b.asked)
	if closed, err := b.KeepOutcomes(t.Context(), turn, known); !errors.Is(err, journal.ErrRefused) || closed != nil {
		t.Fatalf("keeping gives %v, %v", closed, err)
	}
	if n, bytes := known.Held(turn.Progress.ToolCalls); n != 2 || bytes < 64<<10 || known.AnyCut() {
		t.Errorf("%d outcomes of %d bytes are left, dropped: %v", n, bytes, known.AnyCut())
	}
	closed, err := b.Act(t.Context(), turn, answered(known))
	if err != nil || strings.Count(callEvents(t, closed), "long text ") < 6<<10 || len(b.asked) != asked {
		t.Errorf("the step is closed with %v, after %d model calls", err, len(b.asked)-asked)
	}
}

func TestAJournalWithoutRoomForThePartEndsTheTurn(t *testing.T) {
	b := newBench(t)
	turn, known := b.waitingTurn()
	turn.Session.Limit = 40 << 10
	closed, err := b.KeepOutcomes(t.Context(), turn, known)
	if err != nil || closed == nil || closed.Transition.Error == nil ||
		closed.Transition.Error.Code != v1alpha1.ErrorCodeJournalFull {
		t.Fatalf("keeping gives %+v, %v", closed, err)
	}
}
