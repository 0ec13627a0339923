package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// LeaseIDSource is where the id of a leased resource is in a call.
// +kubebuilder:validation:Enum=Result;Arguments
type LeaseIDSource string

const (
	// LeaseIDSourceResult: the result of the call has the id. It is only for calls that create the resource, or return one
	// of their Session again: what the result names will be deleted. It is the default.
	LeaseIDSourceResult LeaseIDSource = "Result"
	// LeaseIDSourceArguments: the arguments of the call have the id. The call uses the resource, and creates none.
	LeaseIDSourceArguments LeaseIDSource = "Arguments"
)

// ToolLease makes the manager keep a lease on what the calls of a tool create outside of the cluster, such as a sandbox
// or a virtual machine, and clean it up with another Tool when it is not used any more. Leases are LeasedResources.
// +kubebuilder:validation:XValidation:rule="has(self.cleanup) == (self.externalIDFrom == 'Result')",message="cleanup must be set with externalIDFrom Result, and only with it."
type ToolLease struct {
	// provider is the name of the system that has the resource, such as sandboxes.example.com.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([a-z0-9._-]*[a-z0-9])?$`
	Provider string `json:"provider"`
	// type of the resource, such as sandbox.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([a-z0-9._-]*[a-z0-9])?$`
	Type string `json:"type"`
	// externalIDFrom is where the provider's id of the resource is: in the Result of the call (default), or in its
	// Arguments. With Result the call creates the lease, or extends the one of its Session: it is only for tools that
	// create, because what the result names will be deleted. With Arguments it extends a lease of its Session, and creates
	// none.
	// +optional
	// +kubebuilder:default=Result
	ExternalIDFrom LeaseIDSource `json:"externalIDFrom,omitempty"`
	// externalIDPath is the JSON Pointer (RFC 6901) to the id, such as /id: a text of at most 256 bytes, or an integer. A
	// call that needs it and does not have it creates and extends no lease, and the model is told.
	// +required
	// +kubebuilder:validation:MinLength=2
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:Pattern=`^(/([^/~]|~[01])*)+$`
	ExternalIDPath string `json:"externalIDPath"`
	// duration of the lease, 1m to 720h. Each call that uses the resource begins it anew.
	// +required
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="!self.matches('^([0-9]+([.][0-9]+)?(ms|s|m|h))+$') || (duration(self) >= duration('1m') && duration(self) <= duration('720h'))",message="duration must be between 1m and 720h."
	// +kubebuilder:validation:Type=string
	Duration metav1.Duration `json:"duration"`
	// cleanup is how the resource is cleaned up.
	// +optional
	Cleanup *ToolLeaseCleanup `json:"cleanup,omitempty"`
}

// ToolLeaseCleanup is how a leased resource is cleaned up.
type ToolLeaseCleanup struct {
	// toolRef names the Tool of the namespace that cleans the resource up: an Idempotent HTTP tool without approval,
	// payment, lease and secrets of the Session, which may be gone by then. It is called with the arguments externalID,
	// type and provider, which its inputSchema must declare as scalars if they are sent in the query, as the user who has
	// submitted the Turn that created the resource. A status of 200 to 299, 404 or 410 is success. It may be called more
	// than once. As long as it does not exist, or cannot be called, no resource is created.
	// +required
	ToolRef LocalReference `json:"toolRef"`
}
