package model

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller/policies"
	"github.com/capstan-dev/capstan/internal/runtime/model"
)

// bench is the reconciler with a fake client and one Model that needs an API key.
type bench struct {
	*Reconciler
	t     *testing.T
	model *v1alpha1.Model
	now   time.Time
	// err is the result of a check of the key, looked the number of checks.
	err    error
	looked int
}

// CheckKey implements Keys.
func (b *bench) CheckKey(context.Context, *v1alpha1.Model) error {
	b.looked++
	return b.err
}

func newBench(t *testing.T) *bench {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	m := &v1alpha1.Model{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "claude", Generation: 1},
		Spec:       v1alpha1.ModelSpec{Provider: "Test", SecretKeyRef: &v1alpha1.SecretKeyReference{Name: "api", Key: "key"}},
	}
	b := &bench{t: t, model: m, now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	b.Reconciler = &Reconciler{
		Client:  fake.NewClientBuilder().WithScheme(scheme).WithObjects(m).WithStatusSubresource(m).Build(),
		Clock:   func() time.Time { return b.now },
		Drivers: model.Registry{"Test": func(*v1alpha1.Model, model.Access) (model.Driver, error) { return nil, nil }},
		Keys:    b,
	}
	return b
}

// pass reconciles the Model once, and returns its Ready condition.
func (b *bench) pass() (metav1.Condition, ctrl.Result) {
	b.t.Helper()
	result, err := b.Reconcile(b.t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(b.model)})
	if err != nil {
		b.t.Fatal(err)
	}
	if err := b.Client.Get(b.t.Context(), client.ObjectKeyFromObject(b.model), b.model); err != nil {
		b.t.Fatal(err)
	}
	ready := meta.FindStatusCondition(b.model.Status.Conditions, v1alpha1.ConditionReady)
	if ready == nil {
		return metav1.Condition{}, result
	}
	return *ready, result
}

func TestAModelWithoutItsKeyIsNotReadyAndLookedAtAgain(t *testing.T) {
	b := newBench(t)
	b.err = &model.KeyError{Model: "claude", Reason: v1alpha1.ReasonSecretMissing, Problem: `Secret "api" does not exist.`}
	ready, result := b.pass()
	if ready.Status != metav1.ConditionFalse || ready.Reason != v1alpha1.ReasonSecretMissing ||
		ready.Message != `Secret "api" does not exist.` {
		t.Fatalf("Ready is %+v", ready)
	}
	if meta.FindStatusCondition(b.model.Status.Conditions, v1alpha1.ConditionStalled) != nil {
		t.Error("the Model is Stalled, although no other spec is needed")
	}
	if result.RequeueAfter <= 0 || result.RequeueAfter > 5*time.Second {
		t.Errorf("the next look is after %s", result.RequeueAfter)
	}
	version := b.model.ResourceVersion
	b.now = b.now.Add(time.Hour)
	if _, result = b.pass(); result.RequeueAfter < 3*time.Minute || b.model.ResourceVersion != version {
		t.Errorf(
			"after an hour the next look is after %s, version %s, want %s",
			result.RequeueAfter,
			b.model.ResourceVersion,
			version,
		)
	}
	b.err = nil
	if ready, result = b.pass(); ready.Status != metav1.ConditionTrue || result != (ctrl.Result{}) {
		t.Errorf("with its key the Model is %+v, and the result %+v", ready, result)
	}
}

func TestAModelWhoseSecretCannotBeReadNowKeepsItsCondition(t *testing.T) {
	b := newBench(t)
	b.pass()
	version := b.model.ResourceVersion
	b.err = errors.New("the server is overloaded")
	if _, err := b.Reconcile(
		t.Context(),
		ctrl.Request{NamespacedName: client.ObjectKeyFromObject(b.model)},
	); !errors.Is(
		err,
		b.err,
	) {
		t.Errorf("got %v, want to be called again", err)
	}
	b.err = nil
	if ready, _ := b.pass(); ready.Status != metav1.ConditionTrue || b.model.ResourceVersion != version {
		t.Errorf("Ready is %+v", ready)
	}
}

func TestWhileThePoliciesAreNotInForceNoSecretIsRead(t *testing.T) {
	b := newBench(t)
	b.Policies = &policies.Verifier{}
	ready, result := b.pass()
	if b.looked != 0 || ready.Status != metav1.ConditionTrue ||
		!strings.Contains(ready.Message, "Its Secret was not checked") ||
		result.RequeueAfter <= 0 {
		t.Fatalf("%d looks, Ready %+v, result %+v", b.looked, ready, result)
	}
	b.Policies = nil
	b.err = &model.KeyError{Model: "claude", Reason: v1alpha1.ReasonRoleMissing, Problem: "No role."}
	b.pass()
	b.Policies = &policies.Verifier{}
	if ready, result = b.pass(); b.looked != 1 || ready.Reason != v1alpha1.ReasonRoleMissing || result.RequeueAfter <= 0 {
		t.Errorf("%d looks, Ready %+v, result %+v: want the last known state", b.looked, ready, result)
	}
}

func TestAModelThatNeedsNoKeyIsNotLookedAtAgain(t *testing.T) {
	b := newBench(t)
	b.model.Spec.SecretKeyRef = nil
	if err := b.Client.Update(t.Context(), b.model); err != nil {
		t.Fatal(err)
	}
	if ready, result := b.pass(); b.looked != 0 || ready.Status != metav1.ConditionTrue || result != (ctrl.Result{}) {
		t.Errorf("%d looks, Ready %+v, result %+v", b.looked, ready, result)
	}
}

func TestADriverThatCannotBeMadeIsStalledAndNoSecretIsRead(t *testing.T) {
	b := newBench(t)
	b.Drivers = model.Registry{}
	ready, result := b.pass()
	if b.looked != 0 || ready.Reason != v1alpha1.ReasonModelNotReady || result != (ctrl.Result{}) {
		t.Errorf("%d looks, Ready %+v, result %+v", b.looked, ready, result)
	}
	if !meta.IsStatusConditionTrue(b.model.Status.Conditions, v1alpha1.ConditionStalled) {
		t.Error("the Model is not Stalled, although only another spec can help")
	}
}
