// Package builder builds the objects that tests create, so that a test states only what matters to it:
//
//	builder.Turn("demo-1").In(namespace).Input("What is the weather?").Obj()
//
// It is here, and not below test/internal, because the unit tests of packages below internal use it too.
package builder

import (
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// Names that objects refer to unless a test sets others.
const (
	// HarnessName is the Harness of a Session.
	HarnessName = "base"
	// SessionName is the Session of a Turn.
	SessionName = "demo"
	// ModelName is the Model of Stage.
	ModelName = "simulated"
	// TurnName is the Turn of a ToolResult.
	TurnName = "demo-1"
)

// Stage returns the objects that a Session needs, in the order in which to create them: the namespace's default Model,
// which follows the script, the Tools, and the Harness that offers them. The Tools move to the namespace.
func Stage(namespace string, script v1alpha1.Simulation, tools ...*v1alpha1.Tool) []client.Object {
	harness := Harness(HarnessName).In(namespace)
	objects := []client.Object{Model(ModelName).In(namespace).Simulated(script).Default().Obj()}
	for _, tool := range tools {
		tool.Namespace = namespace
		harness.Tools(tool.Name)
		objects = append(objects, tool)
	}
	return append(objects, harness.Obj())
}

func reference(name string) *v1alpha1.LocalReference { return &v1alpha1.LocalReference{Name: name} }

func references(names []string) []v1alpha1.LocalReference {
	list := make([]v1alpha1.LocalReference, 0, len(names))
	for _, name := range names {
		list = append(list, v1alpha1.LocalReference{Name: name})
	}
	return list
}
