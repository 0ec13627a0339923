package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// HarnessSpec is a reusable base layer of configuration.
type HarnessSpec struct {
	// parentRef names the Harness that this one builds on.
	// +optional
	ParentRef *LocalReference `json:"parentRef,omitempty"`

	ConfigLayer `json:",inline"`

	// lifecycle is Active (default) or Archived. An archived Harness stops the Turns of the Sessions that name it.
	// +optional
	// +kubebuilder:default=Active
	Lifecycle Lifecycle `json:"lifecycle,omitempty"`
}

// HarnessStatus is the observed state of a Harness.
type HarnessStatus struct {
	// conditions of the object. Ready is True when all references of the Harness and of its ancestors are resolved.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the generation of the spec that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// chain names the Harnesses that are merged into this one, the root first, the Harness itself last.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=253
	Chain []string `json:"chain,omitempty"`
}

// Harness is the reusable base layer of an agent's configuration. Harnesses inherit from one another by parentRef.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:categories=capstan
// +kubebuilder:printcolumn:name="Parent",type=string,JSONPath=`.spec.parentRef.name`
// +kubebuilder:printcolumn:name="Lifecycle",type=string,JSONPath=`.spec.lifecycle`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Harness struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard metadata of an object.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired layer.
	// +optional
	Spec HarnessSpec `json:"spec,omitempty"`
	// status is the observed state. Only the manager writes it.
	// +optional
	// +kubebuilder:default={observedGeneration:-1}
	Status HarnessStatus `json:"status,omitempty"`
}

// HarnessList is a list of Harnesses.
//
// +kubebuilder:object:root=true
type HarnessList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Harness `json:"items"`
}
