package modelprobe

import (
	"context"
	"errors"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/runtime/model/probe"
)

// bench is the reconciler with a fake client and one Model.
type bench struct {
	*Reconciler
	t      *testing.T
	model  *v1alpha1.Model
	now    time.Time
	result probe.Result
	err    error
	probes int
	// onProbe is called within a probe.
	onProbe func()
}

// ProbeModel implements Prober.
func (b *bench) ProbeModel(context.Context, *v1alpha1.Model) (probe.Result, error) {
	b.probes++
	if b.onProbe != nil {
		b.onProbe()
	}
	return b.result, b.err
}

func newBench(t *testing.T, p *v1alpha1.ModelProbe) *bench {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	b := &bench{
		t: t, now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		result: probe.Result{Reachable: true, Reason: v1alpha1.ReasonProbeSucceeded, Message: "Fine."},
		model: &v1alpha1.Model{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m", UID: "u", Generation: 1},
			Spec:       v1alpha1.ModelSpec{Provider: v1alpha1.ModelProviderOpenAI, Probe: p},
		},
	}
	b.model.Status.Conditions = ready(metav1.ConditionTrue, 1)
	b.Reconciler = &Reconciler{
		Client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(b.model).WithStatusSubresource(b.model).Build(),
		Clock:  func() time.Time { return b.now }, Prober: b,
	}
	return b
}

func ready(is metav1.ConditionStatus, generation int64) []metav1.Condition {
	return []metav1.Condition{{
		Type: v1alpha1.ConditionReady, Status: is, ObservedGeneration: generation, Reason: "R",
		LastTransitionTime: metav1.Unix(1, 0),
	}}
}

// pass reconciles the Model, and returns its condition and the pause.
func (b *bench) pass() (*metav1.Condition, time.Duration) {
	b.t.Helper()
	result, err := b.Reconcile(b.t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(b.model)})
	if err != nil {
		b.t.Fatal(err)
	}
	b.read()
	return meta.FindStatusCondition(b.model.Status.Conditions, v1alpha1.ConditionReachable), result.RequeueAfter
}

func (b *bench) read() {
	b.t.Helper()
	if err := b.Client.Get(b.t.Context(), client.ObjectKeyFromObject(b.model), b.model); err != nil {
		b.t.Fatal(err)
	}
}

// change changes the Model, whose spec is checked at once.
func (b *bench) change(change func(*v1alpha1.Model)) {
	b.t.Helper()
	change(b.model)
	conditions := b.model.Status.DeepCopy().Conditions
	if err := b.Client.Update(b.t.Context(), b.model); err != nil {
		b.t.Fatal(err)
	}
	for i := range conditions {
		if conditions[i].Type == v1alpha1.ConditionReady {
			conditions[i].ObservedGeneration = b.model.Generation
		}
	}
	b.model.Status.Conditions = conditions
	if err := b.Client.Status().Update(b.t.Context(), b.model); err != nil {
		b.t.Fatal(err)
	}
}

func TestAModelIsProbedOnceForEachSpec(t *testing.T) {
	b := newBench(t, &v1alpha1.ModelProbe{})
	reachable, pause := b.pass()
	if reachable == nil || reachable.Status != metav1.ConditionTrue || reachable.Message != "Fine." || pause != 0 ||
		b.model.Status.LastProbeTime == nil {
		t.Fatalf("%+v, next after %s", reachable, pause)
	}
	b.now = b.now.Add(48 * time.Hour)
	b.pass()
	// A manager that has started anew does not know of the probe but by the status.
	b.probed = nil
	if _, pause = b.pass(); b.probes != 1 || pause != 0 {
		t.Fatalf("%d probes, next after %s", b.probes, pause)
	}
	b.result = probe.Result{Reason: v1alpha1.ReasonKeyRejected, Message: "No."}
	b.change(func(m *v1alpha1.Model) { m.Spec.Probe.Request, m.Generation = "now", 2 })
	if reachable, _ = b.pass(); b.probes != 2 || reachable.Status != metav1.ConditionFalse || reachable.Message != "No." {
		t.Errorf("%d probes, %+v", b.probes, reachable)
	}
	b.change(func(m *v1alpha1.Model) { m.Spec.Probe, m.Generation = nil, 3 })
	if reachable, _ = b.pass(); reachable != nil || b.model.Status.LastProbeTime != nil || b.probes != 2 {
		t.Errorf("without a probe: %+v", reachable)
	}
}

func TestProbesOfAModelHaveAPauseBetweenThem(t *testing.T) {
	b := newBench(t, &v1alpha1.ModelProbe{Interval: &metav1.Duration{Duration: time.Hour}})
	if _, pause := b.pass(); pause != time.Hour {
		t.Errorf("the next probe is after %s", pause)
	}
	b.now = b.now.Add(3 * time.Second)
	b.change(func(m *v1alpha1.Model) { m.Spec.Probe.Request, m.Generation = "again", 2 })
	if _, pause := b.pass(); pause != 7*time.Second || b.probes != 1 {
		t.Errorf("%d probes, next after %s", b.probes, pause)
	}
	b.now = b.now.Add(7 * time.Second)
	if _, pause := b.pass(); pause != time.Hour || b.probes != 2 {
		t.Errorf("%d probes, next after %s", b.probes, pause)
	}
	b.now = b.now.Add(time.Hour)
	b.pass()
	if b.probes != 3 {
		t.Errorf("%d probes", b.probes)
	}
}

func TestAModelThatIsNotReadyIsNotProbed(t *testing.T) {
	for name, conditions := range map[string][]metav1.Condition{
		"not Ready": ready(metav1.ConditionFalse, 1), "of an earlier spec": ready(metav1.ConditionTrue, 0), "new": nil,
	} {
		b := newBench(t, &v1alpha1.ModelProbe{})
		b.model.Status.Conditions = conditions
		if err := b.Client.Status().Update(t.Context(), b.model); err != nil {
			t.Fatal(err)
		}
		if reachable, pause := b.pass(); b.probes != 0 || reachable != nil || pause != 0 {
			t.Errorf("%s: %d probes, %+v, next after %s", name, b.probes, reachable, pause)
		}
	}
}

func TestAProbeWithoutAKeyReportsWhyAndOtherErrorsAreTriedAgain(t *testing.T) {
	b := newBench(t, &v1alpha1.ModelProbe{})
	b.err = errors.New("the API server is down")
	if _, err := b.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(b.model)}); err == nil {
		t.Error("the error is lost")
	}
	b.err = &model.KeyError{Reason: v1alpha1.ReasonSecretMissing, Problem: "It is gone."}
	if reachable, _ := b.pass(); reachable == nil || reachable.Reason != v1alpha1.ReasonSecretMissing {
		t.Errorf("%+v", reachable)
	}
}

func TestANamespaceHasOneProbeAtATime(t *testing.T) {
	b := newBench(t, &v1alpha1.ModelProbe{})
	other := b.model.DeepCopy()
	other.Name, other.UID, other.ResourceVersion = "n", "v", ""
	gone := client.ObjectKey{Namespace: "ns", Name: "gone"}
	if err := b.Client.Create(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	key := client.ObjectKeyFromObject(other)
	b.onProbe = func() {
		b.onProbe = nil
		b.places.enter(gone)
		for range 3 {
			result, err := b.Reconcile(t.Context(), ctrl.Request{NamespacedName: key})
			if err != nil || result.RequeueAfter != 0 || b.probes != 1 {
				t.Errorf("%d probes, %+v, %v", b.probes, result, err)
			}
		}
	}
	if reachable, _ := b.pass(); reachable == nil {
		t.Error("the probe has no result")
	}
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[ctrl.Request]())
	if err := b.wakes.Start(t.Context(), queue); err != nil {
		t.Fatal(err)
	}
	// The Model that was deleted while it waited passes its place on.
	for _, want := range []client.ObjectKey{gone, key} {
		next, _ := queue.Get()
		if next.NamespacedName != want {
			t.Fatalf("%s is woken, want %s", next, want)
		}
		if _, err := b.Reconcile(t.Context(), next); err != nil {
			t.Fatal(err)
		}
		queue.Done(next)
	}
	if b.probes != 2 || queue.Len() != 0 {
		t.Errorf("%d probes, %d Models are woken again", b.probes, queue.Len())
	}
}

func TestACheckOfAnotherSpecIsNoticed(t *testing.T) {
	of := func(is metav1.ConditionStatus, generation int64) *v1alpha1.Model {
		return &v1alpha1.Model{Status: v1alpha1.ModelStatus{Conditions: ready(is, generation)}}
	}
	for _, test := range []struct {
		from, to *v1alpha1.Model
		want     bool
	}{
		{of(metav1.ConditionTrue, 1), of(metav1.ConditionTrue, 2), true},
		{of(metav1.ConditionFalse, 1), of(metav1.ConditionTrue, 1), true},
		{&v1alpha1.Model{}, of(metav1.ConditionTrue, 1), true},
		{of(metav1.ConditionTrue, 1), of(metav1.ConditionTrue, 1), false},
	} {
		if checked().Update(event.UpdateEvent{ObjectOld: test.from, ObjectNew: test.to}) != test.want {
			t.Errorf("%+v to %+v: want %v", test.from.Status, test.to.Status, test.want)
		}
	}
}
