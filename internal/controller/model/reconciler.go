// Package model says on every Model whether it can be called.
package model

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller/status"
	"github.com/capstan-dev/capstan/internal/runtime/condition"
	"github.com/capstan-dev/capstan/internal/runtime/model"
)

// Reconciler keeps the Ready condition of Models.
type Reconciler struct {
	// Client reads from the cache and writes.
	Client client.Client
	// Clock tells the time.
	Clock func() time.Time
	// Drivers are the providers that this manager knows.
	Drivers model.Registry
}

// +kubebuilder:rbac:groups=capstan.dev,resources=models,verbs=get;list;watch
// +kubebuilder:rbac:groups=capstan.dev,resources=models/status,verbs=patch

// Reconcile looks at one Model. It makes no call to the provider.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	base := &v1alpha1.Model{}
	if err := r.Client.Get(ctx, req.NamespacedName, base); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	driverErr := r.Drivers.Check(base)
	next := base.DeepCopy()
	reason, message := model.Readiness(driverErr)
	now := metav1.NewTime(r.Clock())
	condition.SetReady(&next.Status.Conditions, next.Generation, now, reason, message)
	condition.SetStalled(&next.Status.Conditions, next.Generation, now, reason != v1alpha1.ReasonReady, reason, message)
	next.Status.ObservedGeneration = next.Generation
	return status.Write(ctx, r.Client, base, next)
}

// SetupWithManager makes the manager call Reconcile for a Model that changes.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	own := builder.WithPredicates(predicate.Or(predicate.GenerationChangedPredicate{}, status.ReadyFlipped()))
	if err := ctrl.NewControllerManagedBy(mgr).Named("model").For(&v1alpha1.Model{}, own).Complete(r); err != nil {
		return fmt.Errorf("setting up the Model controller: %w", err)
	}
	return nil
}
