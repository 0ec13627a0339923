package turn

import (
	"context"
	"testing"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/hook"
	"github.com/capstan-dev/capstan/internal/runtime/queue"
)

// heldHook is an executor of hooks that ends a run when the test lets it.
type heldHook struct {
	ran     chan hook.Call
	release chan struct{}
	// outcome of a run.
	outcome hook.Outcome
	// began is called when a run begins; nil for nothing.
	began func()
}

func (h *heldHook) Run(ctx context.Context, c hook.Call) hook.Outcome {
	h.ran <- c
	if h.began != nil {
		h.began()
	}
	select {
	case <-h.release:
		return h.outcome
	case <-ctx.Done():
		return hook.Fail("%v", ctx.Err())
	}
}

// ending adds a hook at the end of Turns to the Session.
func (w *world) ending() *heldHook {
	w.t.Helper()
	return w.hooked(v1alpha1.HookEventTurnEnd)
}

// hooked adds a hook at an event to the Session.
func (w *world) hooked(event v1alpha1.HookEvent) *heldHook {
	w.t.Helper()
	session := w.session()
	w.change(session, func() {
		session.Spec.Hooks = []v1alpha1.Hook{{
			Name: "report", Event: event, CEL: &v1alpha1.CELHook{Expression: "true"},
		}}
	})
	return &heldHook{
		outcome: hook.Outcome{Decision: hook.Allow}, ran: make(chan hook.Call, 8), release: make(chan struct{}),
	}
}

// Rules: TURN-16.
func TestTheHooksAtTheEndOfATurnRunBeforeItsStatusShowsTheEnd(t *testing.T) {
	for name, tools := range map[string][]*v1alpha1.Tool{"without tools": nil, "with tools": pureTool()} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t).begin(tools...)
			h := w.ending()
			m := w.manager(0)
			m.Steps.Hooks.CEL = h
			h.began = func() { m.woken <- struct{}{} }
			m.until("the hooks", func() bool { return len(h.ran) > 0 })
			<-h.ran
			for range 3 {
				if _, err := m.pass(); err != nil {
					t.Fatal(err)
				}
			}
			if queue.Finished(w.turn()) || len(h.ran) != 0 {
				t.Fatalf("the Turn is %s while its hooks run, which began %d times more", w.turn().Status.Phase, len(h.ran))
			}
			close(h.release)
			m.until("its end", func() bool { return queue.Finished(w.turn()) })
			if len(h.ran) != 0 {
				t.Errorf("the hook ran %d times more", len(h.ran))
			}
		})
	}
}

// Rules: TURN-16.
func TestAnotherProcessRunsTheHooksAtTheEndThatAreNotRecorded(t *testing.T) {
	for name, recorded := range map[string]bool{"recorded": true, "not recorded": false} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t).begin()
			h := w.ending()
			close(h.release)
			m := w.manager(0)
			m.Steps.Hooks.CEL = h
			entries := int64(1)
			if recorded {
				entries = 2
			}
			for w.head() < entries {
				if _, err := m.pass(); err != nil {
					t.Fatal(err)
				}
				<-m.woken
			}
			if queue.Finished(w.turn()) {
				t.Fatal("the Turn has ended")
			}
			next := w.manager(0)
			next.Steps.Hooks.CEL = h
			next.until("its end", func() bool { return queue.Finished(w.turn()) })
			if len(h.ran) != 1 || w.head() != 2 || len(w.asked) != 1 {
				t.Errorf("%d runs, %d entries, %d model calls", len(h.ran), w.head(), len(w.asked))
			}
		})
	}
}

// Rules: TURN-16.
func TestATurnThatItsSessionHasLostRunsTheHooksAtItsEnd(t *testing.T) {
	w := newWorld(t).begin()
	h := w.ending()
	close(h.release)
	m := w.manager(0)
	if _, err := m.pass(); err != nil {
		t.Fatal(err)
	}
	<-m.woken
	w.readmit(1)
	next := w.manager(0)
	next.Steps.Hooks.CEL = h
	next.until("its end", func() bool { return queue.Finished(w.turn()) })
	if len(h.ran) != 1 || w.head() != 2 || len(w.asked) != 1 {
		t.Errorf("%d runs, %d entries, %d model calls", len(h.ran), w.head(), len(w.asked))
	}
}
