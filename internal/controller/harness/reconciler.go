// Package harness keeps the Ready condition of Harnesses, and the chain of each (CFG-01).
package harness

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
	"github.com/capstan-dev/capstan/internal/controller/configsource"
	"github.com/capstan-dev/capstan/internal/controller/pacing"
	"github.com/capstan-dev/capstan/internal/controller/status"
	"github.com/capstan-dev/capstan/internal/runtime/condition"
)

// Reconciler keeps the status of Harnesses.
type Reconciler struct {
	// Client reads from the cache and writes.
	Client client.Client
	// Clock returns the current time.
	Clock func() time.Time
}

// +kubebuilder:rbac:groups=capstan.dev,resources=harnesses;capabilities;mcpservers;models;tools,verbs=get;list;watch
// +kubebuilder:rbac:groups=capstan.dev,resources=harnesses/status,verbs=patch

// Reconcile checks one Harness, its ancestors and the objects that they name.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	base := &v1alpha1.Harness{}
	if err := r.Client.Get(ctx, req.NamespacedName, base); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	resolved, err := configsource.Harness(ctx, r.Client, base)
	if err != nil {
		return ctrl.Result{}, err
	}
	next := base.DeepCopy()
	reason, message := decide(next.Spec, resolved)
	now := metav1.NewTime(r.Clock())
	condition.SetReady(&next.Status.Conditions, next.Generation, now, reason, message)
	condition.SetStalled(
		&next.Status.Conditions,
		next.Generation,
		now,
		reason == v1alpha1.ReasonChainTooLong,
		reason,
		message,
	)
	next.Status.Chain = names(resolved)
	next.Status.ObservedGeneration = next.Generation
	return status.Write(ctx, r.Client, base, next)
}

// SetupWithManager registers the reconciler. It runs for a Harness that changes, for all its descendants, and for those
// whose condition depends on a Model, Tool, MCPServer or Capability that has changed.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	own := builder.WithPredicates(predicate.Or(status.SpecChanged(), status.ReadyFlipped()))
	ancestor := builder.WithPredicates(status.SpecChanged())
	others := pacing.NewFanOut(pacing.InNamespace(r.Client, &v1alpha1.HarnessList{}))
	err := ctrl.NewControllerManagedBy(mgr).
		Named("harness").
		For(&v1alpha1.Harness{}, own).
		Watches(&v1alpha1.Harness{}, others.Of(r.descendants), ancestor).
		Watches(&v1alpha1.Model{}, others.Of(r.ofModel), builder.WithPredicates(configsource.ModelChanged())).
		Watches(&v1alpha1.Tool{}, others.Of(r.ofTool), builder.WithPredicates(configsource.ToolChanged())).
		Watches(&v1alpha1.MCPServer{}, others.Of(r.ofServer), builder.WithPredicates(configsource.ModelChanged())).
		Watches(&v1alpha1.Capability{}, others.Of(r.ofCapability), builder.WithPredicates(status.SpecChanged())).
		WithOptions(pacing.Options(1)).
		Complete(r)
	if err != nil {
		return fmt.Errorf("setting up the Harness controller: %w", err)
	}
	return nil
}
