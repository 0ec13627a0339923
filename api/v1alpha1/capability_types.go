package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// CapabilityDependency names a capability that another one needs.
// +kubebuilder:validation:XValidation:rule="has(self.builtin) != has(self.name)",message="exactly one of builtin and name must be set."
type CapabilityDependency struct {
	// builtin is the name of a capability that is part of the manager.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z][a-z0-9_]*$`
	Builtin string `json:"builtin,omitempty"`

	// name of a Capability in the same namespace.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`
	Name string `json:"name,omitempty"`

	// maxRisk is the highest risk that the capability may have: Low, Medium (default) or High. While it has a higher one,
	// Turns wait. A user who sets High needs the verb assign-high-risk, as for capabilities of a layer.
	// +optional
	MaxRisk CapabilityRisk `json:"maxRisk,omitempty"`
}

// BlueprintModel is which Model the agent of a blueprint calls.
// +kubebuilder:validation:Enum=Inherit;Default;Fixed
type BlueprintModel string

const (
	// BlueprintModelInherit is the Model of the layers.
	BlueprintModelInherit BlueprintModel = "Inherit"
	// BlueprintModelDefault is the Model of the blueprint, unless the config of the Session has another one as model.
	BlueprintModelDefault BlueprintModel = "Default"
	// BlueprintModelFixed is the Model of the blueprint.
	BlueprintModelFixed BlueprintModel = "Fixed"
)

// Blueprint is an agent with a prompt and tools of its own. A Session that is one has these in place of the prompts,
// tools and capabilities of its layers. Their hooks, initial files and networkAccess hold for it as well.
// +kubebuilder:validation:XValidation:rule="has(self.modelRef) == (has(self.modelPolicy) && self.modelPolicy != 'Inherit')",message="modelRef is for the modelPolicy Default and Fixed, and required there."
type Blueprint struct {
	// name of the blueprint, unique in the Capability.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`
	Name string `json:"name"`

	// description tells models what the agent is for: those that may start it as a sub-agent.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Description string `json:"description"`

	// systemPrompt for the model. The config of the Session follows it as JSON.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=16384
	SystemPrompt string `json:"systemPrompt"`

	// tools lists the only Tools that the model may call. They cannot be Tools with an agent.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Tools []LocalReference `json:"tools,omitempty"`

	// modelPolicy is Inherit (default), Default or Fixed: whether the Model is that of the layers, that of modelRef unless
	// the config of the Session has another one as model, or that of modelRef.
	// +optional
	ModelPolicy BlueprintModel `json:"modelPolicy,omitempty"`

	// modelRef names the Model.
	// +optional
	ModelRef *LocalReference `json:"modelRef,omitempty"`

	// maxIterations is the maximum number of model calls of one Turn, unless the Session sets one. Default 20.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	MaxIterations *int32 `json:"maxIterations,omitempty"`

	// configSchema is the JSON Schema of the config of a Session, at most 4096 bytes. Its type is object. Without a
	// configSchema the blueprint has no config.
	// +optional
	// +kubebuilder:validation:Type=object
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:pruning:PreserveUnknownFields
	ConfigSchema *JSON `json:"configSchema,omitempty"`
}

// BlueprintReference selects a blueprint of a Capability.
type BlueprintReference struct {
	// capability is the name of the Capability.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`
	Capability string `json:"capability"`

	// name of the blueprint.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([a-z0-9-]*[a-z0-9])?$`
	Name string `json:"name"`

	// config of the agent, an object of at most 2048 bytes. It must match the configSchema of the blueprint, and the model
	// is shown it. With the modelPolicy Default, its model names the Model.
	// +optional
	// +kubebuilder:validation:Type=object
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:pruning:PreserveUnknownFields
	Config *JSON `json:"config,omitempty"`

	// maxRisk is the highest risk that the Capability may have: Low, Medium (default) or High. A user who sets High needs
	// the verb assign-high-risk, as for capabilities of a layer.
	// +optional
	MaxRisk CapabilityRisk `json:"maxRisk,omitempty"`
}

// CapabilitySpec is a bundle of configuration that layers name in their capabilities.
type CapabilitySpec struct {
	// description of the capability, for people.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Description string `json:"description,omitempty"`

	// systemPrompt is added to the system prompt for the model, before the prompts of the layers.
	// +optional
	// +kubebuilder:validation:MaxLength=65536
	SystemPrompt string `json:"systemPrompt,omitempty"`

	// tools lists the Tools that the model may call.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	Tools []LocalReference `json:"tools,omitempty"`

	// mcpServers lists the MCPServers whose tools the model may call.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	MCPServers []LocalReference `json:"mcpServers,omitempty"`

	// hooks run at events of Turns, before those of the layer that names the capability. Their ids are
	// object/CAPABILITY:NAME. Commands, expressions and certificates have at most 32768 bytes together. A user who sets
	// hooks needs the verb assign-high-risk on capabilities.capstan.dev/user_hooks.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:XValidation:rule="self.map(h, (has(h.bash) ? size(h.bash.command) : 0) + (has(h.cel) ? size(h.cel.expression) : 0) + (has(h.webhook) && has(h.webhook.caBundle) ? size(h.webhook.caBundle) : 0)).sum() <= 32768",message="hooks must have at most 32768 bytes of commands, expressions and certificates together."
	Hooks []Hook `json:"hooks,omitempty"`

	// initialFiles are files that a Session with the capability begins with. A layer replaces those of a capability with
	// the same path. The contents have at most 262144 bytes together, and the paths at most 4096.
	// +optional
	// +listType=map
	// +listMapKey=path
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:XValidation:rule="self.map(f, has(f.content) ? size(bytes(f.content)) : 0).sum() <= 262144",message="initialFiles must have at most 262144 bytes of content together."
	// +kubebuilder:validation:XValidation:rule="self.map(f, size(bytes(f.path))).sum() <= 4096",message="initialFiles must have at most 4096 bytes of paths together."
	InitialFiles []InitialFile `json:"initialFiles,omitempty"`

	// dependencies lists the capabilities that come with this one, and before it. A Session has at most 64 capabilities,
	// with their dependencies.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Dependencies []CapabilityDependency `json:"dependencies,omitempty"`

	// blueprints are agents that a Session, or a sub-agent, can be instead of the agent that its layers make up.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=4
	Blueprints []Blueprint `json:"blueprints,omitempty"`

	// configSchema is the JSON Schema of the config with which layers name the capability, at most 8192 bytes. Its type is
	// object. The model is shown the config behind the systemPrompt. Without a configSchema the capability has no config.
	// +optional
	// +kubebuilder:validation:Type=object
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:pruning:PreserveUnknownFields
	ConfigSchema *JSON `json:"configSchema,omitempty"`

	// riskLevel is how much harm the capability can do: Low (default), Medium or High. Who names it accepts a level by
	// maxRisk. A user who writes a Capability of the level High needs the verb assign-high-risk on
	// capabilities.capstan.dev/object/NAME.
	// +optional
	// +kubebuilder:default=Low
	RiskLevel CapabilityRisk `json:"riskLevel,omitempty"`

	// lifecycle is Active (default) or Archived. An archived Capability stops the Turns of the Sessions that have it, and
	// later ones wait.
	// +optional
	// +kubebuilder:default=Active
	Lifecycle Lifecycle `json:"lifecycle,omitempty"`
}

// CapabilityStatus is the observed state of a Capability.
type CapabilityStatus struct {
	// conditions of the object. Ready is True when the capability can be used: all that it names is ready, its hooks and
	// its files are valid, and it is not archived. Stalled is True while its configSchema, or that of a blueprint, is
	// invalid.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the generation of the spec that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// dependencies are the ids of the capabilities that come with this one, each behind those that it depends on: the name
	// of a built-in one, and object/NAME for a Capability.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=128
	Dependencies []string `json:"dependencies,omitempty"`
}

// Capability is a bundle of prompt, tools, hooks and files that Harnesses, Agents and Sessions name in their
// capabilities.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:categories=capstan
// +kubebuilder:printcolumn:name="Risk",type=string,JSONPath=`.spec.riskLevel`
// +kubebuilder:printcolumn:name="Lifecycle",type=string,JSONPath=`.spec.lifecycle`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Description",type=string,JSONPath=`.spec.description`,priority=1
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 63 && !self.metadata.name.contains('.')",message="the name of a Capability has at most 63 characters, and no dots."
type Capability struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard metadata of an object.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the bundle.
	// +optional
	Spec CapabilitySpec `json:"spec,omitempty"`
	// status is the observed state. Only the manager writes it.
	// +optional
	// +kubebuilder:default={observedGeneration:-1}
	Status CapabilityStatus `json:"status,omitempty"`
}

// CapabilityList is a list of Capabilities.
//
// +kubebuilder:object:root=true
type CapabilityList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Capability `json:"items"`
}
