package status

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// ReadyFlipped passes the creation and the deletion of an object, and updates that change its readiness. It is for
// controllers of dependent objects, to which other updates do not matter.
func ReadyFlipped() predicate.Predicate {
	return predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			before := meta.IsStatusConditionTrue(Conditions(e.ObjectOld), v1alpha1.ConditionReady)
			return replaced(e) || before != meta.IsStatusConditionTrue(Conditions(e.ObjectNew), v1alpha1.ConditionReady)
		},
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

// SpecChanged passes the creation and the deletion of an object, and updates with another spec: of the same object, or
// of a new object with its name, which after a relist is one update.
func SpecChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return replaced(e) || e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration()
	}}
}

// replaced reports whether an update stands for the deletion of one object and the creation of another with its name.
func replaced(e event.UpdateEvent) bool {
	return e.ObjectOld.GetUID() != e.ObjectNew.GetUID()
}

// Conditions returns the conditions of an object of this API; nil for one that has none.
func Conditions(o client.Object) []metav1.Condition {
	switch o := o.(type) {
	case *v1alpha1.Agent:
		return o.Status.Conditions
	case *v1alpha1.Budget:
		return o.Status.Conditions
	case *v1alpha1.Capability:
		return o.Status.Conditions
	case *v1alpha1.Harness:
		return o.Status.Conditions
	case *v1alpha1.MCPServer:
		return o.Status.Conditions
	case *v1alpha1.LeasedResource:
		return o.Status.Conditions
	case *v1alpha1.Model:
		return o.Status.Conditions
	case *v1alpha1.Schedule:
		return o.Status.Conditions
	case *v1alpha1.Session:
		return o.Status.Conditions
	case *v1alpha1.Tool:
		return o.Status.Conditions
	case *v1alpha1.ToolResult:
		return o.Status.Conditions
	case *v1alpha1.Turn:
		return o.Status.Conditions
	default:
		return nil
	}
}
