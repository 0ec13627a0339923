package configsource

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller/fieldindex"
	"github.com/capstan-dev/capstan/internal/controller/status"
	"github.com/capstan-dev/capstan/internal/runtime/config"
)

// Callers returns the names of a Model and of those that fall back to it: whether they are ready depends on the Model.
func Callers(ctx context.Context, reader client.Reader, model client.Object) ([]string, error) {
	var models v1alpha1.ModelList
	if err := reader.List(
		ctx,
		&models,
		client.InNamespace(model.GetNamespace()),
		client.MatchingFields{fieldindex.FallbackName: model.GetName()},
		client.UnsafeDisableDeepCopy,
	); err != nil {
		return nil, fmt.Errorf("listing Models: %w", err)
	}
	names := []string{model.GetName()}
	for i := range models.Items {
		if models.Items[i].Name != model.GetName() {
			names = append(names, models.Items[i].Name)
		}
	}
	return names, nil
}

// LayerChanged passes those changes of layers, Models, Tools and MCPServers that can change the configuration of a
// Session, or its condition: of the spec, the default annotation, the readiness, and the reason why a Model is not
// ready.
func LayerChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		const isDefault = v1alpha1.AnnotationDefaultModel
		return e.ObjectOld.GetUID() != e.ObjectNew.GetUID() ||
			e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration() ||
			e.ObjectOld.GetAnnotations()[isDefault] != e.ObjectNew.GetAnnotations()[isDefault] ||
			readinessChanged(e)
	}}
}

// ModelChanged passes those changes of a Model or an MCPServer that can change the condition of an Agent or a Harness
// which names it: of the spec, which has fallbacks, of the readiness, and of the reason why it is not ready.
func ModelChanged() predicate.Predicate {
	return predicate.Or(status.SpecChanged(), predicate.Funcs{
		CreateFunc:  func(event.CreateEvent) bool { return false },
		DeleteFunc:  func(event.DeleteEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
		UpdateFunc:  readinessChanged,
	})
}

// ToolChanged passes those changes of a Tool that can change the condition of an Agent or a Harness which names it: of
// the readiness, and of whether a network access list can restrict it.
func ToolChanged() predicate.Predicate {
	return predicate.Or(status.ReadyFlipped(), predicate.Funcs{
		CreateFunc:  func(event.CreateEvent) bool { return false },
		DeleteFunc:  func(event.DeleteEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, okBefore := e.ObjectOld.(*v1alpha1.Tool)
			after, okAfter := e.ObjectNew.(*v1alpha1.Tool)
			return okBefore && okAfter && config.Unbounded(&before.Spec) != config.Unbounded(&after.Spec)
		},
	})
}

// readinessChanged reports whether an object became ready, or is no longer ready, or a Model or an MCPServer has
// another reason why it is not, or the tools of an MCPServer come from another server.
func readinessChanged(e event.UpdateEvent) bool {
	before, after := status.Conditions(e.ObjectOld), status.Conditions(e.ObjectNew)
	const ready = v1alpha1.ConditionReady
	if meta.IsStatusConditionTrue(before, ready) != meta.IsStatusConditionTrue(after, ready) {
		return true
	}
	_, model := e.ObjectNew.(*v1alpha1.Model)
	server, isServer := e.ObjectNew.(*v1alpha1.MCPServer)
	if old, ok := e.ObjectOld.(*v1alpha1.MCPServer); ok && isServer &&
		old.Status.DiscoveredConnection != server.Status.DiscoveredConnection {
		return true
	}
	return (model || isServer) && explained(before) != explained(after)
}

// explained returns the reason and the message of the Ready condition.
func explained(conditions []metav1.Condition) [2]string {
	ready := meta.FindStatusCondition(conditions, v1alpha1.ConditionReady)
	if ready == nil {
		return [2]string{}
	}
	return [2]string{ready.Reason, ready.Message}
}
