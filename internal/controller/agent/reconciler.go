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
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller/configsource"
	"github.com/capstan-dev/capstan/internal/controller/fieldindex"
	"github.com/capstan-dev/capstan/internal/controller/pacing"
	"github.com/capstan-dev/capstan/internal/controller/status"
	"github.com/capstan-dev/capstan/internal/runtime/condition"
)

// Reconciler keeps the Ready condition of Agents.
type Reconciler struct {
	// Client reads from the cache and writes.
	Client client.Client
	// Clock returns the current time.
	Clock func() time.Time
}

// +kubebuilder:rbac:groups=capstan.dev,resources=agents;mcpservers;models;tools,verbs=get;list;watch
// +kubebuilder:rbac:groups=capstan.dev,resources=agents/status,verbs=patch

// Reconcile checks one Agent and the objects that it names.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	base := &v1alpha1.Agent{}
	if err := r.Client.Get(ctx, req.NamespacedName, base); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	resolved, err := configsource.Agent(ctx, r.Client, base)
	if err != nil {
		return ctrl.Result{}, err
	}
	next := base.DeepCopy()
	reason, message := decide(next.Spec, resolved)
	condition.SetReady(&next.Status.Conditions, next.Generation, metav1.NewTime(r.Clock()), reason, message)
	next.Status.ObservedGeneration = next.Generation
	return status.Write(ctx, r.Client, base, next)
}

// SetupWithManager registers the reconciler. It runs for an Agent that changes and for those whose condition depends on
// a Model, Tool or MCPServer that has changed.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	own := builder.WithPredicates(predicate.Or(status.SpecChanged(), status.ReadyFlipped()))
	others := pacing.NewFanOut(pacing.InNamespace(r.Client, &v1alpha1.AgentList{}))
	err := ctrl.NewControllerManagedBy(mgr).
		Named("agent").
		For(&v1alpha1.Agent{}, own).
		Watches(&v1alpha1.Model{}, others.Of(r.ofModel), builder.WithPredicates(configsource.ModelChanged())).
		Watches(&v1alpha1.Tool{}, others.Of(r.ofTool), builder.WithPredicates(configsource.ToolChanged())).
		Watches(&v1alpha1.MCPServer{}, others.Of(r.ofServer), builder.WithPredicates(configsource.ModelChanged())).
		WithOptions(pacing.Options(1)).
		Complete(r)
	if err != nil {
		return fmt.Errorf("setting up the Agent controller: %w", err)
	}
	return nil
}

// ofModel returns the Agents that name a Model, or one that falls back to it.
func (r *Reconciler) ofModel(ctx context.Context, model client.Object) []reconcile.Request {
	callers, err := configsource.Callers(ctx, r.Client, model)
	if err != nil {
		log.FromContext(ctx).Error(err, "Failed to list the Models that fall back to a Model", "name", model.GetName())
		return nil
	}
	var requests []reconcile.Request
	for _, name := range callers {
		requests = append(requests, r.referencing(ctx, model.GetNamespace(), fieldindex.ModelName, name)...)
	}
	return requests
}

// ofTool returns the Agents that name a Tool.
func (r *Reconciler) ofTool(ctx context.Context, tool client.Object) []reconcile.Request {
	return r.referencing(ctx, tool.GetNamespace(), fieldindex.ToolName, tool.GetName())
}

// ofServer returns the Agents that name an MCPServer.
func (r *Reconciler) ofServer(ctx context.Context, server client.Object) []reconcile.Request {
	return r.referencing(ctx, server.GetNamespace(), fieldindex.MCPServerName, server.GetName())
}

// referencing returns the Agents that have a name in a field of the index.
func (r *Reconciler) referencing(ctx context.Context, namespace, field, name string) []reconcile.Request {
	var agents v1alpha1.AgentList
	err := r.Client.List(ctx, &agents, client.InNamespace(namespace), client.MatchingFields{field: name})
	if err != nil {
		log.FromContext(ctx).Error(err, "Failed to list the Agents that refer to an object", "field", field, "name", name)
		return nil
	}
	requests := make([]reconcile.Request, 0, len(agents.Items))
	for i := range agents.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&agents.Items[i])})
	}
	return requests
}
