// Package capability keeps the Ready condition of Capabilities, and what each depends on (CAP-03).
package capability

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
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

// Reconciler keeps the status of Capabilities.
type Reconciler struct {
	// Client reads from the cache and writes.
	Client client.Client
	// Clock returns the current time.
	Clock func() time.Time
}

// +kubebuilder:rbac:groups=capstan.dev,resources=capabilities;mcpservers;models;tools,verbs=get;list;watch
// +kubebuilder:rbac:groups=capstan.dev,resources=capabilities/status,verbs=patch

// Reconcile checks one Capability, those that it depends on, and the objects that they name.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	base := &v1alpha1.Capability{}
	if err := r.Client.Get(ctx, req.NamespacedName, base); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	resolved, err := configsource.Capability(ctx, r.Client, base)
	if err != nil {
		return ctrl.Result{}, err
	}
	next := base.DeepCopy()
	reason, message := decide(next.Spec, resolved)
	now := metav1.NewTime(r.Clock())
	condition.SetReady(&next.Status.Conditions, next.Generation, now, reason, message)
	condition.SetStalled(&next.Status.Conditions, next.Generation, now,
		reason == v1alpha1.ReasonInvalidSchema, reason, message)
	next.Status.Dependencies = resolved.Dependencies()
	next.Status.ObservedGeneration = next.Generation
	return status.Write(ctx, r.Client, base, next)
}

// SetupWithManager registers the reconciler. It runs for a Capability that changes, for all that depend on it, and for
// those whose condition depends on a Tool, MCPServer or Model that has changed.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	own := builder.WithPredicates(predicate.Or(status.SpecChanged(), status.ReadyFlipped()))
	needed := builder.WithPredicates(status.SpecChanged())
	others := pacing.NewFanOut(pacing.InNamespace(r.Client, &v1alpha1.CapabilityList{}))
	err := ctrl.NewControllerManagedBy(mgr).
		Named("capability").
		For(&v1alpha1.Capability{}, own).
		Watches(&v1alpha1.Capability{}, others.Of(r.dependents), needed).
		Watches(&v1alpha1.Tool{}, others.Of(r.naming(fieldindex.ToolName)),
			builder.WithPredicates(configsource.ToolChanged())).
		Watches(&v1alpha1.MCPServer{}, others.Of(r.naming(fieldindex.MCPServerName)),
			builder.WithPredicates(configsource.ModelChanged())).
		Watches(&v1alpha1.Model{}, others.Of(r.ofModel), builder.WithPredicates(configsource.ModelChanged())).
		WithOptions(pacing.Options(1)).
		Complete(r)
	if err != nil {
		return fmt.Errorf("setting up the Capability controller: %w", err)
	}
	return nil
}

// dependents returns the Capabilities that depend on one, directly or not, without itself.
func (r *Reconciler) dependents(ctx context.Context, needed client.Object) []reconcile.Request {
	names, err := configsource.Dependents(ctx, r.Client, needed.GetNamespace(), needed.GetName())
	return requests(ctx, needed.GetNamespace(), names, err)
}

// naming returns a function that returns the Capabilities that name an object in a field of the index, and all that
// depend on them.
func (r *Reconciler) naming(field string) func(context.Context, client.Object) []reconcile.Request {
	return func(ctx context.Context, object client.Object) []reconcile.Request {
		names, err := configsource.CapabilitiesNaming(ctx, r.Client, field, object)
		return requests(ctx, object.GetNamespace(), names, err)
	}
}

// ofModel returns the Capabilities with a blueprint that names a Model, or one that falls back to it. Those that depend
// on them do not use the blueprint.
func (r *Reconciler) ofModel(ctx context.Context, model client.Object) []reconcile.Request {
	callers, err := configsource.Callers(ctx, r.Client, model)
	var names []string
	for _, caller := range callers {
		if err != nil {
			break
		}
		var with []string
		with, err = configsource.CapabilitiesWith(ctx, r.Client, model.GetNamespace(), fieldindex.ModelName, caller)
		names = append(names, with...)
	}
	return requests(ctx, model.GetNamespace(), names, err)
}

func requests(ctx context.Context, namespace string, names []string, err error) []reconcile.Request {
	if err != nil {
		log.FromContext(ctx).Error(err, "Failed to find the Capabilities that a change concerns")
		return nil
	}
	all := make([]reconcile.Request, len(names))
	for i, name := range names {
		all[i] = reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}
	}
	return all
}
