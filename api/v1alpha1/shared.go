package v1alpha1

import (
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// DefaultMaxIterations is the maximum number of model calls of a Turn if no layer sets maxIterations.
const DefaultMaxIterations int32 = 500

// LocalReference names an object of a known kind in the same namespace.
type LocalReference struct {
	// name of the object.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// ToolConcurrency is how the tool calls of one step run.
// +kubebuilder:validation:Enum=Parallel;Sequential
type ToolConcurrency string

const (
	// ToolConcurrencyParallel runs the calls of a step in parallel, at most 32 at once, and calls of one concurrency
	// class in turn.
	ToolConcurrencyParallel ToolConcurrency = "Parallel"
	// ToolConcurrencySequential runs the calls of a step one after another, in the order of the model's response.
	ToolConcurrencySequential ToolConcurrency = "Sequential"
)

// Lifecycle is whether a layer may be used.
// +kubebuilder:validation:Enum=Active;Archived
type Lifecycle string

const (
	// LifecycleActive lets Turns use the object.
	LifecycleActive Lifecycle = "Active"
	// LifecycleArchived stops every Turn that uses the object before its next model call or tool call.
	LifecycleArchived Lifecycle = "Archived"
)

// NetworkPattern matches network destinations: a host (example.org), a domain with all its subdomains (*.example.org),
// or a URL prefix (https://example.org/v1/).
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=512
// +kubebuilder:validation:XValidation:rule="self.matches('^([*][.])?[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?([.][A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?)*$') || self.matches('^https?://([A-Za-z0-9_.-]+|[[][0-9A-Fa-f:.]+[]])(:[0-9]{1,5})?(/[^?# ]*)?$')",message="must be a host such as example.org, a domain with all its subdomains such as *.example.org, or the beginning of a URL such as https://example.org/v1/, without user, query and fragment."
type NetworkPattern string

// NetworkAccess lists the network destinations that the tools of a Turn may reach. It restricts HTTP tools,
// redirects included, and calls of the tools of MCPServers. The manager cannot restrict the connections of a Job: if a
// list is in effect, a Tool with a job must have network None, or be exempt. The patterns of allowed and blocked have
// at most 8192 bytes together.
// +kubebuilder:validation:XValidation:rule="has(self.allowed) || has(self.blocked)",message="at least one of allowed and blocked must be set."
// +kubebuilder:validation:XValidation:rule="(has(self.allowed) ? self.allowed.map(p, size(bytes(p))).sum() : 0) + (has(self.blocked) ? self.blocked.map(p, size(bytes(p))).sum() : 0) <= 8192",message="allowed and blocked must have at most 8192 bytes together."
type NetworkAccess struct {
	// allowed lists the only destinations that may be reached. A host matches any scheme, port and path. A URL prefix
	// is compared character by character, without a default port; one with a path does not match URLs whose path can be
	// interpreted as leading upwards. If two layers set it, only the lower layer's patterns within those of the higher
	// layer remain; if none remains, nothing may be reached. If no layer sets it, every destination that is not blocked
	// may be reached.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	Allowed []NetworkPattern `json:"allowed,omitempty"`
	// blocked lists destinations that may not be reached, even if they are allowed. Layers add up. A pattern with a
	// path also matches every URL of that server whose path can be interpreted as leading upwards.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	Blocked []NetworkPattern `json:"blocked,omitempty"`
	// exemptTools names Tools with a job that may run although the list does not restrict their pods. Every layer that
	// has a list must name them.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	ExemptTools []LocalReference `json:"exemptTools,omitempty"`
}

// CapabilityRisk is how much harm a capability can do.
// +kubebuilder:validation:Enum=Low;Medium;High
type CapabilityRisk string

const (
	// CapabilityRiskLow is for a capability that reads and writes nothing outside of the Session.
	CapabilityRiskLow CapabilityRisk = "Low"
	// CapabilityRiskMedium is for a capability that reads what is outside of the Session, or starts work there.
	CapabilityRiskMedium CapabilityRisk = "Medium"
	// CapabilityRiskHigh is for a capability that only certain users may assign.
	CapabilityRiskHigh CapabilityRisk = "High"
)

// CapabilityReference names a capability that a Session has.
// +kubebuilder:validation:XValidation:rule="has(self.builtin) != has(self.name)",message="exactly one of builtin and name must be set."
type CapabilityReference struct {
	// builtin is the name of a capability that is part of the manager, such as current_time. The condition Ready of an
	// object that names an unknown one lists them all.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z][a-z0-9_]*$`
	Builtin string `json:"builtin,omitempty"`

	// name of a Capability in the same namespace.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`
	Name string `json:"name,omitempty"`

	// config is the configuration of the capability, an object of at most 2048 bytes. The documentation
	// of a built-in capability has its configuration, and the condition Ready of an object with another one tells why it
	// cannot be used. That of a Capability must match its configSchema, and the model is shown it.
	// +optional
	// +kubebuilder:validation:Type=object
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:pruning:PreserveUnknownFields
	Config *JSON `json:"config,omitempty"`

	// optional lets Turns run without the capability while it, or one that it depends on, does not exist or is archived.
	// It is not for a capability that brings hooks. A capability is optional only if every layer that names it sets it.
	// Default: false.
	// +optional
	Optional *bool `json:"optional,omitempty"`

	// maxRisk is the highest risk that the capability may have: Low, Medium (default) or High. While it has a higher one,
	// it is not used, and Turns wait. A user who sets High needs the verb assign-high-risk on
	// capabilities.capstan.dev/NAME for a built-in capability, and on capabilities.capstan.dev/object/NAME for a
	// Capability.
	// +optional
	MaxRisk CapabilityRisk `json:"maxRisk,omitempty"`
}

// ConfigLayer is the configuration that a Harness, an Agent and a Session may each set. The layers are merged, from the
// root Harness down to the Session, again in every phase of a Turn.
type ConfigLayer struct {
	// systemPrompt is the system prompt for the model. The prompts of all layers are trimmed and joined by a blank
	// line, the root Harness first.
	// +optional
	// +kubebuilder:validation:MaxLength=65536
	SystemPrompt string `json:"systemPrompt,omitempty"`

	// modelRef names the Model to call. A lower layer replaces a higher one; if no layer sets it, the namespace's
	// default Model is called.
	// +optional
	ModelRef *LocalReference `json:"modelRef,omitempty"`

	// tools lists the Tools that the model may call. Layers add up.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	Tools []LocalReference `json:"tools,omitempty"`

	// mcpServers lists the MCPServers whose tools the model may call. Layers add up, and at most 32 may be named together.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	MCPServers []LocalReference `json:"mcpServers,omitempty"`

	// capabilities lists the capabilities of the Session. Each adds its tools to those that the model may call, and a
	// Capability whatever else it has. Layers add up. A capability that is named twice counts once, with the config of the
	// lower layer and the lower maxRisk.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Capabilities []CapabilityReference `json:"capabilities,omitempty"`

	// hooks run at events of Sessions and Turns, such as messages and tool calls. Those of all layers run, the root
	// Harness's first. Commands, expressions and certificates have at most 32768 bytes together. A user who sets hooks
	// needs the verb assign-high-risk on capabilities.capstan.dev/user_hooks.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:XValidation:rule="self.map(h, (has(h.bash) ? size(h.bash.command) : 0) + (has(h.cel) ? size(h.cel.expression) : 0) + (has(h.webhook) && has(h.webhook.caBundle) ? size(h.webhook.caBundle) : 0)).sum() <= 32768",message="hooks must have at most 32768 bytes of commands, expressions and certificates together."
	Hooks []Hook `json:"hooks,omitempty"`

	// disabledHooks lists the ids of hooks of this layer or of lower ones that do not run. A layer cannot disable the
	// hooks of a higher one.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=330
	DisabledHooks []string `json:"disabledHooks,omitempty"`

	// initialFiles are the files that a Session begins with. They are written before a Turn uses the files of the Session
	// for the first time, and never again. Layers add up; of two files with the same path, or where one is a file and the
	// other needs a directory, the lower layer's counts. The contents of a layer have at most 262144 bytes together, and
	// the paths at most 4096.
	// +optional
	// +listType=map
	// +listMapKey=path
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:XValidation:rule="self.map(f, has(f.content) ? size(bytes(f.content)) : 0).sum() <= 262144",message="initialFiles must have at most 262144 bytes of content together."
	// +kubebuilder:validation:XValidation:rule="self.map(f, size(bytes(f.path))).sum() <= 4096",message="initialFiles must have at most 4096 bytes of paths together."
	InitialFiles []InitialFile `json:"initialFiles,omitempty"`

	// networkAccess lists the network destinations that the tools may reach. A lower layer can only narrow it. If no
	// layer sets it, only the manager's own limits restrict tools.
	// +optional
	NetworkAccess *NetworkAccess `json:"networkAccess,omitempty"`

	// serviceAccountName is the ServiceAccount that the tools of the capability platform run as. Without it the Session
	// has none of these tools. A lower layer replaces a higher one. A user who writes an object with it must be allowed
	// to request tokens of the ServiceAccount: the verb create on serviceaccounts/token. Every user who may send messages
	// to the Session uses it, and, if a Harness or an Agent names it, every user who may create Sessions on that.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	ServiceAccountName string `json:"serviceAccountName,omitempty"`

	// maxIterations is the maximum number of model calls of one Turn. A Turn that reaches it completes with the stop
	// reason MaxTurnRequests. A lower layer replaces a higher one. Default 500.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	MaxIterations *int32 `json:"maxIterations,omitempty"`

	// toolConcurrency is how the tool calls of one step run: Parallel (default) or Sequential. A lower layer replaces a
	// higher one.
	// +optional
	ToolConcurrency ToolConcurrency `json:"toolConcurrency,omitempty"`
}

// JSON is any JSON value. It is kept as it was written.
type JSON = apiextensionsv1.JSON
