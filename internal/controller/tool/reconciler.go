// Package tool says on every Tool whether the model can be offered it.
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
	"github.com/capstan-dev/capstan/internal/controller/status"
	"github.com/capstan-dev/capstan/internal/runtime/condition"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
)

// SchemaChecker says what is wrong with an inputSchema.
type SchemaChecker interface {
	// CheckSchema gives an error when the schema is not a JSON Schema of an object. Its text must be the same each time.
	CheckSchema(schema []byte) error
}

// Reconciler keeps the Ready condition of Tools.
type Reconciler struct {
	// Client reads from the cache and writes.
	Client client.Client
	// Clock tells the time.
	Clock func() time.Time
	// Schemas checks inputSchemas.
	Schemas SchemaChecker
}

// +kubebuilder:rbac:groups=capstan.dev,resources=tools,verbs=get;list;watch
// +kubebuilder:rbac:groups=capstan.dev,resources=tools/status,verbs=patch

// Reconcile looks at one Tool.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	base := &v1alpha1.Tool{}
	if err := r.Client.Get(ctx, req.NamespacedName, base); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	next := base.DeepCopy()
	reason, message := decide(&next.Spec, r.Schemas)
	now := metav1.NewTime(r.Clock())
	condition.SetReady(&next.Status.Conditions, next.Generation, now, reason, message)
	condition.SetStalled(&next.Status.Conditions, next.Generation, now, reason == v1alpha1.ReasonInvalidSchema, reason, message)
	next.Status.ObservedGeneration = next.Generation
	return status.Write(ctx, r.Client, base, next)
}

// decide says whether a Tool can be offered, as reason and message of its Ready condition. A schema that is too large is not checked.
func decide(spec *v1alpha1.ToolSpec, schemas SchemaChecker) (reason, message string) {
	schema := spec.InputSchema
	if schema == nil {
		return v1alpha1.ReasonReady, "The Tool can be used. It has no inputSchema: any object is accepted."
	}
	if size := len(schema.Raw); size > tool.MaxSchemaBytes {
		return v1alpha1.ReasonInvalidSchema, fmt.Sprintf("inputSchema has %d bytes; at most %d are allowed. Make it shorter.", size, tool.MaxSchemaBytes)
	}
	if err := schemas.CheckSchema(schema.Raw); err != nil {
		return v1alpha1.ReasonInvalidSchema, fmt.Sprintf("inputSchema is not valid: %v", err)
	}
	if why := tool.CheckHTTP(spec); why != "" {
		return v1alpha1.ReasonInvalidSchema, fmt.Sprintf("No call could be sent: %s.", why)
	}
	return v1alpha1.ReasonReady, "The Tool can be used."
}

// SetupWithManager makes the manager call Reconcile for a Tool that changes.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	own := builder.WithPredicates(predicate.Or(predicate.GenerationChangedPredicate{}, status.ReadyFlipped()))
	if err := ctrl.NewControllerManagedBy(mgr).Named("tool").For(&v1alpha1.Tool{}, own).Complete(r); err != nil {
		return fmt.Errorf("setting up the Tool controller: %w", err)
	}
	return nil
}
