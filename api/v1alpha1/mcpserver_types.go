package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// MCPIdentity is how requests to an MCPServer show which agent sends them.
// +kubebuilder:validation:Enum=None;AgentToken
type MCPIdentity string

const (
	// MCPIdentityNone sends no token.
	MCPIdentityNone MCPIdentity = "None"
	// MCPIdentityAgentToken sends a token that the manager signs.
	MCPIdentityAgentToken MCPIdentity = "AgentToken"
)

// MCPToolPattern matches tools of an MCPServer: the name of a tool, or the beginning of names and a `*`.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=128
// +kubebuilder:validation:Pattern=`^[A-Za-z0-9_./-]*[*]?$`
type MCPToolPattern string

// MCPToolFilter selects tools of an MCPServer.
// +kubebuilder:validation:XValidation:rule="has(self.include) || has(self.exclude)",message="at least one of include and exclude must be set."
type MCPToolFilter struct {
	// include lists the only tools that are used. Without it, all tools are used that exclude does not list.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	Include []MCPToolPattern `json:"include,omitempty"`
	// exclude lists tools that are not used, even if include lists them.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	Exclude []MCPToolPattern `json:"exclude,omitempty"`
}

// MCPToolRule is how the calls of one tool of an MCPServer run.
// +kubebuilder:validation:XValidation:rule="!has(self.approvalTimeout) || (has(self.policy) && self.policy == 'RequiresApproval')",message="approvalTimeout is for tools with the policy RequiresApproval."
type MCPToolRule struct {
	// name of the tool at the server.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Name string `json:"name"`
	// sideEffect is the effect of calling the tool twice: Pure, Idempotent or AtMostOnce (default). A tool that the server
	// calls destructive is never Pure: with this value it is AtMostOnce.
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
	// concurrencyClass makes calls of tools of the same class, within one step, run one after another. Tools of several
	// MCPServers and Tools may share a class.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	ConcurrencyClass string `json:"concurrencyClass,omitempty"`
	// secretArguments are the arguments in which a model may refer to a secret of the Session: an argument that is
	// `secret://NAME` as a whole is sent as the value of the secret NAME, which the model does not see. Elsewhere such a
	// text is sent as it is. A secret is sent only to the hosts that it was set for. Each is a JSON Pointer, such as
	// /auth/token.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	SecretArguments []SecretArgument `json:"secretArguments,omitempty"`
}

// MCPServerSpec is a server of the Model Context Protocol and how its tools are used.
// +kubebuilder:validation:XValidation:rule="has(self.url) != has(self.serviceRef)",message="exactly one of url and serviceRef must be set."
// +kubebuilder:validation:XValidation:rule="!has(self.identity) || self.identity == 'None' || (has(self.serviceRef) ? (has(self.serviceRef.scheme) && self.serviceRef.scheme == 'HTTPS') : (!has(self.url) || self.url.lowerAscii().startsWith('https:')))",message="the identity AgentToken is only sent over HTTPS."
// +kubebuilder:validation:XValidation:rule="!has(self.identity) || self.identity == 'None' || !has(self.headers) || self.headers.all(h, h.name.lowerAscii() != 'authorization')",message="the identity AgentToken sets the header Authorization. Leave it out of headers."
type MCPServerSpec struct {
	// url of the server's endpoint for streamable HTTP: https, without user, password and fragment, or http where the
	// operator of the manager has allowed that. Only public addresses are reached, and addresses that the operator has
	// allowed. Redirects are not followed.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:XValidation:rule="isURL(self) && url(self).getScheme() in ['https', 'http'] && url(self).getHostname() != ''",message="url must be an absolute https or http URL."
	// +kubebuilder:validation:XValidation:rule="!self.matches('^[A-Za-z]+:/*[^/?#]*@')",message="url must not have a user or a password in it: use headers."
	// +kubebuilder:validation:XValidation:rule="!self.contains('#')",message="url must not have a fragment."
	URL string `json:"url,omitempty"`
	// serviceRef is a Service of the same namespace that is the server, instead of a url.
	// +optional
	ServiceRef *ServiceReference `json:"serviceRef,omitempty"`
	// caBundle is certificates that the server is trusted by, instead of those that the manager trusts.
	// +optional
	CABundle *CABundleSource `json:"caBundle,omitempty"`
	// headers of every request to the server. Those of the protocol are reserved for the runtime.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:XValidation:rule="self.all(h, self.exists_one(o, o.name.lowerAscii() == h.name.lowerAscii()))",message="header names must be unique, regardless of case."
	// +kubebuilder:validation:XValidation:rule="self.all(h, !h.name.lowerAscii().startsWith('mcp-') && !(h.name.lowerAscii() in ['accept', 'content-type', 'last-event-id']))",message="Accept, Content-Type, Last-Event-ID and headers that begin with Mcp- are set by the runtime. Leave them out."
	Headers []HTTPHeader `json:"headers,omitempty"`
	// identity is None (default) or AgentToken: each request has an Authorization header with a token, signed by the
	// manager, that names the namespace, the Agent, the Harness and the Session, and is valid for this url and for 5
	// minutes. The server verifies it with the key set in ConfigMap capstan-identity-keys of the manager's namespace.
	// +optional
	Identity MCPIdentity `json:"identity,omitempty"`
	// timeout of one call of a tool, and of one discovery, up to the end of the response, 1s to 15m. A discovery takes at
	// most 30s. Default 30s.
	// +optional
	// +kubebuilder:default="30s"
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="!self.matches('^([0-9]+([.][0-9]+)?(ms|s|m|h))+$') || (duration(self) >= duration('1s') && duration(self) <= duration('15m'))",message="timeout must be between 1s and 15m."
	// +kubebuilder:validation:Type=string
	Timeout *metav1.Duration `json:"timeout,omitempty"`
	// callsPerMinute is the number of calls of the server's tools that the manager starts in a minute, in all Sessions of
	// the namespace, 1 to 100,000. A call above it is not sent: the model reads when to repeat it. The manager keeps the
	// count in memory, so that a new one begins with none. Default: no limit.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100000
	CallsPerMinute *int32 `json:"callsPerMinute,omitempty"`
	// refreshInterval is the time between two discoveries of the tools, 1m to 24h. Default 10m.
	// +optional
	// +kubebuilder:default="10m"
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="!self.matches('^([0-9]+([.][0-9]+)?(ms|s|m|h))+$') || (duration(self) >= duration('1m') && duration(self) <= duration('24h'))",message="refreshInterval must be between 1m and 24h."
	// +kubebuilder:validation:Type=string
	RefreshInterval *metav1.Duration `json:"refreshInterval,omitempty"`
	// toolFilter selects the tools that are used. Without it all are.
	// +optional
	ToolFilter *MCPToolFilter `json:"toolFilter,omitempty"`
	// tools are rules for tools of the server. A tool without a rule is AtMostOnce, and needs no approval. A rule for a
	// tool that the server does not have has no effect.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	Tools []MCPToolRule `json:"tools,omitempty"`
}

// MCPServerTool is a tool that a server has and that is used.
type MCPServerTool struct {
	// name of the tool at the server. The model calls it by mcp_SERVER__NAME, where SERVER is the name of the MCPServer.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Name string `json:"name"`
	// digest is the start of the SHA-256 of the definition of the tool: its description, its schema and its hints.
	// +required
	// +kubebuilder:validation:MaxLength=64
	Digest string `json:"digest"`
	// hints of the server that make people careful: Destructive and OpenWorld. They are the server's word; a hint that a
	// tool only reads is not kept.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=2
	Hints []ToolHint `json:"hints,omitempty"`
}

// MCPServerStatus is the observed state of an MCPServer.
type MCPServerStatus struct {
	// conditions of the object. Ready is True when the tools of the server are known. It stays True when discoveries fail
	// for less than three times the refreshInterval.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// observedGeneration is the generation of the spec that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// protocolVersion of the Model Context Protocol that the server and the manager speak.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	ProtocolVersion string `json:"protocolVersion,omitempty"`
	// lastDiscoveryTime is the time of the last discovery that has succeeded.
	// +optional
	LastDiscoveryTime *metav1.Time `json:"lastDiscoveryTime,omitempty"`
	// discoveredConnection is the start of the SHA-256 of the url or serviceRef, the headers, the identity and the
	// caBundle of the spec that the tools were discovered with. While it is not that of the spec, calls of the tools
	// wait, and so do Turns before they begin.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	DiscoveredConnection string `json:"discoveredConnection,omitempty"`
	// discoveredTools are the tools of the server that are used, by name. Their definitions are in a Record that the
	// MCPServer owns.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=128
	DiscoveredTools []MCPServerTool `json:"discoveredTools,omitempty"`
	// definitionBytes is the size of the definitions of these tools, in bytes.
	// +optional
	// +kubebuilder:validation:Minimum=0
	DefinitionBytes int64 `json:"definitionBytes,omitempty"`
}

// MCPServer is a server of the Model Context Protocol whose tools models may call.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=mcpservers,categories=capstan
// +kubebuilder:printcolumn:name="URL",type=string,JSONPath=`.spec.url`
// +kubebuilder:printcolumn:name="Protocol",type=string,JSONPath=`.status.protocolVersion`,priority=1
// +kubebuilder:printcolumn:name="Discovered",type=date,JSONPath=`.status.lastDiscoveryTime`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 32 && !self.metadata.name.contains('.')",message="the name of an MCPServer is a part of the names of its tools: at most 32 characters, no dots."
type MCPServer struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard metadata of an object.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the server and how its tools are used.
	// +required
	Spec MCPServerSpec `json:"spec"` //nolint:kubeapilinter // A rule requires one of two of its fields.
	// status is the observed state. Only the manager writes it.
	// +optional
	// +kubebuilder:default={observedGeneration:-1}
	Status MCPServerStatus `json:"status,omitempty"`
}

// MCPServerList is a list of MCPServers.
//
// +kubebuilder:object:root=true
type MCPServerList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []MCPServer `json:"items"`
}
