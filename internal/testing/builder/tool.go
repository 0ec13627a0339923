package builder

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// toolImage is an image that no test pulls.
const toolImage = "capstan.dev/toolbox:test"

// ToolWrapper wraps a Tool.
type ToolWrapper struct{ object v1alpha1.Tool }

// Tool begins a Tool that has no executor yet.
func Tool(name string) *ToolWrapper {
	return &ToolWrapper{v1alpha1.Tool{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       v1alpha1.ToolSpec{Description: "A tool of the tests."},
	}}
}

// ClientTool begins a Tool whose results the client sends.
func ClientTool(name string) *ToolWrapper {
	w := Tool(name)
	w.object.Spec.Client = &v1alpha1.ClientTool{}
	return w
}

// JobTool begins a Tool that runs the command of its name in a Job.
func JobTool(name string, class v1alpha1.SideEffect) *ToolWrapper {
	w := Tool(name).SideEffect(class)
	w.object.Spec.Job = &v1alpha1.JobTool{Image: toolImage, Command: []string{"/toolbox", name}}
	return w
}

// HTTPTool begins a Tool that calls a URL.
func HTTPTool(name string, class v1alpha1.SideEffect, url string) *ToolWrapper {
	w := Tool(name).SideEffect(class)
	w.object.Spec.HTTP = &v1alpha1.HTTPTool{URL: url}
	return w
}

// AgentTool begins a Tool that runs a sub-agent of a Harness, or one of the calling Session's for an empty name. It
// accepts any arguments.
func AgentTool(name, harness string) *ToolWrapper {
	w := Tool(name)
	w.object.Spec.Agent = &v1alpha1.AgentTool{}
	if harness != "" {
		w.object.Spec.Agent.HarnessRef = reference(harness)
	}
	w.object.Spec.InputSchema = &v1alpha1.JSON{Raw: []byte(`{"type":"object"}`)}
	return w
}

// In sets the namespace.
func (w *ToolWrapper) In(namespace string) *ToolWrapper {
	w.object.Namespace = namespace
	return w
}

// SideEffect sets the class of the side effect.
func (w *ToolWrapper) SideEffect(class v1alpha1.SideEffect) *ToolWrapper {
	w.object.Spec.SideEffect = class
	return w
}

// Obj returns the Tool.
func (w *ToolWrapper) Obj() *v1alpha1.Tool { return &w.object }

// ToolResultWrapper wraps a ToolResult.
type ToolResultWrapper struct{ object v1alpha1.ToolResult }

// ToolResult begins a ToolResult for a call of the Turn named TurnName.
func ToolResult(name, callID string) *ToolResultWrapper {
	return &ToolResultWrapper{v1alpha1.ToolResult{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       v1alpha1.ToolResultSpec{TurnRef: v1alpha1.TurnReference{Name: TurnName}, CallID: callID},
	}}
}

// In sets the namespace.
func (w *ToolResultWrapper) In(namespace string) *ToolResultWrapper {
	w.object.Namespace = namespace
	return w
}

// Turn sets the Turn.
func (w *ToolResultWrapper) Turn(name string) *ToolResultWrapper {
	w.object.Spec.TurnRef.Name = name
	return w
}

// Result sets the result.
func (w *ToolResultWrapper) Result(text string) *ToolResultWrapper {
	w.object.Spec.Result = &text
	return w
}

// Obj returns the ToolResult.
func (w *ToolResultWrapper) Obj() *v1alpha1.ToolResult { return &w.object }
