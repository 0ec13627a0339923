package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// LeaseDesiredState is what users want of a leased resource.
// +kubebuilder:validation:Enum=Active;Released;Abandoned
type LeaseDesiredState string

const (
	// LeaseDesiredStateActive: the resource is kept until the lease expires. It is the default.
	LeaseDesiredStateActive LeaseDesiredState = "Active"
	// LeaseDesiredStateReleased: the resource is cleaned up now.
	LeaseDesiredStateReleased LeaseDesiredState = "Released"
	// LeaseDesiredStateAbandoned: the resource is not cleaned up by the manager.
	LeaseDesiredStateAbandoned LeaseDesiredState = "Abandoned"
)

// LeaseState is the state of a leased resource.
// +kubebuilder:validation:Enum=Active;Cleaning;CleanupFailed;Released;Abandoned
type LeaseState string

const (
	// LeaseStateActive: the resource may be used, and the lease has not expired.
	LeaseStateActive LeaseState = "Active"
	// LeaseStateCleaning: the manager cleans the resource up.
	LeaseStateCleaning LeaseState = "Cleaning"
	// LeaseStateCleanupFailed: the last clean-up has failed, and is repeated at expiresAt.
	LeaseStateCleanupFailed LeaseState = "CleanupFailed"
	// LeaseStateReleased: the resource is cleaned up.
	LeaseStateReleased LeaseState = "Released"
	// LeaseStateAbandoned: the manager does not clean the resource up.
	LeaseStateAbandoned LeaseState = "Abandoned"
)

// LeaseCleanup is how a leased resource is cleaned up.
type LeaseCleanup struct {
	// toolRef names the Tool that cleans the resource up.
	// +required
	ToolRef LocalReference `json:"toolRef"`
	// confinedTo is the only place that the clean-up may send requests to, as scheme://host:port, where a network access
	// list was in force for the call that created the resource.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=320
	ConfinedTo string `json:"confinedTo,omitempty"`
}

// LeasedResourceSpec is a resource outside of the cluster.
// +kubebuilder:validation:XValidation:rule="self.provider == oldSelf.provider && self.type == oldSelf.type && self.externalID == oldSelf.externalID && self.duration == oldSelf.duration && self.sessionRef == oldSelf.sessionRef && self.turn == oldSelf.turn && self.tool == oldSelf.tool && has(self.user) == has(oldSelf.user) && (!has(self.user) || self.user == oldSelf.user) && self.cleanup == oldSelf.cleanup",message="only desiredState can be changed."
// +kubebuilder:validation:XValidation:rule="oldSelf.desiredState != 'Abandoned' || self.desiredState == 'Abandoned'",message="an abandoned resource stays abandoned."
type LeasedResourceSpec struct {
	// desiredState is Active (default), Released, to clean the resource up now, or Abandoned, to leave it alone: it is
	// then to be cleaned up by hand. A resource that is used again after it was released is Active again.
	// +optional
	// +kubebuilder:default=Active
	DesiredState LeaseDesiredState `json:"desiredState,omitempty"`
	// provider is the name of the system that has the resource.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Provider string `json:"provider"`
	// type of the resource.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Type string `json:"type"`
	// externalID is the id of the resource at its provider.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	ExternalID string `json:"externalID"`
	// duration of the lease after it was created.
	// +required
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Type=string
	Duration metav1.Duration `json:"duration"`
	// sessionRef is the Session whose call has created the resource. The Session may be gone.
	// +required
	SessionRef ObjectIdentity `json:"sessionRef"`
	// turn is the name of the Turn that made the call.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Turn string `json:"turn"`
	// tool is the name of the Tool that was called.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Tool string `json:"tool"`
	// user is the user who has submitted the Turn: the clean-up has the connections of this user. It is absent if that is
	// not known, or if there were several.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	User string `json:"user,omitempty"`
	// cleanup is how the resource is cleaned up.
	// +required
	Cleanup LeaseCleanup `json:"cleanup"`
}

// LeasedResourceStatus is the observed state of a leased resource.
type LeasedResourceStatus struct {
	// conditions are Ready, which is False while the resource is cleaned up and after a failure of that, Reconciling while
	// it is cleaned up, and Stalled once clean-ups have failed three times in a row.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=8
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// observedGeneration is the generation of the spec that this status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// state is Active, Cleaning, CleanupFailed, Released or Abandoned.
	// +optional
	State LeaseState `json:"state,omitempty"`
	// expiresAt is when the resource is cleaned up next, unless it is used before. After a failure it is when the clean-up
	// is repeated.
	// +optional
	ExpiresAt *metav1.Time `json:"expiresAt,omitempty"`
	// lastUsedAt is when a call used the resource last.
	// +optional
	LastUsedAt *metav1.Time `json:"lastUsedAt,omitempty"`
	// cleanupStartedAt is when the clean-up that runs has begun. It claims the clean-up.
	// +optional
	CleanupStartedAt *metav1.MicroTime `json:"cleanupStartedAt,omitempty"`
	// claimExpiresAt is when another process may begin the clean-up again.
	// +optional
	ClaimExpiresAt *metav1.Time `json:"claimExpiresAt,omitempty"`
	// cleanupAttempts counts the clean-ups that were begun.
	// +optional
	// +kubebuilder:validation:Minimum=0
	CleanupAttempts int32 `json:"cleanupAttempts,omitempty"`
	// cleanupFailures counts the clean-ups in a row that have failed.
	// +optional
	// +kubebuilder:validation:Minimum=0
	CleanupFailures int32 `json:"cleanupFailures,omitempty"`
	// lastError is why the last clean-up has failed. It has no part of the response.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	LastError string `json:"lastError,omitempty"`
	// finishedAt is when the resource was cleaned up or abandoned. The LeasedResource is deleted seven days after it, and
	// earlier if it is not among the last 1000 of its namespace.
	// +optional
	FinishedAt *metav1.Time `json:"finishedAt,omitempty"`
}

// LeasedResource is a lease on a resource outside of the cluster, such as a sandbox, that a call of a Tool with a lease
// has created. The manager creates it, and cleans the resource up when the lease expires, when it is released, and
// before the LeasedResource is deleted. It outlives its Session.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=leasedresources
// +kubebuilder:printcolumn:name="Type",type=string,JSONPath=`.spec.type`
// +kubebuilder:printcolumn:name="External ID",type=string,JSONPath=`.spec.externalID`
// +kubebuilder:printcolumn:name="Provider",type=string,JSONPath=`.spec.provider`,priority=1
// +kubebuilder:printcolumn:name="Session",type=string,JSONPath=`.spec.sessionRef.name`
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.status.state`
// +kubebuilder:printcolumn:name="Expires",type=string,JSONPath=`.status.expiresAt`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,priority=1
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type LeasedResource struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard metadata of an object.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the resource.
	// +required
	Spec LeasedResourceSpec `json:"spec"`
	// status is the state of the lease. Only the manager writes it.
	// +optional
	// +kubebuilder:default={observedGeneration:-1}
	Status LeasedResourceStatus `json:"status,omitempty"`
}

// LeasedResourceList is a list of LeasedResources.
//
// +kubebuilder:object:root=true
type LeasedResourceList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []LeasedResource `json:"items"`
}
