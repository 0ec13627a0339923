package turn

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/budget"
	"github.com/capstan-dev/capstan/internal/runtime/budget/keeper"
	"github.com/capstan-dev/capstan/internal/runtime/fairshare"
	"github.com/capstan-dev/capstan/internal/runtime/model"
)

// budgeted gives the processes of a world a Budget in tokens that has room for one call at a time.
type budgeted struct {
	w      *world
	store  *keeper.Memory
	keeper *keeper.Keeper
}

// limit puts the calls of a process under a Budget.
func (w *world) limit(m *manager) *budgeted {
	w.t.Helper()
	b := &budgeted{w: w, store: &keeper.Memory{Session: func(string) *v1alpha1.Session { return w.session() }}}
	b.store.Apply(&v1alpha1.Budget{
		ObjectMeta: metav1.ObjectMeta{Namespace: testNamespace, Name: "b", UID: "b", Generation: 1},
		Spec:       v1alpha1.BudgetSpec{Unit: v1alpha1.BudgetUnitTokens, Limit: "30000"},
	})
	b.keeper = keeper.New(b.store, w.present)
	m.Steps.Budgets = b.keeper
	w.changeModel(func(model *v1alpha1.Model) {
		model.Spec.Parameters = &v1alpha1.ModelParameters{MaxOutputTokens: ptr.To[int32](20000)}
	})
	return b
}

// reserve reserves the worst case of a call of another Turn.
func (b *budgeted) reserve(turn types.UID) (*keeper.Charge, error) {
	other := &v1alpha1.Model{
		ObjectMeta: metav1.ObjectMeta{Name: "other"},
		Spec:       v1alpha1.ModelSpec{Parameters: &v1alpha1.ModelParameters{MaxOutputTokens: ptr.To[int32](20000)}},
	}
	session := b.w.session()
	return b.keeper.Reserve(b.w.t.Context(), budget.Payer{
		Namespace: testNamespace, Root: session.Name, RootUID: session.UID, Turn: turn, Step: 1,
	}, other, model.Request{})
}

// end ends the call of another Turn, which has cost nothing.
func (b *budgeted) end(charge *keeper.Charge) {
	b.w.t.Helper()
	charge.Settle(keeper.Outcome{Free: true})
	if err := b.keeper.Flush(b.w.t.Context()); err != nil {
		b.w.t.Fatal(err)
	}
}

// waitsForBudget reports whether the Turn of the world waits for a Budget.
func (w *world) waitsForBudget() bool {
	waits := w.turn().Status.WaitsFor
	return len(waits) == 1 && waits[0].Type == v1alpha1.WaitTypeBudget
}

func TestRoomOfATurnThatStopsForAnotherReasonIsThereForOthers(t *testing.T) {
	for name, stopped := range map[string]func(*world){
		"its Model is known to have no key": func(w *world) {
			w.judge(v1alpha1.ReasonSecretMissing, "Create it.")
		},
		"its call finds no key": func(*world) {},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t).begin()
			m := w.manager(0)
			b := w.limit(m)
			charge, err := b.reserve("other")
			if err != nil {
				t.Fatal(err)
			}
			m.until("the Turn waits for room", w.waitsForBudget)
			secrets := w.lockUp(m)
			stopped(w)
			b.end(charge)
			m.until("the Turn waits for its key", func() bool {
				waits := w.turn().Status.WaitsFor
				return len(waits) == 1 && waits[0].Type == v1alpha1.WaitTypeReference && m.Activities.Len() == 0
			})
			if charge, err = b.reserve("another"); err != nil {
				t.Fatalf("the room is kept for a Turn that makes no call: %v", err)
			}
			b.end(charge)
			secrets.there = true
			w.judge(v1alpha1.ReasonReady, "The Model can be called.")
			m.until("the Turn has succeeded", func() bool { return w.turn().Status.Phase == v1alpha1.TurnPhaseSucceeded })
		})
	}
}

func TestATurnThatWaitsForAPriceChecksItOnceForEachChangeOfItsModel(t *testing.T) {
	w := newWorld(t).begin()
	m := w.manager(0)
	w.limit(m)
	w.changeModel(func(model *v1alpha1.Model) { model.Spec.Parameters = nil })
	m.until("the Turn waits for the parameter", w.waitsForBudget)
	version := w.turn().ResourceVersion
	for range 3 {
		if result, err := m.pass(); err != nil || result.RequeueAfter != 0 {
			t.Errorf("a pass returns %+v, %v", result, err)
		}
	}
	if w.turn().ResourceVersion != version || len(w.asked) > 0 {
		t.Error("the wait has cost a write or a call")
	}
	w.changeModel(func(model *v1alpha1.Model) {
		model.Spec.Parameters = &v1alpha1.ModelParameters{MaxOutputTokens: ptr.To[int32](100)}
	})
	m.until("the Turn has succeeded", func() bool { return w.turn().Status.Phase == v1alpha1.TurnPhaseSucceeded })
}

func TestATurnThatWaitsForASlotKeepsItsRoom(t *testing.T) {
	w := newWorld(t).begin()
	m := w.manager(0)
	b := w.limit(m)
	charge, err := b.reserve("other")
	if err != nil {
		t.Fatal(err)
	}
	m.until("the Turn waits for room", w.waitsForBudget)
	for _, session := range []types.UID{"1", "2", "3", "4", "5", "6", "7", "8"} {
		m.Turns.Adopt(fairshare.Begun{Session: session, Namespace: "other"})
	}
	b.end(charge)
	if _, err := m.pass(); err != nil {
		t.Fatal(err)
	}
	if _, err := b.reserve("another"); err == nil {
		t.Fatal("another call has the room of the Turn")
	}
	m.Turns.End("1")
	m.until("the Turn has succeeded", func() bool { return w.turn().Status.Phase == v1alpha1.TurnPhaseSucceeded })
}
