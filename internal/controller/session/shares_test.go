package session

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller/fieldindex"
	"github.com/capstan-dev/capstan/internal/controller/wake"
	"github.com/capstan-dev/capstan/internal/runtime/fairshare"
	"github.com/capstan-dev/capstan/internal/runtime/invocation"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	journalmemory "github.com/capstan-dev/capstan/internal/runtime/journal/memory"
	"github.com/capstan-dev/capstan/internal/runtime/step"
)

// cluster has Sessions with a Turn each, and the reconciler that admits them.
type cluster struct {
	*Reconciler
	t       *testing.T
	objects []client.Object
}

// session adds a Session with a Turn in a phase; the empty phase is a Turn that is queued.
func (c *cluster) session(namespace, name string, phase v1alpha1.TurnPhase) types.NamespacedName {
	ready := []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue}}
	model := &v1alpha1.Model{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "model"}}
	model.Status.Conditions = ready
	harness := &v1alpha1.Harness{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "harness"}}
	harness.Spec.ModelRef = &v1alpha1.LocalReference{Name: "model"}
	harness.Status.Conditions = ready
	session := &v1alpha1.Session{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(namespace + "/" + name)},
	}
	session.Spec.HarnessRef.Name = "harness"
	turn := &v1alpha1.Turn{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name + "-1", UID: types.UID(namespace + "/" + name + "-1")},
	}
	turn.Spec.SessionRef.Name = name
	if phase != "" {
		session.Status.ActiveTurn = &v1alpha1.ActiveTurn{Name: turn.Name, UID: turn.UID}
		turn.Status.Phase = phase
		turn.Status.Plan = &v1alpha1.TurnPlan{Step: 2, OpenedAtOrdinal: 2}
	}
	if c.objects == nil || c.objects[len(c.objects)-1].GetNamespace() != namespace {
		c.objects = append(c.objects, model, harness)
	}
	c.objects = append(c.objects, session, turn)
	return client.ObjectKeyFromObject(session)
}

// start creates the reconciler, as a new process does.
func (c *cluster) start(limits fairshare.TurnsOptions) {
	c.t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		c.t.Fatal(err)
	}
	builder := fake.NewClientBuilder().WithScheme(scheme).WithObjects(c.objects...).WithStatusSubresource(c.objects...)
	for _, index := range fieldindex.All() {
		builder = builder.WithIndex(index.Object, index.Field, index.Values)
	}
	api := builder.Build()
	c.Reconciler = &Reconciler{
		Activities: newExecutor(),
		Client:     api, Live: api, Clock: time.Now,
		Turns: fairshare.NewTurns(limits), Wakes: &wake.Source{}, TurnWakes: &wake.Source{},
		Steps: &step.Runner{
			Runner: invocation.Runner{
				Log:   journal.New(journalmemory.New(), journal.Options{}),
				Clock: time.Now,
			},
		},
	}
}

// pass reconciles Sessions in the given order.
func (c *cluster) pass(sessions ...types.NamespacedName) {
	c.t.Helper()
	for _, key := range sessions {
		if _, err := c.Reconcile(context.Background(), ctrl.Request{NamespacedName: key}); err != nil {
			c.t.Fatal(err)
		}
	}
}

// active counts the Sessions that have an active Turn.
func (c *cluster) active(sessions ...types.NamespacedName) int {
	c.t.Helper()
	n := 0
	for _, key := range sessions {
		session := &v1alpha1.Session{}
		if err := c.Client.Get(context.Background(), key, session); err != nil {
			c.t.Fatal(err)
		}
		if session.Status.ActiveTurn != nil {
			n++
		}
	}
	return n
}

func TestTurnsThatWaitForToolResultsHoldNoSlot(t *testing.T) {
	c := &cluster{t: t}
	var waiting []types.NamespacedName
	for i := range 3 {
		waiting = append(waiting, c.session("a", fmt.Sprint("waits-", i), v1alpha1.TurnPhaseWaitingForToolResults))
	}
	queued := c.session("b", "queued", "")
	c.start(fairshare.TurnsOptions{Active: 3})
	c.pass(waiting...)
	c.pass(queued)
	if c.active(queued) != 1 {
		t.Error("three Turns of namespace a wait for people, and the Turn of namespace b is not admitted")
	}
}

func TestWhatIsActiveIsCountedBeforeAnythingIsAdmitted(t *testing.T) {
	c := &cluster{t: t}
	var queued, running []types.NamespacedName
	for i := range 3 {
		queued = append(queued, c.session("a", fmt.Sprint("queued-", i), ""))
		running = append(running, c.session("a", fmt.Sprint("runs-", i), v1alpha1.TurnPhaseReason))
	}
	c.start(fairshare.TurnsOptions{Active: 3})
	c.pass(queued...)
	c.pass(running...)
	if n := c.active(append(queued, running...)...); n != 3 {
		t.Errorf("%d Turns are active on 3 slots", n)
	}
}

func TestATurnThatTheCeilingHoldsBackIsWokenToReportIt(t *testing.T) {
	c := &cluster{t: t}
	waits, queued := c.session("a", "waits", v1alpha1.TurnPhaseWaitingForToolResults), c.session("a", "queued", "")
	c.start(fairshare.TurnsOptions{Active: 8, BegunPerNamespace: 1})
	turns := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[ctrl.Request]())
	defer turns.ShutDown()
	if err := c.TurnWakes.Start(t.Context(), turns); err != nil {
		t.Fatal(err)
	}
	c.pass(waits, queued)
	if c.active(queued) != 0 || turns.Len() != 1 {
		t.Fatalf("%d Turns are admitted over the ceiling, %d are woken", c.active(queued), turns.Len())
	}
	if woken, _ := turns.Get(); woken.Name != "queued-1" {
		t.Errorf("woken %s", woken.Name)
	}
}
