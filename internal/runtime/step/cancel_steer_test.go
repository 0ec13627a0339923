package step

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/journal/memory"
	"github.com/capstan-dev/capstan/internal/runtime/plan"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

// A message is cancelled while the entry that takes it in is on its way. The journal decides, and the Turn
// shows its decision.
func TestAMessageThatWasWithdrawnIsNotDelivered(t *testing.T) {
	for name, act := range map[string]bool{"by a model call": false, "by the end of an act step": true} {
		for when, before := range map[string]bool{"before it is taken in": true, "after it was taken in": false} {
			t.Run(when+" "+name, func(t *testing.T) {
				store := &interrupted{Store: memory.New()}
				b := onStore(t, store)
				other := onStore(t, store.Store)
				turn := newTurn("demo-1")
				if act {
					b.responds("", calls(1, "ask")...)
					turn, _ = b.reason(turn, with(clientTool("ask")))
				}
				steer := turnstate.Steer{Ref: v1alpha1.JournalTurn{Name: "demo-2", UID: "steer-uid"}, Input: "Delete everything."}
				cancelled := newTurn("demo-2")
				cancelled.Ref, cancelled.Input, cancelled.Progress = steer.Ref, steer.Input, v1alpha1.TurnProgress{}
				// A process whose cache is behind goes on offering the message.
				turn.Steers = func(context.Context) ([]turnstate.Steer, error) { return []turnstate.Steer{steer}, nil }
				var ended v1alpha1.TurnProgress
				var into *v1alpha1.JournalTurn
				cancel := func() {
					var err error
					if ended, into, err = other.CancelSteer(t.Context(), cancelled, 0); err != nil {
						t.Error(err)
					}
				}
				if before {
					store.before = cancel
				}
				b.responds("Done.")
				if act {
					closed, err := b.Act(t.Context(), turn, facts{Outcomes: answeredBy(turn)}.step())
					if err != nil && before {
						closed, err = b.Act(t.Context(), turn, facts{Outcomes: answeredBy(turn)}.step())
					}
					if err != nil || len(closed.Steered) == 0 != before {
						t.Fatalf("closed as %+v, %v", closed, err)
					}
				} else {
					b.reason(turn, with())
				}
				if !before {
					cancel()
				}
				delivered := false
				for _, m := range b.transcript() {
					delivered = delivered || (m.Role == event.RoleUser && m.PlainText() == steer.Input)
				}
				if delivered == before || (into != nil) != delivered || (ended.Phase == v1alpha1.TurnPhaseCancelled) == delivered {
					t.Errorf("delivered: %v; its Turn is %s and went into %+v", delivered, ended.Phase, into)
				}
				// It stays unchanged for every later reader.
				again, _, err := b.CancelSteer(t.Context(), cancelled, 0)
				if err != nil || again.Phase != ended.Phase {
					t.Errorf("asked again, it is %s, %v", again.Phase, err)
				}
			})
		}
	}
}

// answeredBy are outcomes for all calls of a Turn.
func answeredBy(turn turnstate.Turn) map[string]tool.Outcome {
	outcomes := map[string]tool.Outcome{}
	for _, call := range turn.Progress.ToolCalls {
		outcomes[call.ID] = succeeded("yes")
	}
	return outcomes
}

// A Turn whose message went into another one was admitted before its status showed it, and is deleted then.
func TestAMessageThatWentIntoAnotherTurnIsNotAbandoned(t *testing.T) {
	b := newBench(t)
	turn, _ := b.reason(steeredBy(newTurn("demo-1"), message("demo-2", "And Bob?")), with())
	_, last := b.reason(turn, with())
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	closed, err := b.Abandon(
		ctx,
		session,
		message("demo-2", "").Ref,
		turnstate.Admission{OpenedAtOrdinal: last.Ordinal + 1},
		nil,
	)
	if closed != nil || err != nil {
		t.Errorf("the Turn was ended by %+v, %v", closed, err)
	}
	late := newTurn("demo-2")
	late.Ref, late.Progress = message("demo-2", "").Ref, plan.Begin(last.Ordinal+1, b.micro())
	if _, err := b.Cancel(ctx, late, nil); !errors.Is(err, journal.ErrSteered) {
		t.Errorf("the Turn can be ended once more: %v", err)
	}
}
