// Package model says on every Model whether it can be called.
package model

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller/pacing"
	"github.com/capstan-dev/capstan/internal/controller/policies"
	"github.com/capstan-dev/capstan/internal/controller/status"
	"github.com/capstan-dev/capstan/internal/controller/wake"
	"github.com/capstan-dev/capstan/internal/runtime/condition"
	"github.com/capstan-dev/capstan/internal/runtime/model"
)

// Reconciler keeps the Ready condition of Models.
type Reconciler struct {
	// Client reads from the cache and writes.
	Client client.Client
	// Clock returns the current time.
	Clock func() time.Time
	// Drivers are the providers that this manager knows.
	Drivers model.Registry
	// Keys looks for the API keys of Models.
	Keys Keys
	// Policies keep Secrets from being read while a policy of the install is missing. Nil keeps nothing back.
	Policies *policies.Verifier
	// Wakes is where a model call that has found no API key announces its Model.
	Wakes *wake.Source

	looks pacing.Looks
}

// Keys looks for the API keys of Models, and keeps none.
type Keys interface {
	// CheckKey gives a *model.KeyError for a Model that has no API key. Any other error says nothing of the key.
	CheckKey(ctx context.Context, m *v1alpha1.Model) error
}

// +kubebuilder:rbac:groups=capstan.dev,resources=models,verbs=get;list;watch
// +kubebuilder:rbac:groups=capstan.dev,resources=models/status,verbs=patch

// Reconcile looks at one Model. It makes no call to the provider. No watch tells of Secrets: a Model whose key is
// missing is looked at again, more and more slowly; that of one which had its key is looked at by the calls.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	base := &v1alpha1.Model{}
	if err := r.Client.Get(ctx, req.NamespacedName, base); err != nil {
		if client.IgnoreNotFound(err) == nil {
			r.looks.End(req.NamespacedName)
		}
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	found, err := r.look(ctx, base)
	if err != nil {
		return ctrl.Result{}, err
	}
	next := base.DeepCopy()
	if !found.unknown || !judged(base) {
		now := metav1.NewTime(r.Clock())
		condition.SetReady(&next.Status.Conditions, next.Generation, now, found.reason, found.message)
		condition.SetStalled(&next.Status.Conditions, next.Generation, now, found.reason == v1alpha1.ReasonModelNotReady, found.reason, found.message)
		next.Status.ObservedGeneration = next.Generation
	}
	result, err := status.Write(ctx, r.Client, base, next)
	if err != nil || result.RequeueAfter > 0 {
		return result, err
	}
	if !found.unknown && !model.NeedsKey(found.reason) {
		r.looks.End(req.NamespacedName)
		return ctrl.Result{}, nil
	}
	return ctrl.Result{RequeueAfter: r.looks.Next(req.NamespacedName, found.message, r.Clock())}, nil
}

// finding is what a look at a Model has found.
type finding struct {
	// reason and message are those of the Ready condition.
	reason, message string
	// unknown reports whether the Secret could not be looked at, so that what is known of it already counts.
	unknown bool
}

// look finds out whether the Model can be called.
func (r *Reconciler) look(ctx context.Context, m *v1alpha1.Model) (finding, error) {
	err := r.Drivers.Check(m)
	if err == nil && m.Spec.SecretKeyRef != nil {
		if waits := r.Policies.InForce(); waits != nil {
			return finding{
				reason: v1alpha1.ReasonReady, message: fmt.Sprintf("The Model can be called as far as its spec goes. Its Secret is not read: %v.", waits), unknown: true,
			}, nil
		}
		err = r.Keys.CheckKey(ctx, m)
	}
	var key *model.KeyError
	var unavailable *model.UnavailableError
	if err != nil && !errors.As(err, &key) && !errors.As(err, &unavailable) {
		return finding{}, fmt.Errorf("looking for the API key: %w", err)
	}
	reason, message := model.Readiness(err)
	return finding{reason: reason, message: message}, nil
}

// judged reports whether the condition says already whether the Model, as its spec is now, can be called.
func judged(m *v1alpha1.Model) bool {
	ready := condition.Find(m.Status.Conditions, v1alpha1.ConditionReady)
	return ready != nil && ready.Status != metav1.ConditionUnknown && ready.ObservedGeneration == m.Generation
}

// SetupWithManager registers the reconciler. It runs for a Model that changes. An annotation is a change too: by one a
// user has the Model looked at now.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	own := builder.WithPredicates(predicate.Or(status.SpecChanged(), status.ReadyFlipped(), predicate.AnnotationChangedPredicate{}))
	err := ctrl.NewControllerManagedBy(mgr).Named("model").For(&v1alpha1.Model{}, own).WatchesRawSource(r.Wakes).
		WithOptions(pacing.Options(pacing.FewWorkers)).Complete(r)
	if err != nil {
		return fmt.Errorf("setting up the Model controller: %w", err)
	}
	return nil
}
