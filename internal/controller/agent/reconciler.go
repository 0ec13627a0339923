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

// +kubebuilder:rbac:groups=capstan.dev,resources=agents;capabilities;mcpservers;models;tools,verbs=get;list;watch
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
// a Model, Tool, MCPServer or Capability that has changed.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	own := builder.WithPredicates(predicate.Or(status.SpecChanged(), status.ReadyFlipped()))
	others := pacing.NewFanOut(pacing.InNamespace(r.Client, &v1alpha1.AgentList{}))
	err := ctrl.NewControllerManagedBy(mgr).
		Named("agent").
		For(&v1alpha1.Agent{}, own).
		Watches(&v1alpha1.Model{}, others.Of(r.ofModel), builder.WithPredicates(configsource.ModelChanged())).
		Watches(&v1alpha1.Tool{}, others.Of(r.ofTool), builder.WithPredicates(configsource.ToolChanged())).
		Watches(&v1alpha1.MCPServer{}, others.Of(r.ofServer), builder.WithPredicates(configsource.ModelChanged())).
		Watches(&v1alpha1.Capability{}, others.Of(r.ofCapability), builder.WithPredicates(status.SpecChanged())).
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
	return r.referencing(ctx, model.GetNamespace(), fieldindex.ModelName, callers...)
}

// ofTool returns the Agents that name a Tool, or a Capability that has it.
func (r *Reconciler) ofTool(ctx context.Context, tool client.Object) []reconcile.Request {
	return r.naming(ctx, fieldindex.ToolName, tool)
}

// ofServer returns the Agents that name an MCPServer, or a Capability that has it.
func (r *Reconciler) ofServer(ctx context.Context, server client.Object) []reconcile.Request {
	return r.naming(ctx, fieldindex.MCPServerName, server)
}

// ofCapability returns the Agents that name a Capability, or one that depends on it.
func (r *Reconciler) ofCapability(ctx context.Context, o client.Object) []reconcile.Request {
	names, err := configsource.Dependents(ctx, r.Client, o.GetNamespace(), o.GetName())
	if err != nil {
		log.FromContext(ctx).Error(err, "Failed to list the dependents of a Capability", "name", o.GetName())
		return nil
	}
	return r.referencing(ctx, o.GetNamespace(), fieldindex.CapabilityName, append(names, o.GetName())...)
}

// naming returns the Agents that have an object in a field of the index, or a Capability that has it.
func (r *Reconciler) naming(ctx context.Context, field string, object client.Object) []reconcile.Request {
	names, err := configsource.CapabilitiesNaming(ctx, r.Client, field, object)
	if err != nil {
		log.FromContext(ctx).Error(err, "Failed to list the Capabilities that name an object", "name", object.GetName())
		return nil
	}
	requests := r.referencing(ctx, object.GetNamespace(), field, object.GetName())
	return append(requests, r.referencing(ctx, object.GetNamespace(), fieldindex.CapabilityName, names...)...)
}

// referencing returns the Agents that have one of the names in a field of the index.
func (r *Reconciler) referencing(ctx context.Context, namespace, field string, names ...string) []reconcile.Request {
	var requests []reconcile.Request
	for _, name := range names {
		var agents v1alpha1.AgentList
		err := r.Client.List(ctx, &agents, client.InNamespace(namespace), client.MatchingFields{field: name})
		if err != nil {
			log.FromContext(ctx).Error(err, "Failed to list the Agents that refer to an object", "field", field, "name", name)
			return nil
		}
		for i := range agents.Items {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&agents.Items[i])})
		}
	}
	return requests
}
