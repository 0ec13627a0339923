package turn

import (
	"context"
	"errors"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

// dying starts another process, which has led before and still acts: it dies before it writes the status of a Turn.
func (w *world) dying() *manager {
	w.hooks.SubResourcePatch = func(
		ctx context.Context, c client.Client, sub string, o client.Object, patch client.Patch,
		options ...client.SubResourcePatchOption,
	) error {
		if turn, ok := o.(*v1alpha1.Turn); ok && turn.Name == turnName {
			return errors.New("connection refused")
		}
		return c.SubResource(sub).Patch(ctx, o, patch, options...)
	}
	defer func() { w.hooks.SubResourcePatch = nil }()
	return w.manager(0)
}

// failing passes until the process cannot write the status.
func (m *manager) failing() {
	m.w.t.Helper()
	for range 20 {
		if _, err := m.pass(); err != nil {
			return
		}
	}
	m.w.t.Fatal("the other process has not come to write the status")
}

// acceptedBy returns a ToolResult that the other process has accepted before it died.
func (w *world) acceptedBy(other *manager, given *v1alpha1.ToolResult) client.Object {
	w.t.Helper()
	other.failing()
	w.expectAccepted(given)
	return given
}

// Another process accepts a result or a message, records that on its object and dies. Nothing is left that would make
// the leader append to the journal, where it would find the entry of the other one.
func TestATurnFindsWhatAnotherProcessHasAccepted(t *testing.T) {
	clients := func() []*v1alpha1.Tool {
		return []*v1alpha1.Tool{builder.ClientTool("human").Obj(), builder.ClientTool("other").Obj()}
	}
	for name, test := range map[string]struct {
		tools func() []*v1alpha1.Tool
		// take lets the other process take what ends the wait, and returns the object whose event wakes the leader.
		take func(w *world, other *manager) client.Object
		is   func(w *world) bool
	}{
		"one of two answers": {
			tools: clients,
			take:  func(w *world, other *manager) client.Object { return w.acceptedBy(other, w.answer("human", "yes")) },
			is:    func(w *world) bool { return w.call("human").State == v1alpha1.ToolCallStateSucceeded },
		},
		"both answers": {
			tools: clients,
			take: func(w *world, other *manager) client.Object {
				w.answer("human", "yes")
				return w.acceptedBy(other, w.answer("other", "yes"))
			},
			is: (*world).finished,
		},
		"an approval": {
			tools: func() []*v1alpha1.Tool { return []*v1alpha1.Tool{guardedTool("pay")} },
			take:  func(w *world, other *manager) client.Object { return w.acceptedBy(other, w.approval("pay")) },
			is:    (*world).finished,
		},
		"a rejection": {
			tools: func() []*v1alpha1.Tool {
				return []*v1alpha1.Tool{guardedTool("pay"), builder.ClientTool("human").Obj()}
			},
			take: func(w *world, other *manager) client.Object {
				return w.acceptedBy(other, w.decision("pay", v1alpha1.DecisionReject))
			},
			is: func(w *world) bool { return w.call("pay").State == v1alpha1.ToolCallStateNotExecuted },
		},
		"a message": {
			tools: clients,
			take: func(w *world, other *manager) client.Object {
				steered(w, nil)
				other.failing()
				if _, err := other.passOf("demo-2"); err != nil {
					w.t.Fatal(err)
				}
				return w.turnNamed("demo-2")
			},
			is: (*world).finished,
		},
		"a message, and dies before its status shows it": {
			tools: clients,
			take: func(w *world, other *manager) client.Object {
				steered(w, nil)
				other.failing()
				return w.turnNamed("demo-2")
			},
			is: (*world).finished,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t).begin(test.tools()...)
			m := w.manager(0)
			m.until("the wait", func() bool { return w.turn().Status.Phase == v1alpha1.TurnPhaseWaitingForToolResults })
			if _, err := m.pass(); err != nil {
				t.Fatal(err)
			}
			object := test.take(w, w.dying())
			if got := w.turn().Status.Phase; got != v1alpha1.TurnPhaseWaitingForToolResults {
				t.Fatalf("the other process has written phase %s", got)
			}
			m.expectWoken(object)
			m.seeJournal()
			m.until("the result that the other process has accepted", func() bool { return test.is(w) })
			if w.starts("pay") > 1 {
				t.Errorf("the approved call was started %d times", w.starts("pay"))
			}
		})
	}
}

// expectWoken fails unless the event that another process has taken an object wakes the Turn.
func (m *manager) expectWoken(object client.Object) {
	m.w.t.Helper()
	var passed bool
	var woken []reconcile.Request
	switch o := object.(type) {
	case *v1alpha1.Turn:
		if o.Status.SteeredInto == nil {
			passed, woken = newSteer().Create(event.CreateEvent{Object: o}), m.ofSteer(m.w.t.Context(), o)
			break
		}
		before := o.DeepCopy()
		before.Status = v1alpha1.TurnStatus{}
		passed = newlySteered().Update(event.UpdateEvent{ObjectOld: before, ObjectNew: o})
		woken = m.ofSteered(m.w.t.Context(), o)
	case *v1alpha1.ToolResult:
		before := o.DeepCopy()
		before.Status = v1alpha1.ToolResultStatus{}
		passed = concernsItsTurn().Update(event.UpdateEvent{ObjectOld: before, ObjectNew: o})
		woken = m.ofToolResult(m.w.t.Context(), o)
	}
	if !passed || len(woken) != 1 || woken[0].Name != turnName {
		m.w.t.Errorf("the event passes: %v; it wakes %v", passed, woken)
	}
}

// seeJournal makes the process read the journal, as another Turn of the Session does.
func (m *manager) seeJournal() {
	m.w.t.Helper()
	if _, err := m.Steps.Log.View(m.w.t.Context(), turnstate.JournalOf(m.w.session()), 0); err != nil {
		m.w.t.Fatal(err)
	}
}

// A process that has just begun finds all that there is in the journal. The ToolResults and messages of all Turns wake
// none then.
func TestOldResultsWakeNoTurn(t *testing.T) {
	w := newWorld(t).begin(builder.ClientTool("human").Obj())
	m := w.manager(0)
	m.until("the wait", func() bool { return w.turn().Status.Phase == v1alpha1.TurnPhaseWaitingForToolResults })
	given := w.answer("human", "yes")
	m.until("the end", w.finished)
	w.expectAccepted(given)
	if concernsItsTurn().Create(event.CreateEvent{Object: given, IsInInitialList: true}) {
		t.Error("a process that begins wakes the Turn of each ToolResult that was accepted")
	}
	if !concernsItsTurn().Create(event.CreateEvent{Object: given}) {
		t.Error("a ToolResult that was accepted before its first event concerns no Turn")
	}
	if woken := m.ofToolResult(t.Context(), given); len(woken) > 0 {
		t.Errorf("a ToolResult of a step that is closed wakes %v", woken)
	}
	message := w.newTurn("demo-2", "Never mind.")
	message.Status.SteeredInto = &v1alpha1.TurnReference{Name: turnName, UID: w.turn().UID}
	if woken := w.manager(0).ofSteered(t.Context(), message); len(woken) > 0 {
		t.Errorf("the message of a Turn that the process has not looked at wakes %v", woken)
	}
	if newlySteered().Update(event.UpdateEvent{ObjectOld: message, ObjectNew: message}) {
		t.Error("each change of a message that was taken wakes the Turn")
	}
}
