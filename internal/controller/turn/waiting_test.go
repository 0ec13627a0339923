package turn

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/fairshare"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/runtime/model/provider"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

// ended returns the ends of calls in the entries that follow the plan.
func (w *world) ended() string {
	w.t.Helper()
	log := journal.New(w.store, journal.Options{Clock: w.present})
	head := int64(0)
	for {
		view, err := log.View(w.t.Context(), turnstate.JournalOf(w.session()), head)
		if err != nil {
			w.t.Fatal(err)
		}
		if view.Head == head {
			break
		}
		head = view.Head
	}
	var results []string
	for ordinal := int64(2); ordinal <= head; ordinal++ {
		closed, err := log.Step(w.t.Context(), turnstate.JournalOf(w.session()), w.turn().UID, ordinal)
		if err != nil {
			continue // It closes no step.
		}
		for _, e := range closed.Events {
			if e.Type == event.TypeToolCompleted {
				results = append(results, string(e.Data.Raw))
			}
		}
	}
	return strings.Join(results, "\n")
}

// 64 calls of 96 KiB would hold 6 MiB until a person answers.
func TestTheArgumentsOfAWaitingTurnAreReadAgainWhenItContinues(t *testing.T) {
	for name, goOn := range map[string]func(w *world, m *manager) *manager{
		"it is answered": func(w *world, m *manager) *manager { w.answer("human", "yes"); return m },
		"one of two answers comes first": func(w *world, m *manager) *manager {
			w.answer("other", "yes")
			m.until("one answer is kept", func() bool { return w.call("other").State == v1alpha1.ToolCallStateSucceeded })
			m.expectNothingPlanned()
			w.answer("human", "yes")
			return m
		},
		"it is cancelled": func(w *world, m *manager) *manager { w.cancel(); return m },
		"a new process cancels it": func(w *world, _ *manager) *manager {
			w.cancel()
			return w.manager(0)
		},
		"a message comes": func(w *world, m *manager) *manager {
			steer := w.newTurn("demo-2", "Never mind.")
			steer.Spec.Delivery = v1alpha1.DeliverySteer
			w.create(steer)
			return m
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.calls = []string{"unheard-of"}
			w.begin(builder.ClientTool("human").Obj(), builder.ClientTool("other").Obj())
			m := w.manager(0)
			m.until("the Turn waits", func() bool { return w.turn().Status.Phase == v1alpha1.TurnPhaseWaitingForToolResults })
			m.expectNothingPlanned()
			if name == "it is answered" {
				w.answer("other", "yes")
			}
			m = goOn(w, m)
			m.until("the Turn has ended", w.finished)
			// The error of a call that was refused is with the arguments.
			if results := w.ended(); strings.Count(results, "Tool definition not found: unheard-of") != 1 {
				t.Errorf("the journal has of the calls %s", results)
			}
		})
	}
}

func (m *manager) expectNothingPlanned() {
	m.w.t.Helper()
	if kept := m.memories.of(client.ObjectKeyFromObject(m.w.turn()), m.w.turn().UID).step.known.Planned; kept != nil {
		m.w.t.Errorf("of a Turn that waits, the arguments of %d calls are in memory", len(kept))
	}
}

func TestATurnBetweenTwoTriesLeavesItsPlaceToOthers(t *testing.T) {
	st := newStage(t)
	st.answer = func() (*model.Response, error) {
		if st.asked == 1 {
			return nil, provider.StatusError("Test", "m", 429, 20*time.Second, "")
		}
		return &model.Response{Text: "Hello.", FinishReason: model.FinishStop}, nil
	}
	turns := st.r.Turns
	turns.Adopt(fairshare.Begun{Session: "session-uid", Namespace: "ns"})
	other, woken := types.UID("other"), 0
	begin := func() bool { return turns.Begin(other, "b", func() { woken++ }) }
	if begin() {
		t.Fatal("there is more than one place")
	}
	st.pass()
	if woken != 1 || !begin() {
		t.Fatalf("the place of a Turn in backoff is not given to another one, which was woken %d times", woken)
	}
	st.later(20 * time.Second)
	st.pass()
	if st.asked != 1 || st.turn().Status.Phase != v1alpha1.TurnPhaseWaiting {
		t.Errorf("%d model calls, phase %s: the Turn goes on without a place", st.asked, st.turn().Status.Phase)
	}
	turns.End(other)
	st.pass()
	st.expectSucceeded()
}
