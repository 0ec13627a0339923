// Package agent keeps the Ready condition of Agents.
package agent

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller/pacing"
	"github.com/capstan-dev/capstan/internal/controller/reference"
	"github.com/capstan-dev/capstan/internal/controller/status"
	"github.com/capstan-dev/capstan/internal/runtime/condition"
	"github.com/capstan-dev/capstan/internal/runtime/config"
)

// Reconciler keeps the Ready condition of Agents.
type Reconciler struct {
	// Client reads from the cache and writes.
	Client client.Client
	// Clock returns the current time.
	Clock func() time.Time
}

// +kubebuilder:rbac:groups=capstan.dev,resources=agents;models;tools,verbs=get;list;watch
// +kubebuilder:rbac:groups=capstan.dev,resources=agents/status,verbs=patch

// Reconcile checks one Agent and the objects that it names.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	base := &v1alpha1.Agent{}
	if err := r.Client.Get(ctx, req.NamespacedName, base); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	seen, err := reference.Look(ctx, r.Client, base.Namespace, config.Fold(base.Spec.ConfigLayer))
	if err != nil {
		return ctrl.Result{}, err
	}
	next := base.DeepCopy()
	reason, message := decide(next.Spec, seen)
	condition.SetReady(&next.Status.Conditions, next.Generation, metav1.NewTime(r.Clock()), reason, message)
	next.Status.ObservedGeneration = next.Generation
	return status.Write(ctx, r.Client, base, next)
}

// SetupWithManager registers the reconciler. It runs for an Agent that changes and for those that name a Model or Tool
// that was created, deleted, or changed its readiness.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	layer := func(o client.Object) v1alpha1.ConfigLayer {
		if agent, ok := o.(*v1alpha1.Agent); ok {
			return agent.Spec.ConfigLayer
		}
		return v1alpha1.ConfigLayer{}
	}
	if err := reference.Index(context.Background(), mgr.GetFieldIndexer(), &v1alpha1.Agent{}, layer); err != nil {
		return err
	}
	own := builder.WithPredicates(predicate.Or(status.SpecChanged(), status.ReadyFlipped()))
	named := builder.WithPredicates(status.ReadyFlipped())
	tool := builder.WithPredicates(predicate.Or(status.ReadyFlipped(), reference.BoundFlipped()))
	others := pacing.NewFanOut(pacing.InNamespace(r.Client, &v1alpha1.AgentList{}))
	err := ctrl.NewControllerManagedBy(mgr).
		Named("agent").
		For(&v1alpha1.Agent{}, own).
		Watches(&v1alpha1.Model{}, others.Of(r.naming(reference.IndexModel)), named).
		Watches(&v1alpha1.Tool{}, others.Of(r.naming(reference.IndexTool)), tool).
		WithOptions(pacing.Options(1)).
		Complete(r)
	if err != nil {
		return fmt.Errorf("setting up the Agent controller: %w", err)
	}
	return nil
}

// naming returns the Agents that name an object, by a field of the index.
func (r *Reconciler) naming(field string) handler.MapFunc {
	return func(ctx context.Context, named client.Object) []reconcile.Request {
		var agents v1alpha1.AgentList
		err := r.Client.List(
			ctx,
			&agents,
			client.InNamespace(named.GetNamespace()),
			client.MatchingFields{field: named.GetName()},
		)
		if err != nil {
			log.FromContext(ctx).
				Error(err, "Failed to list the Agents that refer to an object", "field", field, "name", named.GetName())
			return nil
		}
		requests := make([]reconcile.Request, 0, len(agents.Items))
		for i := range agents.Items {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&agents.Items[i])})
		}
		return requests
	}
}
