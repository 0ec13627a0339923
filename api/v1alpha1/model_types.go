package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ModelProvider is the service that serves a model.
// +kubebuilder:validation:Enum=Simulated;Anthropic;OpenAI;Google
type ModelProvider string

const (
	// ModelProviderSimulated responds by script, without any network.
	ModelProviderSimulated ModelProvider = "Simulated"
	// ModelProviderAnthropic uses the Messages API of Anthropic.
	ModelProviderAnthropic ModelProvider = "Anthropic"
	// ModelProviderOpenAI uses the API of OpenAI, which many other servers implement.
	ModelProviderOpenAI ModelProvider = "OpenAI"
	// ModelProviderGoogle uses the Gemini API of Google.
	ModelProviderGoogle ModelProvider = "Google"
)

// ReasoningEffort is how much a model reasons before it responds.
// +kubebuilder:validation:Enum=None;Low;Medium;High
type ReasoningEffort string

const (
	// ReasoningEffortNone requests a response without reasoning.
	ReasoningEffortNone ReasoningEffort = "None"
	// ReasoningEffortLow requests little reasoning.
	ReasoningEffortLow ReasoningEffort = "Low"
	// ReasoningEffortMedium requests some reasoning.
	ReasoningEffortMedium ReasoningEffort = "Medium"
	// ReasoningEffortHigh requests much reasoning.
	ReasoningEffortHigh ReasoningEffort = "High"
)

// ModelRecovery is how the manager treats a response that was streaming when the manager stopped.
// +kubebuilder:validation:Enum=Restart;Finalize
type ModelRecovery string

const (
	// ModelRecoveryRestart calls the model again. The partial response is not kept.
	ModelRecoveryRestart ModelRecovery = "Restart"
	// ModelRecoveryFinalize records the partial response as complete.
	ModelRecoveryFinalize ModelRecovery = "Finalize"
)

// ModelParameters control how a model generates. A provider rejects parameters that it or the model does not support,
// and the Turn fails with the provider's error.
type ModelParameters struct {
	// maxOutputTokens is the maximum number of tokens of a response, reasoning included, 1 to 1,000,000. Default: the
	// provider's default, or 8192 if the provider has none.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	MaxOutputTokens *int32 `json:"maxOutputTokens,omitempty"`
	// temperature is the randomness of the sampling, a decimal between "0" and "2" with at most three places, such as
	// "0.7". Default: the provider's default.
	// +optional
	// +kubebuilder:validation:MaxLength=5
	// +kubebuilder:validation:Pattern=`^([01](\.[0-9]{1,3})?|2(\.0{1,3})?)$`
	Temperature *string `json:"temperature,omitempty"`
	// topP limits the sampling to the most likely tokens with this total probability, a decimal between "0" and "1"
	// with at most three places. Default: the provider's default.
	// +optional
	// +kubebuilder:validation:MaxLength=5
	// +kubebuilder:validation:Pattern=`^(0(\.[0-9]{1,3})?|1(\.0{1,3})?)$`
	TopP *string `json:"topP,omitempty"`
	// stopSequences are sequences at which the model stops generating. They are not part of the response.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=4
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=256
	StopSequences []string `json:"stopSequences,omitempty"`
	// reasoningEffort is how much the model reasons before it responds: None, Low, Medium or High. Default: the
	// provider's default.
	// +optional
	ReasoningEffort ReasoningEffort `json:"reasoningEffort,omitempty"`
}

// ModelTimeouts bound one model call. Content is text, reasoning or a tool call; keep-alive data of a server is not
// content.
type ModelTimeouts struct {
	// firstContent is how long the first content may take, from 1s to 1h, such as "90s". A call that reaches it is
	// retried once. Default: 120s, and 10m where reasoningEffort is Low, Medium or High.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="!self.matches('^([0-9]+([.][0-9]+)?(ms|s|m|h))+$') || (duration(self) >= duration('1s') && duration(self) <= duration('1h'))",message="firstContent must be between 1s and 1h."
	// +kubebuilder:validation:Type=string
	FirstContent *metav1.Duration `json:"firstContent,omitempty"`
	// idle is how long a response may pause after its first content, from 1s to 1h. Default: 120s.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="!self.matches('^([0-9]+([.][0-9]+)?(ms|s|m|h))+$') || (duration(self) >= duration('1s') && duration(self) <= duration('1h'))",message="idle must be between 1s and 1h."
	// +kubebuilder:validation:Type=string
	Idle *metav1.Duration `json:"idle,omitempty"`
	// call is how long a whole call may take, from 1s to 6h, and at most as long as the manager's flag
	// --model-call-limit permits (30m). Default: 30m.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="!self.matches('^([0-9]+([.][0-9]+)?(ms|s|m|h))+$') || (duration(self) >= duration('1s') && duration(self) <= duration('6h'))",message="call must be between 1s and 6h."
	// +kubebuilder:validation:Type=string
	Call *metav1.Duration `json:"call,omitempty"`
}

// ModelLimits are limits of model calls per minute. They hold for every minute, whenever it begins.
// +kubebuilder:validation:XValidation:rule="has(self.requestsPerMinute) || has(self.tokensPerMinute)",message="at least one of requestsPerMinute and tokensPerMinute must be set."
type ModelLimits struct {
	// requestsPerMinute is the number of requests that are sent to the provider in a minute, retries included, 1 to
	// 1,000,000. Default: no limit.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	RequestsPerMinute *int32 `json:"requestsPerMinute,omitempty"`
	// tokensPerMinute is the number of tokens that are read and written in a minute, 1 to 1,000,000,000. While a call
	// runs, the most that it may use counts: one token for each byte of the prompt, and maxOutputTokens of parameters, or
	// 8192. Once it has ended, the tokens count that the provider reports. A call that may use more than the whole limit
	// runs alone. Default: no limit.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000000
	TokensPerMinute *int32 `json:"tokensPerMinute,omitempty"`
}

// ModelAPI is an API of provider OpenAI.
// +kubebuilder:validation:Enum=Responses;ChatCompletions
type ModelAPI string

const (
	// ModelAPIResponses is the Responses API, without storage at the provider.
	ModelAPIResponses ModelAPI = "Responses"
	// ModelAPIChatCompletions is the Chat Completions API, which most compatible servers implement.
	ModelAPIChatCompletions ModelAPI = "ChatCompletions"
)

// ModelProbe is when the manager asks a provider about a Model. A Model is probed once for each change of its spec, at
// most every 10 seconds. A probe lists the models of the provider, which costs no tokens.
type ModelProbe struct {
	// interval is the time between two probes, 1m to 24h. Default: the Model is probed only when its spec changes.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="!self.matches('^([0-9]+([.][0-9]+)?(ms|s|m|h))+$') || (duration(self) >= duration('1m') && duration(self) <= duration('24h'))",message="interval must be between 1m and 24h."
	// +kubebuilder:validation:Type=string
	Interval *metav1.Duration `json:"interval,omitempty"`
	// request is any text, such as the time. Change it to request a probe now, for example after a new API key.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Request string `json:"request,omitempty"`
}

// ModelSpec is a model at a provider.
// +kubebuilder:validation:XValidation:rule="self.provider != 'Simulated' || has(self.simulation)",message="provider Simulated requires simulation, the script of its responses."
// +kubebuilder:validation:XValidation:rule="self.provider == 'Simulated' || !has(self.simulation)",message="simulation is for provider Simulated: leave it out, or use that provider."
// +kubebuilder:validation:XValidation:rule="self.provider == 'Simulated' || (has(self.model) && self.model.size() > 0)",message="this provider needs model: its own name of the model."
// +kubebuilder:validation:XValidation:rule="!has(self.baseURL) || !has(self.serviceRef)",message="at most one of baseURL and serviceRef may be set."
// +kubebuilder:validation:XValidation:rule="self.provider == 'Simulated' || has(self.secretKeyRef) || (self.provider == 'OpenAI' && (has(self.baseURL) || has(self.serviceRef)))",message="this provider needs secretKeyRef: the Secret and key that hold the API key. Only provider OpenAI with a baseURL or a serviceRef works without, with servers that need no key."
// +kubebuilder:validation:XValidation:rule="self.provider != 'Simulated' || !has(self.secretKeyRef)",message="provider Simulated needs no API key: leave secretKeyRef out."
// +kubebuilder:validation:XValidation:rule="self.provider != 'Simulated' || !has(self.baseURL)",message="provider Simulated uses no network: leave baseURL out."
// +kubebuilder:validation:XValidation:rule="self.provider != 'Simulated' || !(has(self.serviceRef) || has(self.caBundle))",message="provider Simulated uses no network: leave serviceRef and caBundle out."
// +kubebuilder:validation:XValidation:rule="self.provider != 'Simulated' || !has(self.probe)",message="provider Simulated uses no network: leave probe out."
// +kubebuilder:validation:XValidation:rule="self.provider != 'Simulated' || !has(self.parameters)",message="provider Simulated responds by script: leave parameters out."
// +kubebuilder:validation:XValidation:rule="self.provider != 'Simulated' || !has(self.timeouts)",message="provider Simulated responds after its latency: leave timeouts out."
// +kubebuilder:validation:XValidation:rule="self.provider != 'Simulated' || !has(self.price) || !has(self.price.cachedInputPerMillionTokens)",message="provider Simulated has no prompt cache: leave cachedInputPerMillionTokens out."
// +kubebuilder:validation:XValidation:rule="self.provider == 'OpenAI' || !has(self.api)",message="api is for provider OpenAI: leave it out."
// +kubebuilder:validation:XValidation:rule="self.provider == 'OpenAI' || !has(self.baseURL) || !self.baseURL.contains('?')",message="a query of baseURL is for provider OpenAI: leave it out."
// +kubebuilder:validation:XValidation:rule="!has(self.api) || self.api != 'Responses' || !has(self.parameters) || !has(self.parameters.stopSequences)",message="the Responses API has no stop sequences: leave parameters.stopSequences out, or set api to ChatCompletions."
// +kubebuilder:validation:XValidation:rule="self.provider in ['Anthropic', 'OpenAI'] || !has(self.price) || !has(self.price.cacheWritePerMillionTokens)",message="this provider does not report the tokens that it writes to its prompt cache: leave cacheWritePerMillionTokens out."
type ModelSpec struct {
	// provider that serves the model: Simulated, Anthropic, OpenAI or Google. OpenAI also serves for other servers that
	// implement its API, with their baseURL.
	// +required
	Provider ModelProvider `json:"provider"`

	// model is the provider's name of the model. It is reported with every response. With provider Simulated it
	// defaults to the name of this object; the other providers require it.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Model string `json:"model,omitempty"`

	// baseURL replaces the provider's own address: an https URL, or an http URL where the operator of the manager has
	// allowed that, up to the path under which the provider's API begins. The API key is sent there too. Only public
	// addresses are reached, and addresses that the operator has allowed. With provider OpenAI it may end in
	// ?api-version=VERSION, for the dated APIs of Azure: every request has the version then, and sends the API key in the
	// header Api-Key.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="isURL(self) && url(self).getScheme() in ['https', 'http'] && url(self).getHostname() != ''",message="baseURL must be an absolute https or http URL."
	// +kubebuilder:validation:XValidation:rule="!self.matches('^[A-Za-z]+:/*[^/?#]*@')",message="baseURL must not have a user or a password in it: use secretKeyRef."
	// +kubebuilder:validation:XValidation:rule="!self.contains('#') && (!self.contains('?') || self.matches('^[^?]+[?]api-version=[A-Za-z0-9._-]{1,32}$'))",message="baseURL must not have a fragment, or a query other than api-version."
	BaseURL string `json:"baseURL,omitempty"`

	// serviceRef is a Service of the same namespace that serves the model, instead of a baseURL: a model server in the
	// cluster. Its path is that under which the provider's API begins. Default of the path: /v1 with provider OpenAI, and
	// none with other providers.
	// +optional
	ServiceRef *ServiceReference `json:"serviceRef,omitempty"`

	// caBundle is certificates that the server is trusted by, instead of those that the manager trusts.
	// +optional
	CABundle *CABundleSource `json:"caBundle,omitempty"`

	// api is the API by which the model is called, with provider OpenAI: Responses or ChatCompletions. Current models of
	// OpenAI reason and call tools at once only with Responses; nothing is stored at the provider. Default: Responses at
	// OpenAI's own address, unless parameters.stopSequences is set, and ChatCompletions with any other baseURL.
	// +optional
	API ModelAPI `json:"api,omitempty"`

	// secretKeyRef is the Secret and key that hold the API key. It is read at every call, so that a new key takes
	// effect at once. A user who writes the Model must be allowed to read that Secret, and the manager needs the role
	// capstan-manager-secrets in the namespace. A Secret with the annotation capstan.dev/allowed-hosts is sent only to
	// the hosts listed there, and over http only one that lists http://HOST:PORT. It may be left out with provider OpenAI
	// and a baseURL or serviceRef whose server needs no key; no Authorization header is sent then.
	// +optional
	SecretKeyRef *SecretKeyReference `json:"secretKeyRef,omitempty"`

	// contextWindow is the number of tokens that the model reads and writes in one call at most, 1,024 to 100,000,000.
	// The capability compaction needs it for a threshold in percent. Default: unknown.
	// +optional
	// +kubebuilder:validation:Minimum=1024
	// +kubebuilder:validation:Maximum=100000000
	ContextWindow *int32 `json:"contextWindow,omitempty"`

	// parameters control how the model generates.
	// +optional
	Parameters *ModelParameters `json:"parameters,omitempty"`

	// timeouts bound how long a call may take. A call that reaches a timeout ends, and the next fallback is called, if
	// there is one. Default: see the fields.
	// +optional
	Timeouts *ModelTimeouts `json:"timeouts,omitempty"`

	// limits are the provider's rate limits, so that calls wait for room instead of being refused. Models of the namespace
	// with the same provider, address, and Secret and key share their calls: the smallest limit that one of them states
	// holds for all of them together. A Turn that waits has the reason RateLimited, and calls no fallback instead.
	// The manager keeps the counts in memory, so that a new one begins with empty ones. Default: no limits.
	// +optional
	Limits *ModelLimits `json:"limits,omitempty"`

	// price of the model's tokens. With it the manager adds up the cost of model calls in the status of Turns and
	// Sessions. The cost of a call follows from the price of the Model that responded, as it was when the step began: a
	// new price does not change recorded costs. Default: no price, and the calls count as unpriced.
	// +optional
	Price *ModelPrice `json:"price,omitempty"`

	// fallbacks are Models that are called instead of this one, in order, if it is unavailable, rate limited or out of
	// quota, fails, or has no valid API key. A fallback that does not exist or is not Ready is skipped.
	// The fallbacks of a fallback are ignored.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=8
	Fallbacks []LocalReference `json:"fallbacks,omitempty"`

	// recovery is how the manager treats a response that is streaming when the manager stops, for any cause, upgrades
	// included: Restart (default) calls the model again; Finalize records the partial response as complete, does not
	// call the model again, and sets the condition Recovered of the Turn. With Finalize, the text of a response that
	// takes longer than 5 seconds is recorded in the Session's journal while it streams, every 5 seconds in the first
	// minute and less often later. If the response had no text yet, or had begun to call tools, the model is always
	// called again.
	// +optional
	Recovery ModelRecovery `json:"recovery,omitempty"`

	// probe lets the manager ask the provider whether it accepts the Model: with the API key, without generating anything.
	// The condition Reachable has the result; Ready does not depend on it. Default: the provider is not asked.
	// +optional
	Probe *ModelProbe `json:"probe,omitempty"`

	// simulation is the script of provider Simulated.
	// +optional
	Simulation *Simulation `json:"simulation,omitempty"`
}

// SimulatedResponseType is the kind of text with which a simulated model responds.
// +kubebuilder:validation:Enum=Fixed;Echo;Lorem;Sequence;Empty;Error
type SimulatedResponseType string

const (
	// SimulatedResponseTypeFixed responds with text.
	SimulatedResponseTypeFixed SimulatedResponseType = "Fixed"
	// SimulatedResponseTypeEcho responds with prefix and the last user message.
	SimulatedResponseTypeEcho SimulatedResponseType = "Echo"
	// SimulatedResponseTypeLorem responds with filler; tokens is the number of words.
	SimulatedResponseTypeLorem SimulatedResponseType = "Lorem"
	// SimulatedResponseTypeSequence responds with one of texts, by iteration, and starts over after the last.
	SimulatedResponseTypeSequence SimulatedResponseType = "Sequence"
	// SimulatedResponseTypeEmpty responds without text.
	SimulatedResponseTypeEmpty SimulatedResponseType = "Empty"
	// SimulatedResponseTypeError fails with the error text.
	SimulatedResponseTypeError SimulatedResponseType = "Error"
)

// SimulatedResponse is the response of a simulated model.
// +kubebuilder:validation:XValidation:rule="!has(self.text) || self.type in ['Fixed', 'Error']",message="text is for the types Fixed and Error."
// +kubebuilder:validation:XValidation:rule="!has(self.prefix) || self.type == 'Echo'",message="prefix is for the type Echo."
// +kubebuilder:validation:XValidation:rule="has(self.tokens) == (self.type == 'Lorem')",message="tokens is required for the type Lorem, and for no other type."
// +kubebuilder:validation:XValidation:rule="has(self.texts) == (self.type == 'Sequence')",message="texts is required for the type Sequence, and for no other type."
// +kubebuilder:validation:XValidation:rule="self.type != 'Error' || has(self.text)",message="the type Error requires text, the message of the error."
// +kubebuilder:validation:XValidation:rule="!has(self.code) || self.type == 'Error'",message="code is for the type Error."
type SimulatedResponse struct {
	// type is Fixed (default), Echo, Lorem, Sequence, Empty or Error.
	// +optional
	// +kubebuilder:default=Fixed
	Type SimulatedResponseType `json:"type,omitempty"`
	// text of the response, or of the error. {{tool:NAME}} stands for the newest result of that tool in the Turn
	// without its last line breaks, {{input}} for the text of the last user message, {{images}} for a description of
	// its images, {{locale}} for the locale.
	// +optional
	// +kubebuilder:validation:MaxLength=65536
	Text string `json:"text,omitempty"`
	// code of the Turn's error with the type Error: processing_error (default), model_unavailable, request_too_large,
	// provider_rate_limited, provider_misconfigured, provider_quota_exhausted or provider_unavailable.
	// +optional
	// +kubebuilder:validation:Enum=processing_error;model_unavailable;request_too_large;provider_rate_limited;provider_misconfigured;provider_quota_exhausted;provider_unavailable
	Code ErrorCode `json:"code,omitempty"`
	// prefix of the echoed user message.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Prefix string `json:"prefix,omitempty"`
	// tokens is the number of words of filler.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100000
	Tokens *int32 `json:"tokens,omitempty"`
	// texts of the responses, one per iteration.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=65536
	Texts []string `json:"texts,omitempty"`
}

// SimulatedToolCall is a tool call that a simulated model makes.
// +kubebuilder:validation:XValidation:rule="!(has(self.arguments) && has(self.rawArguments))",message="at most one of arguments and rawArguments may be set."
type SimulatedToolCall struct {
	// name of the tool.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	Name string `json:"name"`
	// arguments of the call. In its strings {{tool:NAME}} stands for the newest result of that tool in the Turn without
	// its last line breaks, {{input}} for the text of the last user message, {{images}} for a description of its
	// images, {{locale}} for the locale.
	// +optional
	// +kubebuilder:validation:Type=object
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:pruning:PreserveUnknownFields
	Arguments *JSON `json:"arguments,omitempty"`
	// rawArguments is the text of the arguments, used byte for byte, valid JSON or not.
	// +optional
	// +kubebuilder:validation:MaxLength=262144
	RawArguments *string `json:"rawArguments,omitempty"`
}

// SimulatedStep is the behaviour of a simulated model in one iteration.
type SimulatedStep struct {
	// calls to make. Without calls the model responds with text and the Turn ends.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=128
	Calls []SimulatedToolCall `json:"calls,omitempty"`
}

// SimulatedRule chooses tool calls by the user's text.
type SimulatedRule struct {
	// contains is a part of the last user message, case-sensitive.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Contains string `json:"contains"`
	// sequence is the behaviour of the model if the rule applies, one step per iteration; after the last step it makes
	// no more calls.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	Sequence []SimulatedStep `json:"sequence"`
}

// SimulatedToolCalls selects the tools that a simulated model calls. Rules of conditional come first; the first that
// applies is used.
// +kubebuilder:validation:XValidation:rule="!(has(self.fixed) && has(self.sequence))",message="at most one of fixed and sequence may be set."
type SimulatedToolCalls struct {
	// fixed calls are made in every iteration, so that the Turn ends at maxIterations.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=128
	Fixed []SimulatedToolCall `json:"fixed,omitempty"`
	// sequence has one step per iteration and starts over after the last. A step without calls ends the Turn.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Sequence []SimulatedStep `json:"sequence,omitempty"`
	// conditional chooses by the user's text.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=64
	Conditional []SimulatedRule `json:"conditional,omitempty"`
}

// Simulation is the script of a simulated model. Its responses depend only on the iteration and the messages
// of the Turn, so that a restart changes nothing.
type Simulation struct {
	// response of the model. Default: a greeting.
	// +optional
	Response *SimulatedResponse `json:"response,omitempty"`
	// toolCalls selects the tools that the model calls.
	// +optional
	ToolCalls *SimulatedToolCalls `json:"toolCalls,omitempty"`
	// latency of a response, up to 1h.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="!self.matches('^([0-9]+([.][0-9]+)?(ms|s|m|h))+$') || duration(self) <= duration('1h')",message="latency must be at most 1h."
	// +kubebuilder:validation:Type=string
	Latency *metav1.Duration `json:"latency,omitempty"`
}

// ModelStatus is the observed state of a Model.
type ModelStatus struct {
	// conditions of the object. Ready is True when the driver of the provider accepts the spec, and the Secret holds an
	// API key. The manager does not call the provider to find out. Reachable exists with spec.probe: it is True
	// when the provider has accepted the last probe, and otherwise has the error.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the generation of the spec that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// lastProbeTime is the time of the last probe.
	// +optional
	LastProbeTime *metav1.Time `json:"lastProbeTime,omitempty"`
}

// Model is a model at a provider. The annotation capstan.dev/is-default-model: "true" makes it the default of its
// namespace.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:categories=capstan
// +kubebuilder:printcolumn:name="Provider",type=string,JSONPath=`.spec.provider`
// +kubebuilder:printcolumn:name="Model",type=string,JSONPath=`.spec.model`
// +kubebuilder:printcolumn:name="Default",type=string,JSONPath=`.metadata.annotations.capstan\.dev/is-default-model`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Model struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard metadata of an object.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	// +required
	Spec ModelSpec `json:"spec"`
	// status is the observed state. Only the manager writes it.
	// +optional
	// +kubebuilder:default={observedGeneration:-1}
	Status ModelStatus `json:"status,omitempty"`
}

// ModelList is a list of Models.
//
// +kubebuilder:object:root=true
type ModelList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Model `json:"items"`
}
