package session

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller/fieldindex"
	"github.com/capstan-dev/capstan/internal/controller/wake"
	"github.com/capstan-dev/capstan/internal/runtime/fairshare"
	"github.com/capstan-dev/capstan/internal/runtime/invocation"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	journalmemory "github.com/capstan-dev/capstan/internal/runtime/journal/memory"
	"github.com/capstan-dev/capstan/internal/runtime/queue"
	"github.com/capstan-dev/capstan/internal/runtime/step"
)

// demoKey names the Session of the tests.
var demoKey = types.NamespacedName{Namespace: "ns", Name: "demo"}

// bench is the reconciler with a fake client and a Session that can be used.
type bench struct {
	*Reconciler
	t   *testing.T
	now time.Time
}

func newBench(t *testing.T, objects ...client.Object) *bench {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	model := &v1alpha1.Model{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:   "ns",
			Name:        "m",
			Annotations: map[string]string{v1alpha1.AnnotationDefaultModel: "true"},
		},
	}
	apimeta.SetStatusCondition(
		&model.Status.Conditions,
		metav1.Condition{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonReady},
	)
	objects = append(objects, model, &v1alpha1.Harness{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "base"}})
	builder := fake.NewClientBuilder().
		WithScheme(scheme).
		WithObjects(objects...).
		WithStatusSubresource(&v1alpha1.Session{}, &v1alpha1.Turn{})
	for _, index := range fieldindex.All() {
		builder = builder.WithIndex(index.Object, index.Field, index.Values)
	}
	c := builder.Build()
	b := &bench{t: t, now: now.Time}
	b.Reconciler = &Reconciler{
		Activities: newExecutor(),
		Client:     c,
		Live:       c,
		Clock:      func() time.Time { return b.now },
		Turns:      fairshare.NewTurns(fairshare.TurnsOptions{Active: 10}),
		Wakes:      &wake.Source{},
		TurnWakes:  &wake.Source{},
		Steps: &step.Runner{
			Runner: invocation.Runner{
				Log:   journal.New(journalmemory.New(), journal.Options{}),
				Clock: func() time.Time { return b.now },
			},
		},
	}
	return b
}

func newSession() *v1alpha1.Session {
	return &v1alpha1.Session{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "demo", UID: "s1"},
		Spec:       v1alpha1.SessionSpec{HarnessRef: v1alpha1.LocalReference{Name: "base"}},
	}
}

// inDemo returns a Turn of the tests' Session.
func inDemo(name string, change func(*v1alpha1.Turn)) *v1alpha1.Turn {
	turn := turnWith(name, change)
	turn.Namespace, turn.UID, turn.Spec.SessionRef.Name = "ns", types.UID(name), "demo"
	return turn
}

// request is that of the tests' Session.
func request() ctrl.Request { return ctrl.Request{NamespacedName: demoKey} }

// pass reconciles the Session once.
func (b *bench) pass() ctrl.Result {
	b.t.Helper()
	result, err := b.Reconcile(b.t.Context(), request())
	if err != nil {
		b.t.Fatal(err)
	}
	return result
}

// session reads the Session.
func (b *bench) session() *v1alpha1.Session {
	b.t.Helper()
	session := &v1alpha1.Session{}
	if err := b.Client.Get(context.Background(), demoKey, session); err != nil {
		b.t.Fatal(err)
	}
	return session
}

func TestASessionThatTheCacheDoesNotShowIsReadLive(t *testing.T) {
	b := newBench(t, newSession(), inDemo("demo-1", nil))
	b.pass()
	if active := b.session().Status.ActiveTurn; active == nil || active.Name != "demo-1" {
		t.Fatalf("%+v is active", active)
	}
	// A restore of etcd: versions go back, and the last own write is gone.
	restored := b.session()
	restored.Status.ActiveTurn = nil
	if err := b.Client.Status().Update(t.Context(), restored); err != nil {
		t.Fatal(err)
	}
	b.known.recordWrite(demoKey, "1000000")
	for range 50 {
		result := b.pass()
		if b.session().Status.ActiveTurn != nil {
			return
		}
		b.now = b.now.Add(max(result.RequeueAfter, time.Millisecond))
	}
	t.Error("50 passes, and nothing was admitted")
}

func TestAPassReadsTheTurnsThatHaveNotEnded(t *testing.T) {
	turns := []client.Object{newSession(), inDemo("demo-1001", nil)}
	for i := range 1000 {
		turns = append(turns, inDemo(fmt.Sprintf("demo-%d", i), hasEnded))
	}
	b := newBench(t, turns...)
	s, err := b.open(t.Context(), demoKey)
	if err != nil {
		t.Fatal(err)
	}
	if len(s.turns) != 1 || s.turns[0].Name != "demo-1001" {
		t.Errorf("a pass copies %d Turns, of which 1 is open", len(s.turns))
	}
}

func TestAnotherTurnOfTheNameMovesTheSession(t *testing.T) {
	turn := func(uid types.UID) *v1alpha1.Turn { return turnWith("t", func(t *v1alpha1.Turn) { t.UID = uid }) }
	if !turnChanged().Update(event.UpdateEvent{ObjectOld: turn("1"), ObjectNew: turn("2")}) {
		t.Error("a Turn that replaced another one in one event does not wake the Session")
	}
}

func TestAnAdmissionNamesTheSteersThatAreQueued(t *testing.T) {
	steers := func(turn *v1alpha1.Turn) { turn.Spec.Delivery = v1alpha1.DeliverySteer }
	before := inDemo("f3aa", steers)
	b := newBench(t, newSession(), inDemo("f3a9", nil), before)
	b.pass()
	active := b.session().Status.ActiveTurn
	if active == nil || active.Name != "f3a9" {
		t.Fatalf("%+v is active", active)
	}
	// Created within the same second, with a name that sorts before those.
	after := inDemo("0b77", steers)
	got := queue.Steers([]*v1alpha1.Turn{before, after}, *active)
	if len(got) != 1 || got[0].Name != "0b77" {
		t.Errorf("%d messages go into the active Turn, want the one that came when it was active", len(got))
	}
}
