// Package tool keeps the Ready condition of Tools.
package tool

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
	"github.com/capstan-dev/capstan/internal/runtime/tool/readiness"
)

// Reconciler keeps the Ready condition of Tools.
type Reconciler struct {
	// Client reads from the cache and writes.
	Client client.Client
	// Texts reads the definitions that the cache leaves out.
	Texts *configsource.Texts
	// Clock returns the current time.
	Clock func() time.Time
	// Schemas checks inputSchemas.
	Schemas readiness.SchemaChecker
}

// +kubebuilder:rbac:groups=capstan.dev,resources=tools,verbs=get;list;watch
// +kubebuilder:rbac:groups=capstan.dev,resources=tools/status,verbs=patch

// Reconcile checks one Tool.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	base := &v1alpha1.Tool{}
	if err := r.Client.Get(ctx, req.NamespacedName, base); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	whole, err := r.Texts.Tool(ctx, base)
	if err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	next := base.DeepCopy()
	reason, message := readiness.Of(&whole.Spec, r.Schemas)
	now := metav1.NewTime(r.Clock())
	condition.SetReady(&next.Status.Conditions, next.Generation, now, reason, message)
	condition.SetStalled(
		&next.Status.Conditions,
		next.Generation,
		now,
		reason == v1alpha1.ReasonInvalidSchema,
		reason,
		message,
	)
	next.Status.ObservedGeneration = next.Generation
	return status.Write(ctx, r.Client, base, next)
}

// SetupWithManager registers the reconciler. It runs for a Tool that changes.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	own := builder.WithPredicates(predicate.Or(status.SpecChanged(), status.ReadyFlipped()))
	err := ctrl.NewControllerManagedBy(mgr).Named("tool").For(&v1alpha1.Tool{}, own).
		WithOptions(pacing.Options(pacing.FewWorkers)).Complete(r)
	if err != nil {
		return fmt.Errorf("setting up the Tool controller: %w", err)
	}
	return nil
}
