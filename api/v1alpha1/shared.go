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
	// ToolConcurrencyParallel runs the calls of a step side by side, at most 32 at once, calls of one concurrency class
	// in turn.
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

// NetworkPattern is a place in the network: a host (example.org), a domain with all its subdomains (*.example.org), or
// the beginning of a URL (https://example.org/v1/).
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=512
// +kubebuilder:validation:XValidation:rule="self.matches('^([*][.])?[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?([.][A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?)*$') || self.matches('^https?://([A-Za-z0-9_.-]+|[[][0-9A-Fa-f:.]+[]])(:[0-9]{1,5})?(/[^?# ]*)?$')",message="must be a host such as example.org, a domain with all its subdomains such as *.example.org, or the beginning of a URL such as https://example.org/v1/, without user, query and fragment."
type NetworkPattern string

// NetworkAccess is a list of what the tools of a Turn may reach over the network (CFG-05). It binds HTTP tools,
// redirects included. What a Job reaches the manager cannot see, so that with a list in force a Tool with a job must
// have network None, or be exempt.
// +kubebuilder:validation:XValidation:rule="has(self.allowed) || has(self.blocked)",message="allowed or blocked must be set: a list without either holds nobody back."
type NetworkAccess struct {
	// allowed is all that may be reached. A host stands for any scheme, port and path; the beginning of a URL is
	// compared letter by letter, its default port left out, and one with a path stands for no URL whose path may be
	// read as leading upwards. Of two layers that set it, the lower one keeps what lies within the higher one's; when
	// nothing does, nothing may be reached. Without it in any layer, everything may be that is not blocked.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	Allowed []NetworkPattern `json:"allowed,omitempty"`
	// blocked is what may not be reached, whatever is allowed. Layers add up. With a path it stands as well for every
	// URL of that server whose path may be read as leading upwards.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	Blocked []NetworkPattern `json:"blocked,omitempty"`
	// exemptTools names Tools with a job that may run although nothing holds their pods to the list. Every layer that
	// has a list must name them.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	ExemptTools []LocalReference `json:"exemptTools,omitempty"`
}

// ConfigLayer is the configuration that a Harness, an Agent and a Session may each set. The layers fold into one, from
// the root Harness down to the Session (CFG-02, CFG-03), anew at every phase of a Turn.
type ConfigLayer struct {
	// systemPrompt is what the model is told first. The prompts of all layers are trimmed and joined by a blank line,
	// the root Harness first.
	// +optional
	// +kubebuilder:validation:MaxLength=65536
	SystemPrompt string `json:"systemPrompt,omitempty"`

	// modelRef names the Model that answers. A lower layer replaces a higher one; without any, the namespace's default
	// Model is used.
	// +optional
	ModelRef *LocalReference `json:"modelRef,omitempty"`

	// tools lists the Tools that the model may call. Layers add up.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	Tools []LocalReference `json:"tools,omitempty"`

	// networkAccess lists what the tools may reach over the network. A lower layer can only narrow it. Without it in
	// any layer, nothing but the manager's own limits holds tools back.
	// +optional
	NetworkAccess *NetworkAccess `json:"networkAccess,omitempty"`

	// maxIterations is the most model calls that one Turn may make. A Turn that reaches it completes with the stop reason
	// MaxTurnRequests. A lower layer replaces a higher one. Default 500.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	MaxIterations *int32 `json:"maxIterations,omitempty"`

	// toolConcurrency says how the tool calls of one step run: Parallel (default) or Sequential. A lower layer replaces
	// a higher one.
	// +optional
	ToolConcurrency ToolConcurrency `json:"toolConcurrency,omitempty"`
}

// JSON is any JSON value. It is kept as it was written.
type JSON = apiextensionsv1.JSON
