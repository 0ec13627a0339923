package v1alpha1

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// LocalReference names an object of a known kind in the same namespace.
type LocalReference struct {
	// name of the object.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// ToolConcurrency says how the tool calls of one step run (TOOL-12).
// +kubebuilder:validation:Enum=Parallel;Sequential
type ToolConcurrency string

const (
	// ToolConcurrencyParallel runs the calls of a step side by side, at most 32 at once, calls of one concurrency class in turn.
	ToolConcurrencyParallel ToolConcurrency = "Parallel"
	// ToolConcurrencySequential runs the calls of a step one after another, in the order the model gave them.
	ToolConcurrencySequential ToolConcurrency = "Sequential"
)

// Lifecycle says whether a layer may be used (BLK-01).
// +kubebuilder:validation:Enum=Active;Archived
type Lifecycle string

const (
	// LifecycleActive lets Turns use the object.
	LifecycleActive Lifecycle = "Active"
	// LifecycleArchived stops every Turn that uses the object before its next model call or tool call.
	LifecycleArchived Lifecycle = "Archived"
)

// ConfigLayer is the configuration that a Harness, an Agent and a Session may each set. The layers fold into one, from the
// root Harness down to the Session (CFG-02, CFG-03), anew at every phase of a Turn.
type ConfigLayer struct {
	// systemPrompt is what the model is told first. The prompts of all layers are trimmed and joined by a blank line, the root
	// Harness first.
	// +optional
	// +kubebuilder:validation:MaxLength=65536
	SystemPrompt string `json:"systemPrompt,omitempty"`

	// modelRef names the Model that answers. A lower layer replaces a higher one; without any, the namespace's default Model is used.
	// +optional
	ModelRef *LocalReference `json:"modelRef,omitempty"`

	// tools lists the Tools that the model may call. Layers add up.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	Tools []LocalReference `json:"tools,omitempty"`

	// maxIterations is the most model calls that one Turn may make. A Turn that reaches it completes with the stop reason
	// MaxTurnRequests. A lower layer replaces a higher one. Default 500.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	MaxIterations *int32 `json:"maxIterations,omitempty"`

	// toolConcurrency says how the tool calls of one step run: Parallel (default) or Sequential. A lower layer replaces a higher one.
	// +optional
	ToolConcurrency ToolConcurrency `json:"toolConcurrency,omitempty"`
}

// JSON is any JSON value. It is kept as it was written.
type JSON = apiextensionsv1.JSON
