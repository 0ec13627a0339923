package turn

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller/executor"
	"github.com/capstan-dev/capstan/internal/runtime/fairshare"
)

func TestAReplacedTurnEndsTheActivitiesOfTheOneBefore(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	turn := func(uid types.UID) *v1alpha1.Turn {
		return &v1alpha1.Turn{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "t", UID: uid}}
	}
	first := turn("1")
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(first).Build()
	pools := executor.Pools{Models: fairshare.NewPool(fairshare.Options{})}
	r := &Reconciler{
		Client:     c,
		Live:       c,
		Activities: executor.NewExecutor(pools, func(types.NamespacedName) {}),
		Clock:      time.Now,
	}
	key := client.ObjectKeyFromObject(first)
	if _, err := r.open(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	started, stopped := make(chan struct{}), make(chan struct{})
	r.Activities.Ensure(executor.Key{Turn: "1", Step: 1}, key, executor.Need{}, func(ctx context.Context) (any, error) {
		close(started)
		<-ctx.Done()
		close(stopped)
		return nil, ctx.Err()
	})

	<-started

	// The work queue merges the deletion and the creation into one pass.
	if err := c.Delete(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	if err := c.Create(t.Context(), turn("2")); err != nil {
		t.Fatal(err)
	}
	s, err := r.open(t.Context(), key)
	if err != nil || s.turn.UID != "2" {
		t.Fatalf("%+v, %v", s, err)
	}
	select {
	case <-stopped:
	case <-time.After(10 * time.Second):
		t.Errorf("the activity of the Turn that was deleted still runs; the executor holds %d", r.Activities.Len())
	}
}

func TestAnotherObjectOfTheNameIsANewOneForThoseItWakes(t *testing.T) {
	steer := func(uid types.UID) *v1alpha1.Turn {
		turn := &v1alpha1.Turn{ObjectMeta: metav1.ObjectMeta{UID: uid}}
		turn.Spec.Delivery = v1alpha1.DeliverySteer
		return turn
	}
	if !newSteer().Update(event.UpdateEvent{ObjectOld: steer("1"), ObjectNew: steer("2")}) {
		t.Error("a message that replaced another one in one event wakes no Turn")
	}
	if newSteer().Update(event.UpdateEvent{ObjectOld: steer("1"), ObjectNew: steer("1")}) {
		t.Error("a message that is updated wakes the Turn")
	}
	session := func(uid types.UID) *v1alpha1.Session {
		return &v1alpha1.Session{ObjectMeta: metav1.ObjectMeta{UID: uid}}
	}
	if !activeTurnChanged().Update(event.UpdateEvent{ObjectOld: session("1"), ObjectNew: session("2")}) {
		t.Error("a Session that replaced another one in one event wakes no Turn")
	}
}

// A Turn that is deleted and created again while the watch lags is not run with the memory of the first one.
func TestAReplacedTurnWaitsForTheWatch(t *testing.T) {
	w := newWorld(t).begin()
	m := w.manager(0)
	late := w.turn()
	var isLate atomic.Bool
	m.Client = interceptor.NewClient(m.Client.(client.WithWatch), interceptor.Funcs{
		Get: func(
			ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption,
		) error {
			if turn, isTurn := o.(*v1alpha1.Turn); isTurn && isLate.Load() {
				late.DeepCopyInto(turn)
				return nil
			}
			return c.Get(ctx, key, o, opts...)
		},
	})
	m.until("the plan", func() bool { return w.turn().Status.Plan != nil })
	isLate.Store(true)
	if err := w.client.Delete(t.Context(), w.turn()); err != nil {
		t.Fatal(err)
	}
	w.create(w.newTurn(turnName, "Another message."))
	second := w.turn()
	for range 3 {
		if _, err := m.pass(); err != nil {
			t.Fatal(err)
		}
		w.sleep(2 * freshnessLimit)
	}
	if got := w.turn(); got.ResourceVersion != second.ResourceVersion {
		t.Errorf("the second Turn was written: phase %s, %+v", got.Status.Phase, w.succeeded())
	}
}
