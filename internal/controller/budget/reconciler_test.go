package budget

import (
	"context"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller/fieldindex"
	"github.com/capstan-dev/capstan/internal/runtime/budget"
	"github.com/capstan-dev/capstan/internal/runtime/budget/keeper"
)

// api is a client of an API server, or of a cache, with objects.
func api(t *testing.T, hooks interceptor.Funcs, objects ...client.Object) client.WithWatch {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	b := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...)
	for _, index := range fieldindex.All() {
		if _, ok := index.Object.(*v1alpha1.Turn); ok {
			b = b.WithIndex(index.Object, index.Field, index.Values)
		}
	}
	return interceptor.NewClient(b.Build(), hooks)
}

// turnAt is a Turn with an open step; 0 for none.
func turnAt(step int32, phase v1alpha1.TurnPhase) *v1alpha1.Turn {
	turn := &v1alpha1.Turn{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "demo-1", UID: "turn"}}
	turn.Status.Phase = phase
	if step > 0 {
		turn.Status.Plan = &v1alpha1.TurnPlan{Step: step, Phase: v1alpha1.PlanPhaseReason}
	}
	return turn
}

func TestAReservationIsForfeitedOnlyWhenItsStepHasEnded(t *testing.T) {
	for name, test := range map[string]struct {
		cached, live *v1alpha1.Turn
		want         bool
	}{
		"the step is open":              {cached: turnAt(3, v1alpha1.TurnPhaseReason)},
		"a later step is open":          {cached: turnAt(4, v1alpha1.TurnPhaseAct), want: true},
		"the cache has an earlier step": {cached: turnAt(2, v1alpha1.TurnPhaseAct)},
		"the cache has no plan":         {cached: turnAt(0, "")},
		"the cache does not have it":    {live: turnAt(3, v1alpha1.TurnPhaseReason)},
		"it is gone":                    {want: true},
	} {
		t.Run(name, func(t *testing.T) {
			var cached, live []client.Object
			if test.cached != nil {
				cached = append(cached, test.cached)
			}
			if test.live != nil {
				live = append(live, test.live)
			}
			r := &Reconciler{Client: api(t, interceptor.Funcs{}, cached...), Live: api(t, interceptor.Funcs{}, live...)}
			got, err := r.hasMovedOn(t.Context(), &liveTurns{client: r.Live, namespace: "ns"}, budget.Key{Turn: "turn", Step: 3})
			if err != nil || got != test.want {
				t.Errorf("moved on: %t, %v", got, err)
			}
		})
	}
}

func TestATurnThatMovesOnWhileItIsReadIsNotMissed(t *testing.T) {
	var watched []types.NamespacedName
	r := &Reconciler{Keeper: keeper.New(&keeper.Memory{}, time.Now)}
	turn := turnAt(3, v1alpha1.TurnPhaseReason)
	r.Client = api(t, interceptor.Funcs{List: func(
		ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption,
	) error {
		err := c.List(ctx, list, options...)
		for _, request := range r.ofTurn(ctx, turn) {
			watched = append(watched, request.NamespacedName)
		}
		return err
	}}, turn)
	b := &v1alpha1.Budget{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "b", UID: "b"}}
	b.Spec.Limit = "10"
	b.Status.Reservations = []v1alpha1.BudgetReservation{
		{TurnUID: "turn", Step: 3, Try: 1, Holder: "another", Amount: "1"},
	}
	if err := r.forfeit(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if want := (types.NamespacedName{Namespace: "ns", Name: "b"}); len(watched) != 1 || watched[0] != want {
		t.Errorf("a change of the Turn wakes %v", watched)
	}
}

func TestTheTurnsOfANamespaceAreReadOncePastTheCache(t *testing.T) {
	reads := 0
	counting := interceptor.Funcs{List: func(
		ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption,
	) error {
		reads++
		return c.List(ctx, list, options...)
	}}
	cached, live := turnAt(3, v1alpha1.TurnPhaseReason), turnAt(3, v1alpha1.TurnPhaseReason)
	live.UID = "behind"
	r := &Reconciler{
		Keeper: keeper.New(&keeper.Memory{}, time.Now),
		Client: api(t, interceptor.Funcs{}, cached), Live: api(t, counting, live),
	}
	b := &v1alpha1.Budget{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "b", UID: "b"}}
	b.Spec.Limit = "10"
	reserved := func(turns ...types.UID) {
		b.Status.Reservations = nil
		for _, turn := range turns {
			b.Status.Reservations = append(b.Status.Reservations,
				v1alpha1.BudgetReservation{TurnUID: turn, Step: 3, Try: 1, Holder: "another", Amount: "1"})
		}
	}
	for _, test := range []struct {
		turns []types.UID
		want  int
	}{{[]types.UID{"turn"}, 0}, {[]types.UID{"turn", "gone-1", "behind", "gone-2", "gone-3"}, 1}} {
		reads = 0
		reserved(test.turns...)
		if err := r.forfeit(t.Context(), b); err != nil || reads != test.want {
			t.Errorf("%d reads past the cache for %v: %v", reads, test.turns, err)
		}
	}
}
