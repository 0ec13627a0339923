package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// SideEffect is the effect of running a tool twice.
// +kubebuilder:validation:Enum=Pure;Idempotent;AtMostOnce
type SideEffect string

const (
	// Pure tools change nothing. They may run again.
	SideEffectPure SideEffect = "Pure"
	// Idempotent tools make a change that a second run does not repeat. They may run again.
	SideEffectIdempotent SideEffect = "Idempotent"
	// AtMostOnce tools must never start twice. It is the default.
	SideEffectAtMostOnce SideEffect = "AtMostOnce"
)

// ToolPolicy is whether calls of a tool need approval.
// +kubebuilder:validation:Enum=Auto;RequiresApproval
type ToolPolicy string

const (
	// ToolPolicyAuto lets calls start at once. It is the default.
	ToolPolicyAuto ToolPolicy = "Auto"
	// ToolPolicyRequiresApproval lets a call start once a user with the right to approve has approved it.
	ToolPolicyRequiresApproval ToolPolicy = "RequiresApproval"
)

// ToolHint tells people what to expect of a tool. It enforces nothing.
// +kubebuilder:validation:Enum=ReadOnly;Destructive;OpenWorld
type ToolHint string

const (
	// ReadOnly tools change nothing.
	ToolHintReadOnly ToolHint = "ReadOnly"
	// Destructive tools may delete or overwrite something that cannot be restored.
	ToolHintDestructive ToolHint = "Destructive"
	// OpenWorld tools reach systems outside of the cluster, such as the web.
	ToolHintOpenWorld ToolHint = "OpenWorld"
)

// NetworkReach is the network access of a tool's pod.
// +kubebuilder:validation:Enum=Default;None
type NetworkReach string

const (
	// NetworkReachDefault adds no restrictions to those of the cluster and of the NetworkPolicies in the namespace. It
	// is the default.
	NetworkReachDefault NetworkReach = "Default"
	// NetworkReachNone denies all traffic from and to the pod.
	NetworkReachNone NetworkReach = "None"
)

// SecretKeyReference names one key of a Secret in the same namespace.
type SecretKeyReference struct {
	// name of the Secret.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// key in the Secret's data.
	// +required
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[-._a-zA-Z0-9]+$`
	Key string `json:"key"`
}

// EnvVar is an environment variable of a tool's container: with a fixed value, or with the value of a Secret's key.
// +kubebuilder:validation:XValidation:rule="!has(self.value) || !has(self.secretKeyRef)",message="at most one of value and secretKeyRef may be set."
type EnvVar struct {
	// name of the variable. Names that begin with CAPSTAN_ are reserved for the runtime.
	// +required
	// +kubebuilder:validation:Pattern=`^[A-Za-z_][A-Za-z0-9_]*$`
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('CAPSTAN_')",message="names that begin with CAPSTAN_ are set by the runtime. Choose another name."
	Name string `json:"name"`
	// value of the variable.
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	// +kubebuilder:validation:XValidation:rule="!self.contains('$(CAPSTAN_')",message="the arguments of a call are not expanded here: read them from stdin, $CAPSTAN_ARGUMENTS_FILE or the environment inside the tool."
	Value string `json:"value,omitempty"`
	// secretKeyRef reads the value from a Secret. A user who writes the Tool must be allowed to read that Secret, and
	// the Secret must not be bound to hosts.
	// +optional
	SecretKeyRef *SecretKeyReference `json:"secretKeyRef,omitempty"`
}

// JobTool runs a tool as a Job: one container, restricted, without a token and with a read-only root. The tool finds
// its arguments as JSON on stdin and in $CAPSTAN_ARGUMENTS_FILE; declared scalars of up to 4 KiB are in
// CAPSTAN_ARG_<NAME> as well. Its stdout is the result; an exit code other than 0 is an error with the end of stderr.
// +kubebuilder:validation:XValidation:rule="!has(self.files) || !has(self.background) || self.background == 'Forbid'",message="a tool with files cannot run as a background task: remove files, or set background to Forbid."
type JobTool struct {
	// image of the tool's container.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Image string `json:"image"`
	// imagePullPolicy of the container: Always, IfNotPresent or Never. Without it the default of Kubernetes applies.
	// +optional
	// +kubebuilder:validation:Enum=Always;IfNotPresent;Never
	ImagePullPolicy corev1.PullPolicy `json:"imagePullPolicy,omitempty"`
	// command to run. The image's entrypoint is not used. No shell is involved.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=4096
	// +kubebuilder:validation:XValidation:rule="self.all(v, !v.contains('$(CAPSTAN_'))",message="the arguments of a call are not expanded here: read them from stdin, $CAPSTAN_ARGUMENTS_FILE or the environment inside the tool."
	Command []string `json:"command"`
	// args follow the command.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=4096
	// +kubebuilder:validation:XValidation:rule="self.all(v, !v.contains('$(CAPSTAN_'))",message="the arguments of a call are not expanded here: read them from stdin, $CAPSTAN_ARGUMENTS_FILE or the environment inside the tool."
	Args []string `json:"args,omitempty"`
	// env are further environment variables.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	Env []EnvVar `json:"env,omitempty"`
	// serviceAccountName is the ServiceAccount that the pod runs as, with its token. A user who writes the Tool must be
	// allowed to request its tokens. Without it the pod runs as capstan-tool, which the manager creates, and has no
	// token.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	ServiceAccountName string `json:"serviceAccountName,omitempty"`
	// imagePullSecrets name the Secrets for pulling the images of the pod, in place of those of its ServiceAccount. A
	// user who writes the Tool must be allowed to read these Secrets, and they must not be bound to hosts.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=8
	ImagePullSecrets []LocalReference `json:"imagePullSecrets,omitempty"`
	// network is the network access of the pod: Default or None. With None, a call starts only while the
	// NetworkPolicies of the namespace deny all traffic of its pod; the manager creates one that does. The cluster's
	// network must enforce NetworkPolicies.
	// +optional
	// +kubebuilder:default=Default
	Network NetworkReach `json:"network,omitempty"`
	// background is whether models may run the tool as a background task: Forbid (default) or Allow. It takes effect in
	// Sessions with the capability background_tasks. A background task outlives the Turn that starts it, starts at most
	// once whatever the sideEffect, and runs for at most the timeout.
	// +optional
	Background BackgroundPolicy `json:"background,omitempty"`
	// resources of the container. Default: requests 10m CPU and 32Mi memory, limits 1 CPU and 256Mi memory.
	// +optional
	Resources *JobResources `json:"resources,omitempty"`
	// files that the container gets from the Session and that the Session gets from it.
	// +optional
	Files *JobFiles `json:"files,omitempty"`
	// connections are those that the tool may find missing. A tool that needs one exits with its exitCode before it has
	// done anything. The call waits until a user has set the connection up, and then starts again, also if its sideEffect
	// is AtMostOnce. What the tool has printed is ignored.
	// +optional
	// +listType=map
	// +listMapKey=provider
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=8
	// +kubebuilder:validation:XValidation:rule="self.all(a, self.exists_one(b, b.exitCode == a.exitCode))",message="each exitCode must be set once."
	Connections []JobConnection `json:"connections,omitempty"`
	// timeout of one run, counted from the start of the container, 1s to 24h. Default 5m.
	// +optional
	// +kubebuilder:default="5m"
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="!self.matches('^([0-9]+([.][0-9]+)?(ms|s|m|h))+$') || (duration(self) >= duration('1s') && duration(self) <= duration('24h'))",message="timeout must be between 1s and 24h."
	// +kubebuilder:validation:Type=string
	Timeout *metav1.Duration `json:"timeout,omitempty"`
	// startTimeout is how long the container may take to start, 1s to 24h. It does not run while the Job is suspended.
	// Default 2m.
	// +optional
	// +kubebuilder:default="2m"
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="!self.matches('^([0-9]+([.][0-9]+)?(ms|s|m|h))+$') || (duration(self) >= duration('1s') && duration(self) <= duration('24h'))",message="startTimeout must be between 1s and 24h."
	// +kubebuilder:validation:Type=string
	StartTimeout *metav1.Duration `json:"startTimeout,omitempty"`
}

// JobFiles are the files that a tool shares with the Session, below /workspace in its container, which is also its
// working directory. A path is the same in both places: /workspace/a.txt in the container is the file /a.txt of the
// Session. A path of a directory stands for all files in it.
// +kubebuilder:validation:XValidation:rule="has(self.inputs) || has(self.outputs)",message="at least one of inputs and outputs must be set."
type JobFiles struct {
	// inputs are copied into the container before the command starts: at most 128 files with 128 KiB together. If there
	// are more, the call is not executed. A path that does not exist is left out.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Inputs []JobFilePath `json:"inputs,omitempty"`
	// outputs are copied to the Session when the command has succeeded, if it has created or changed them: at most 128
	// files with 1 MiB together. The result of the call names those that are not copied, such as one that was changed in
	// the Session meanwhile. Nothing is deleted in the Session.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	Outputs []JobFilePath `json:"outputs,omitempty"`
}

// JobFilePath is the path of a file or a directory of a Session; / stands for all files.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=511
// +kubebuilder:validation:Pattern=`^[\p{L}\p{M}\p{N}\p{P}\p{S} ]+$`
// +kubebuilder:validation:XValidation:rule="!self.matches('(^|/)[.][.]?(/|$)')",message="path must not have . or .. as a name."
type JobFilePath string

// JobConnection is a connection that a tool may find missing.
type JobConnection struct {
	// exitCode of the command, 3 to 123, by which the tool reports that it needs the connection and has done nothing.
	// +required
	// +kubebuilder:validation:Minimum=3
	// +kubebuilder:validation:Maximum=123
	ExitCode int32 `json:"exitCode"`
	// provider is the name of what the connection is to, such as github.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([a-z0-9._-]*[a-z0-9])?$`
	Provider string `json:"provider"`
}

// BackgroundPolicy is whether models may run a tool as a background task.
// +kubebuilder:validation:Enum=Forbid;Allow
type BackgroundPolicy string

const (
	// BackgroundPolicyForbid: the tool runs only within the Turn that calls it. It is the default.
	BackgroundPolicyForbid BackgroundPolicy = "Forbid"
	// BackgroundPolicyAllow: models may also run the tool as a background task.
	BackgroundPolicyAllow BackgroundPolicy = "Allow"
)

// JobResources are the compute resources of a tool's container.
// +kubebuilder:validation:XValidation:rule="!has(self.requests) || self.requests.all(name, !string(self.requests[name]).startsWith('-'))",message="requests must not be negative."
// +kubebuilder:validation:XValidation:rule="!has(self.limits) || self.limits.all(name, !string(self.limits[name]).startsWith('-'))",message="limits must not be negative."
// +kubebuilder:validation:XValidation:rule="!has(self.requests) || !has(self.limits) || ['cpu', 'memory', 'ephemeral-storage'].all(name, !(name in self.requests) || !(name in self.limits) || !isQuantity(string(self.requests[name])) || !isQuantity(string(self.limits[name])) || quantity(string(self.requests[name])).compareTo(quantity(string(self.limits[name]))) <= 0)",message="no request of cpu, memory or ephemeral-storage may be above its limit."
type JobResources struct {
	// requests are the resources that the scheduler reserves.
	// +optional
	// +kubebuilder:validation:MaxProperties=16
	Requests corev1.ResourceList `json:"requests,omitempty"`
	// limits are the maximum resources of the container.
	// +optional
	// +kubebuilder:validation:MaxProperties=16
	Limits corev1.ResourceList `json:"limits,omitempty"`
}

// ClientTool leaves a tool to the client of the Session: the Turn waits for a ToolResult.
type ClientTool struct{}

// ToolSpec defines a tool that models call by the name of the Tool.
// +kubebuilder:validation:XValidation:rule="!has(self.client) || !has(self.policy)",message="policy is for tools that the manager runs; the client decides whether to run a client tool."
// +kubebuilder:validation:XValidation:rule="!has(self.approvalTimeout) || (has(self.policy) && self.policy == 'RequiresApproval')",message="approvalTimeout is for tools with the policy RequiresApproval."
// +kubebuilder:validation:XValidation:rule="[has(self.job), has(self.http), has(self.client), has(self.agent)].exists_one(set, set)",message="exactly one of job, http, client and agent must be set."
// +kubebuilder:validation:XValidation:rule="!has(self.agent) || !has(self.sideEffect)",message="sideEffect is for tools other than agent: a sub-agent is started at most once."
// +kubebuilder:validation:XValidation:rule="!has(self.client) || (!has(self.sideEffect) && !has(self.concurrencyClass))",message="sideEffect and concurrencyClass are for tools that the manager runs; a client tool is run by its client."
// +kubebuilder:validation:XValidation:rule="!has(self.client) || !has(self.callsPerMinute)",message="callsPerMinute is for tools that the manager runs; a client tool is run by its client."
// +kubebuilder:validation:XValidation:rule="!has(self.lease) || has(self.http)",message="lease is for HTTP tools."
// +kubebuilder:validation:XValidation:rule="!has(self.lease) || self.lease.externalIDFrom != 'Result' || (has(self.sideEffect) && self.sideEffect == 'Idempotent')",message="a tool that creates leases must have the sideEffect Idempotent: after a crash of the manager its call is repeated with the same Idempotency-Key, so that no resource is lost."
type ToolSpec struct {
	// description tells the model what the tool does and when to use it.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Description string `json:"description"`

	// displayName is the name of the tool for people, in the events of its calls. The model is not shown it.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	DisplayName string `json:"displayName,omitempty"`

	// hints tell people what to expect of the tool: ReadOnly, Destructive and OpenWorld, which are those of MCP. The
	// event that requests a client's result has them, and status.toolCalls of a call that waits for approval; a
	// Destructive tool is named as such where the Turn asks for the approval. They enforce nothing, and the model is
	// not shown them.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=2
	// +kubebuilder:validation:XValidation:rule="!('ReadOnly' in self && 'Destructive' in self)",message="ReadOnly and Destructive exclude each other."
	Hints []ToolHint `json:"hints,omitempty"`

	// inputSchema is the JSON Schema (draft 2020-12) of the arguments, of type object, at most 32 KiB. Arguments that
	// violate it never reach the tool. Without it, any object is accepted.
	// +optional
	// +kubebuilder:validation:Type=object
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:pruning:PreserveUnknownFields
	InputSchema *JSON `json:"inputSchema,omitempty"`

	// sideEffect is the effect of running the tool twice: Pure, Idempotent or AtMostOnce (default).
	// +optional
	SideEffect SideEffect `json:"sideEffect,omitempty"`

	// policy is Auto (default), or RequiresApproval: then the Turn waits before each call of the tool for a ToolResult
	// that approves or rejects it.
	// +optional
	Policy ToolPolicy `json:"policy,omitempty"`

	// approvalTimeout is how long a call with the policy RequiresApproval may wait, 1s to 8760h, counted from the
	// model's response that made it. A call that is not approved in time is not executed. Default 24h.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="!self.matches('^([0-9]+([.][0-9]+)?(ms|s|m|h))+$') || (duration(self) >= duration('1s') && duration(self) <= duration('8760h'))",message="approvalTimeout must be between 1s and 8760h."
	// +kubebuilder:validation:Type=string
	ApprovalTimeout *metav1.Duration `json:"approvalTimeout,omitempty"`

	// concurrencyClass makes calls of Tools of the same class, within one step, run one after another.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	ConcurrencyClass string `json:"concurrencyClass,omitempty"`

	// callsPerMinute is the number of calls of the tool that the manager starts in a minute, in all Sessions of the
	// namespace, 1 to 100,000. A call above it does not run: the model reads when to repeat it. The manager keeps the
	// count in memory, so that a new one begins with none. Default: no limit.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100000
	CallsPerMinute *int32 `json:"callsPerMinute,omitempty"`

	// lease makes the manager keep a lease on what the calls of an HTTP tool create outside of the cluster, and clean it
	// up when it is not used any more.
	// +optional
	Lease *ToolLease `json:"lease,omitempty"`

	// job runs the tool as a Job.
	// +optional
	Job *JobTool `json:"job,omitempty"`

	// http runs the tool as an HTTP request that the manager sends.
	// +optional
	HTTP *HTTPTool `json:"http,omitempty"`

	// client leaves the tool to the client of the Session.
	// +optional
	Client *ClientTool `json:"client,omitempty"`

	// agent runs the tool as a sub-agent: a Session of its own, with one Turn. Without an inputSchema, the argument
	// message is required.
	// +optional
	Agent *AgentTool `json:"agent,omitempty"`
}

// ToolStatus is the observed state of a Tool.
type ToolStatus struct {
	// conditions of the object. Ready is True when the inputSchema is valid, and suits the arguments of the HTTP request,
	// if the Tool sends one.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the generation of the spec that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}

// Tool is a tool that models may call.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:categories=capstan
// +kubebuilder:printcolumn:name="Side Effect",type=string,JSONPath=`.spec.sideEffect`
// +kubebuilder:printcolumn:name="Policy",type=string,JSONPath=`.spec.policy`,priority=1
// +kubebuilder:printcolumn:name="Image",type=string,JSONPath=`.spec.job.image`
// +kubebuilder:printcolumn:name="URL",type=string,JSONPath=`.spec.http.url`,priority=1
// +kubebuilder:printcolumn:name="Timeout",type=string,JSONPath=`.spec['job','http','agent'].timeout`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 63 && !self.metadata.name.contains('.')",message="the model calls a Tool by its name: at most 63 characters, no dots."
type Tool struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard metadata of an object.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	// +required
	Spec ToolSpec `json:"spec"`
	// status is the observed state. Only the manager writes it.
	// +optional
	// +kubebuilder:default={observedGeneration:-1}
	Status ToolStatus `json:"status,omitempty"`
}

// ToolList is a list of Tools.
//
// +kubebuilder:object:root=true
type ToolList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Tool `json:"items"`
}
