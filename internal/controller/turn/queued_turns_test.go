package turn

import (
	"errors"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/condition"
	"github.com/capstan-dev/capstan/internal/runtime/fairshare"
)

// TestAQueuedTurnReportsWhatItWaitsFor follows two Turns that come before their Session, which comes before its Model.
func TestAQueuedTurnReportsWhatItWaitsFor(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	queued := func(name string) *v1alpha1.Turn {
		turn := &v1alpha1.Turn{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)}}
		turn.Spec.SessionRef.Name = "demo"
		return turn
	}
	c := indexed(fake.NewClientBuilder().WithScheme(scheme).WithObjects(queued("demo-1"), queued("demo-2")).
		WithStatusSubresource(&v1alpha1.Turn{}, &v1alpha1.Session{})).Build()
	turns := fairshare.NewTurns(fairshare.TurnsOptions{Active: 8, BegunPerNamespace: 1})
	r := &Reconciler{Client: c, Live: c, Clock: time.Now, Turns: turns}
	expect := func(name, reason, message string) {
		t.Helper()
		key := types.NamespacedName{Namespace: "ns", Name: name}
		if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: key}); err != nil {
			t.Fatal(err)
		}
		turn := &v1alpha1.Turn{}
		if err := c.Get(t.Context(), key, turn); err != nil {
			t.Fatal(err)
		}
		succeeded := meta.FindStatusCondition(turn.Status.Conditions, v1alpha1.ConditionSucceeded)
		if succeeded == nil || succeeded.Reason != reason || !strings.Contains(succeeded.Message, message) {
			t.Errorf("%s reports %+v, want %s with %q", name, succeeded, reason, message)
		}
	}
	expect("demo-1", v1alpha1.ReasonSessionNotFound, `Session "demo" does not exist`)
	expect("demo-2", v1alpha1.ReasonSessionNotFound, `Session "demo" does not exist`)

	session := &v1alpha1.Session{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "demo", UID: "s"}}
	if err := c.Create(t.Context(), session); err != nil {
		t.Fatal(err)
	}
	ready := func(reason, message string) {
		t.Helper()
		condition.SetReady(&session.Status.Conditions, 1, metav1.Now(), reason, message)
		if err := c.Status().Update(t.Context(), session, &client.SubResourceUpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	ready(v1alpha1.ReasonModelNotFound, `Model "m" does not exist. Create it.`)
	expect(
		"demo-1",
		v1alpha1.ReasonSessionNotReady,
		`Session "demo" cannot run the Turn (ModelNotFound). Model "m" does not exist. Create it.`,
	)
	expect("demo-2", v1alpha1.ReasonQueued, "in the order of their creation")

	suspend := func(suspended bool) {
		t.Helper()
		turn := &v1alpha1.Turn{}
		if err := c.Get(t.Context(), types.NamespacedName{Namespace: "ns", Name: "demo-1"}, turn); err != nil {
			t.Fatal(err)
		}
		turn.Spec.Suspend = &suspended
		if err := c.Update(t.Context(), turn); err != nil {
			t.Fatal(err)
		}
	}
	suspend(true)
	expect("demo-1", v1alpha1.ReasonSuspended, "Set spec.suspend to false")
	expect("demo-2", v1alpha1.ReasonSessionNotReady, `Model "m" does not exist`)
	suspend(false)
	expect("demo-1", v1alpha1.ReasonSessionNotReady, `Model "m" does not exist`)
	expect("demo-2", v1alpha1.ReasonQueued, "in the order of their creation")

	ready(v1alpha1.ReasonReady, "")
	expect("demo-1", v1alpha1.ReasonQueued, "limit of active Turns is reached")
	expect("demo-2", v1alpha1.ReasonQueued, "Waiting for earlier Turns of the Session")

	turns.Begin("another", "ns", func() {})
	turns.Begin("s", "ns", func() {})
	const limited = `Namespace "ns" has reached the limit of 1 Turns that have begun and not ended`
	expect("demo-1", v1alpha1.ReasonTurnLimit, limited)
	expect("demo-2", v1alpha1.ReasonQueued, "Waiting for earlier Turns of the Session")

	turns.End("another")
	expect("demo-1", v1alpha1.ReasonQueued, "limit of active Turns is reached")
}
