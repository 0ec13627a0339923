// Package model keeps the Ready condition of Models.
package model

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller/configsource"
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
	// Texts reads the scripts that the cache leaves out.
	Texts *configsource.Texts
	// Clock returns the current time.
	Clock func() time.Time
	// Drivers are the providers that this manager supports.
	Drivers model.Registry
	// Keys checks the API keys of Models.
	Keys Keys
	// Policies prevents reads of Secrets while an admission policy of the installation is missing. Nil prevents
	// nothing.
	Policies *policies.Verifier
	// Wakes enqueues the Model of a model call that has found no API key, and one whose Secret may be read again.
	Wakes *wake.Source

	rechecks pacing.Rechecks
}

// Keys checks the API keys of Models, and keeps none.
type Keys interface {
	// CheckKey returns a *model.KeyError for a Model without an API key. After any other error the state of the key is
	// unknown.
	CheckKey(ctx context.Context, m *v1alpha1.Model) error
}

// +kubebuilder:rbac:groups=capstan.dev,resources=models,verbs=get;list;watch
// +kubebuilder:rbac:groups=capstan.dev,resources=models/status,verbs=patch

// Reconcile checks one Model. It does not call the provider. Secrets are not watched: a Model whose key is missing is
// checked again, with growing pauses; the key of a Ready Model is checked by its calls.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	base := &v1alpha1.Model{}
	if err := r.Client.Get(ctx, req.NamespacedName, base); err != nil {
		if client.IgnoreNotFound(err) == nil {
			r.rechecks.End(req.NamespacedName)
		}
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	whole, err := r.Texts.Model(ctx, base)
	if err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	found, err := r.checkModel(ctx, whole)
	if err != nil {
		return ctrl.Result{}, err
	}
	next := base.DeepCopy()
	if !found.unknown || !conditionCurrent(base) {
		now := metav1.NewTime(r.Clock())
		condition.SetReady(&next.Status.Conditions, next.Generation, now, found.reason, found.message)
		condition.SetStalled(&next.Status.Conditions, next.Generation, now,
			found.reason == v1alpha1.ReasonModelNotReady, found.reason, found.message)
		next.Status.ObservedGeneration = next.Generation
	}
	result, err := status.Write(ctx, r.Client, base, next)
	if err != nil || result.RequeueAfter > 0 {
		return result, err
	}
	if !found.unknown && !model.NeedsKey(found.reason) {
		r.rechecks.End(req.NamespacedName)
		return ctrl.Result{}, nil
	}
	return ctrl.Result{RequeueAfter: r.rechecks.Next(req.NamespacedName, found.message, r.Clock())}, nil
}

// finding is the result of checking a Model.
type finding struct {
	// reason and message are those of the Ready condition.
	reason, message string
	// unknown reports whether the Secret could not be checked, so that the previous condition stays.
	unknown bool
}

// checkModel checks whether the Model can be called.
func (r *Reconciler) checkModel(ctx context.Context, m *v1alpha1.Model) (finding, error) {
	err := r.Drivers.Check(m)
	if err == nil && model.Lent(m) {
		if waits := r.Policies.AwaitModel(client.ObjectKeyFromObject(m)); waits != nil {
			return finding{
				reason: v1alpha1.ReasonReady, message: fmt.Sprintf("The spec of the Model is valid. Its Secret was "+
					"not checked: %v.", waits), unknown: true,
			}, nil
		}
		err = r.Keys.CheckKey(ctx, m)
	}
	var key *model.KeyError
	var unavailable *model.UnavailableError
	if err != nil && !errors.As(err, &key) && !errors.As(err, &unavailable) {
		return finding{}, fmt.Errorf("checking the API key: %w", err)
	}
	reason, message := model.Readiness(err)
	return finding{reason: reason, message: message}, nil
}

// conditionCurrent reports whether the Ready condition is about the current spec of the Model.
func conditionCurrent(m *v1alpha1.Model) bool {
	ready := meta.FindStatusCondition(m.Status.Conditions, v1alpha1.ConditionReady)
	return ready != nil && ready.Status != metav1.ConditionUnknown && ready.ObservedGeneration == m.Generation
}

// SetupWithManager registers the reconciler. It runs for a Model that changes. A change of annotations counts too, so
// that a user can request a check now. The cache has only those in capstan.dev/.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	own := builder.WithPredicates(predicate.Or(status.SpecChanged(), status.ReadyFlipped(),
		predicate.AnnotationChangedPredicate{}))
	err := ctrl.NewControllerManagedBy(mgr).Named("model").For(&v1alpha1.Model{}, own).WatchesRawSource(r.Wakes).
		WithOptions(pacing.Options(pacing.FewWorkers)).Complete(r)
	if err != nil {
		return fmt.Errorf("setting up the Model controller: %w", err)
	}
	return nil
}
