package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// AgentBlueprint selects a blueprint of a Capability for sub-agents.
type AgentBlueprint struct {
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
	// maxRisk is the highest risk that the Capability may have: Low, Medium (default) or High. A user who sets High needs
	// the verb assign-high-risk, as for capabilities of a layer.
	// +optional
	MaxRisk CapabilityRisk `json:"maxRisk,omitempty"`
}

// AgentTool runs each call as a sub-agent: the manager creates a Session with one Turn, and the Turn's response is the
// result of the call. The message of that Turn is the argument message, if it is the only argument and a text;
// otherwise it is the arguments as JSON. The sub-agent has a conversation of its own: it reads nothing of the calling
// Session but the message. Of the configuration layer of the calling Session it has networkAccess only.
// +kubebuilder:validation:XValidation:rule="!has(self.agentRef) || has(self.harnessRef)",message="agentRef requires harnessRef: name both, or neither to use those of the calling Session."
type AgentTool struct {
	// harnessRef names the Harness of the sub-agent. Default: the Harness and the Agent of the calling Session.
	// +optional
	HarnessRef *LocalReference `json:"harnessRef,omitempty"`
	// agentRef names the Agent of the sub-agent. It requires harnessRef. Default: no Agent, if harnessRef is set.
	// +optional
	AgentRef *LocalReference `json:"agentRef,omitempty"`
	// blueprint selects an agent of a Capability that the sub-agent is. The argument config of a call is its config.
	// Default: the agent that its layers make up.
	// +optional
	Blueprint *AgentBlueprint `json:"blueprint,omitempty"`
	// retention is Delete (default) or Keep. With Delete, the Session of the sub-agent is deleted 10 minutes (the
	// manager's --job-retention) after the Turn that made the call has ended. With Keep, it is deleted with the calling
	// Session.
	// +optional
	// +kubebuilder:default=Delete
	Retention SubAgentRetention `json:"retention,omitempty"`
	// maxIterations is the maximum number of model calls of the sub-agent's Turn. Default: that of its Agent or Harness.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	MaxIterations *int32 `json:"maxIterations,omitempty"`
	// timeout of the sub-agent's Turn, counted from the time at which it begins, waits included, 1s to 24h. Fractions of
	// a second are rounded up. Default 5m.
	// +optional
	// +kubebuilder:default="5m"
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="!self.matches('^([0-9]+([.][0-9]+)?(ms|s|m|h))+$') || (duration(self) >= duration('1s') && duration(self) <= duration('24h'))",message="timeout must be between 1s and 24h."
	// +kubebuilder:validation:Type=string
	Timeout *metav1.Duration `json:"timeout,omitempty"`
}
