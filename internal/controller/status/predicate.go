package status

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/condition"
)

// ReadyFlipped lets the creation and the deletion of an object pass, and those updates that make it Ready or no longer
// Ready. It is for those who depend on the object; any other update of its status or spec says nothing to them.
func ReadyFlipped() predicate.Predicate {
	return predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			return replaced(e) || condition.IsTrue(Conditions(e.ObjectOld), v1alpha1.ConditionReady) != condition.IsTrue(Conditions(e.ObjectNew), v1alpha1.ConditionReady)
		},
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

// SpecChanged passes the creation and the deletion of an object, and those updates that bring another spec: of the
// object itself, or because another object has taken its name, which is one update after a relist.
func SpecChanged() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return replaced(e) || e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration()
	}}
}

// replaced reports whether an update is the deletion of one object and the creation of another one of its name.
func replaced(e event.UpdateEvent) bool {
	return e.ObjectOld.GetUID() != e.ObjectNew.GetUID()
}

// Conditions returns the conditions of an object of this API; nil for one that has none.
func Conditions(o client.Object) []metav1.Condition {
	switch o := o.(type) {
	case *v1alpha1.Agent:
		return o.Status.Conditions
	case *v1alpha1.Harness:
		return o.Status.Conditions
	case *v1alpha1.Model:
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
