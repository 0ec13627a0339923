package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// AgentSpec is the domain layer of configuration.
type AgentSpec struct {
	ConfigLayer `json:",inline"`

	// lifecycle is Active (default) or Archived. An archived Agent stops the Turns of the Sessions that name it.
	// +optional
	// +kubebuilder:default=Active
	Lifecycle Lifecycle `json:"lifecycle,omitempty"`
}

// AgentStatus is the observed state of an Agent.
type AgentStatus struct {
	// conditions of the object. Ready is True when all references of the Agent are resolved.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the generation of the spec that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}

// Agent is the domain layer of an agent's configuration. A Session combines it with a Harness.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:categories=capstan
// +kubebuilder:printcolumn:name="Lifecycle",type=string,JSONPath=`.spec.lifecycle`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Agent struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard metadata of an object.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired layer.
	// +optional
	Spec AgentSpec `json:"spec,omitempty"`
	// status is the observed state. Only the manager writes it.
	// +optional
	// +kubebuilder:default={observedGeneration:-1}
	Status AgentStatus `json:"status,omitempty"`
}

// AgentList is a list of Agents.
//
// +kubebuilder:object:root=true
type AgentList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Agent `json:"items"`
}
