package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// ModelProvider is who serves a model.
// +kubebuilder:validation:Enum=Simulated;Anthropic;OpenAI;Google
type ModelProvider string

const (
	// ProviderSimulated answers by script, without any network (SIM-01).
	ProviderSimulated ModelProvider = "Simulated"
	// ProviderAnthropic speaks the Messages API of Anthropic.
	ProviderAnthropic ModelProvider = "Anthropic"
	// ProviderOpenAI speaks the API of OpenAI, as many other servers do.
	ProviderOpenAI ModelProvider = "OpenAI"
	// ProviderGoogle speaks the Gemini API of Google.
	ProviderGoogle ModelProvider = "Google"
)

// ReasoningEffort is how much a model thinks before it answers.
// +kubebuilder:validation:Enum=None;Low;Medium;High
type ReasoningEffort string

const (
	// ReasoningNone asks for an answer without thinking first.
	ReasoningNone ReasoningEffort = "None"
	// ReasoningLow asks for little thinking.
	ReasoningLow ReasoningEffort = "Low"
	// ReasoningMedium asks for some thinking.
	ReasoningMedium ReasoningEffort = "Medium"
	// ReasoningHigh asks for much thinking.
	ReasoningHigh ReasoningEffort = "High"
)

// ModelRecovery is what becomes of an answer that was coming in when the manager ended.
// +kubebuilder:validation:Enum=Restart;Finalize
type ModelRecovery string

const (
	// RecoveryRestart asks the model again. What had come is not kept.
	RecoveryRestart ModelRecovery = "Restart"
	// RecoveryFinalize takes what had come for the answer (PART-02).
	RecoveryFinalize ModelRecovery = "Finalize"
)

// ModelParameters are how a model generates. What a provider or a model does not know it refuses, and the Turn fails
// with what it says.
type ModelParameters struct {
	// maxOutputTokens is the most tokens that one answer may have, 1 to 1,000,000. Thinking counts. Default: the
	// provider's own, or 8192 where it has none.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	MaxOutputTokens *int32 `json:"maxOutputTokens,omitempty"`
	// temperature is how much chance there is in the choice of words, a decimal between "0" and "2" with at most three
	// places, such as "0.7". Default: the provider's own.
	// +optional
	// +kubebuilder:validation:MaxLength=5
	// +kubebuilder:validation:Pattern=`^([01](\.[0-9]{1,3})?|2(\.0{1,3})?)$`
	Temperature *string `json:"temperature,omitempty"`
	// topP limits the choice of words to the likeliest that have this probability together, a decimal between "0" and
	// "1" with at most three places. Default: the provider's own.
	// +optional
	// +kubebuilder:validation:MaxLength=5
	// +kubebuilder:validation:Pattern=`^(0(\.[0-9]{1,3})?|1(\.0{1,3})?)$`
	TopP *string `json:"topP,omitempty"`
	// stopSequences are texts that end the answer where the model would say them.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=4
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=256
	StopSequences []string `json:"stopSequences,omitempty"`
	// reasoningEffort is how much the model thinks before it answers: None, Low, Medium or High. Default: what the
	// provider does by itself.
	// +optional
	ReasoningEffort ReasoningEffort `json:"reasoningEffort,omitempty"`
}

// ModelTimeouts bound one call of a model. Content is text, reasoning or a tool call; what a server sends to keep a
// connection open is none.
type ModelTimeouts struct {
	// firstContent is how long the first content may take, from 1s to 1h, such as "90s". A call that it ends is made
	// once more. Default: 120s, and 10m where reasoningEffort is Low, Medium or High.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="!self.matches('^([0-9]+([.][0-9]+)?(ms|s|m|h))+$') || (duration(self) >= duration('1s') && duration(self) <= duration('1h'))",message="firstContent must be between 1s and 1h."
	// +kubebuilder:validation:Type=string
	FirstContent *metav1.Duration `json:"firstContent,omitempty"`
	// idle is how long a response may pause once its first content has come, from 1s to 1h. Default: 120s.
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

// ModelSpec is a model at a provider.
// +kubebuilder:validation:XValidation:rule="self.provider != 'Simulated' || has(self.simulation)",message="provider Simulated needs simulation: say what the model answers."
// +kubebuilder:validation:XValidation:rule="self.provider == 'Simulated' || !has(self.simulation)",message="simulation is for provider Simulated: leave it out, or use that provider."
// +kubebuilder:validation:XValidation:rule="self.provider == 'Simulated' || (has(self.model) && self.model.size() > 0)",message="this provider needs model: its own name of the model."
// +kubebuilder:validation:XValidation:rule="self.provider == 'Simulated' || has(self.secretKeyRef)",message="this provider needs secretKeyRef: the Secret and key that hold the API key."
// +kubebuilder:validation:XValidation:rule="self.provider != 'Simulated' || !has(self.secretKeyRef)",message="provider Simulated needs no API key: leave secretKeyRef out."
// +kubebuilder:validation:XValidation:rule="self.provider != 'Simulated' || !has(self.baseURL)",message="provider Simulated uses no network: leave baseURL out."
// +kubebuilder:validation:XValidation:rule="self.provider != 'Simulated' || !has(self.parameters)",message="provider Simulated answers by script: leave parameters out."
// +kubebuilder:validation:XValidation:rule="self.provider != 'Simulated' || !has(self.timeouts)",message="provider Simulated answers after its latency: leave timeouts out."
// +kubebuilder:validation:XValidation:rule="self.provider != 'Simulated' || !has(self.price) || !has(self.price.cachedInputPerMillionTokens)",message="provider Simulated has no prompt cache: leave cachedInputPerMillionTokens out."
// +kubebuilder:validation:XValidation:rule="self.provider in ['Anthropic', 'OpenAI'] || !has(self.price) || !has(self.price.cacheWritePerMillionTokens)",message="this provider does not count what it puts into a prompt cache: leave cacheWritePerMillionTokens out."
type ModelSpec struct {
	// provider that serves the model: Simulated, Anthropic, OpenAI or Google. OpenAI is also for the many servers that
	// speak its API at a baseURL of their own.
	// +required
	Provider ModelProvider `json:"provider"`

	// model is the provider's name of the model. It is reported with every answer. Provider Simulated takes the name of
	// this object without it; the others need it.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Model string `json:"model,omitempty"`

	// baseURL is where requests go instead of the provider's own address: https, up to the part of the path that the
	// provider's API begins behind. The API key goes there too. Only public addresses are reached, and those that the
	// operator of the manager has allowed.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="isURL(self) && url(self).getScheme() == 'https' && url(self).getHostname() != ''",message="baseURL must be an absolute https URL."
	// +kubebuilder:validation:XValidation:rule="!self.matches('^[A-Za-z]+:/*[^/?#]*@')",message="baseURL must not have a user or a password in it: use secretKeyRef."
	// +kubebuilder:validation:XValidation:rule="!self.contains('?') && !self.contains('#')",message="baseURL must not have a query or a fragment."
	BaseURL string `json:"baseURL,omitempty"`

	// secretKeyRef is the Secret and key that hold the API key. It is read at every call, so that a new key counts at
	// once. Whoever writes the Model must be allowed to read that Secret, and the manager needs the role
	// capstan-manager-secrets in the namespace. A Secret with the annotation capstan.dev/allowed-hosts goes to the
	// hosts listed there only.
	// +optional
	SecretKeyRef *SecretKeyReference `json:"secretKeyRef,omitempty"`

	// parameters are how the model generates.
	// +optional
	Parameters *ModelParameters `json:"parameters,omitempty"`

	// timeouts bound how long a call may take. A call that reaches one ends, and the next fallback is called, if there
	// is one. Default: see the fields.
	// +optional
	Timeouts *ModelTimeouts `json:"timeouts,omitempty"`

	// price is what the model's tokens cost. With it the manager adds up what model calls cost, in the status of Turns
	// and Sessions. A call counts at the price of the Model that has answered it, as it was when the step began: a new
	// price changes nothing that is recorded. Default: none, and the calls count as unpriced.
	// +optional
	Price *ModelPrice `json:"price,omitempty"`

	// fallbacks are Models that are asked instead, in order, when this one is not available, limits requests, has no
	// quota left, has a problem, has no API key, or refuses it. One that does not exist or is not Ready is passed over.
	// Their own fallbacks do not count.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=8
	Fallbacks []LocalReference `json:"fallbacks,omitempty"`

	// recovery is what becomes of an answer that is coming in when the manager ends, in whatever way, an upgrade
	// included: Restart (default) asks the model again, Finalize takes what had come for the answer, asks for nothing
	// more, and says so with the condition Recovered of the Turn. With Finalize, the text of an answer that takes
	// longer than 5 seconds is kept in the Session's log as it comes, every 5 seconds in the first minute and less
	// often later. An answer that had begun to call tools, or that nothing had come of, is always asked for again.
	// +optional
	Recovery ModelRecovery `json:"recovery,omitempty"`

	// simulation is the script of provider Simulated.
	// +optional
	Simulation *Simulation `json:"simulation,omitempty"`
}

// SimulatedResponseType is the kind of text that a simulated model answers with.
// +kubebuilder:validation:Enum=Fixed;Echo;Lorem;Sequence;Empty;Error
type SimulatedResponseType string

const (
	// ResponseFixed answers with text.
	ResponseFixed SimulatedResponseType = "Fixed"
	// ResponseEcho answers with prefix and the last user message.
	ResponseEcho SimulatedResponseType = "Echo"
	// ResponseLorem answers with as many words of filler as tokens says.
	ResponseLorem SimulatedResponseType = "Lorem"
	// ResponseSequence answers with one of texts, by iteration, from the beginning again after the last.
	ResponseSequence SimulatedResponseType = "Sequence"
	// ResponseEmpty answers with no text.
	ResponseEmpty SimulatedResponseType = "Empty"
	// ResponseError fails with the error text.
	ResponseError SimulatedResponseType = "Error"
)

// SimulatedResponse is what a simulated model says.
// +kubebuilder:validation:XValidation:rule="!has(self.text) || self.type in ['Fixed', 'Error']",message="text is for the types Fixed and Error."
// +kubebuilder:validation:XValidation:rule="!has(self.prefix) || self.type == 'Echo'",message="prefix is for the type Echo."
// +kubebuilder:validation:XValidation:rule="has(self.tokens) == (self.type == 'Lorem')",message="tokens is for the type Lorem, and needed there."
// +kubebuilder:validation:XValidation:rule="has(self.texts) == (self.type == 'Sequence')",message="texts is for the type Sequence, and needed there."
// +kubebuilder:validation:XValidation:rule="self.type != 'Error' || has(self.text)",message="the type Error needs text: the error to fail with."
type SimulatedResponse struct {
	// type is Fixed (default), Echo, Lorem, Sequence, Empty or Error.
	// +optional
	// +kubebuilder:default=Fixed
	Type SimulatedResponseType `json:"type,omitempty"`
	// text to answer with, or to fail with. {{tool:NAME}} stands for the newest result of that tool in the Turn without
	// its last line breaks, {{input}} for the text of the last user message, {{images}} for what its images are,
	// {{locale}} for the locale.
	// +optional
	// +kubebuilder:validation:MaxLength=65536
	Text string `json:"text,omitempty"`
	// prefix put before the user's message.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Prefix string `json:"prefix,omitempty"`
	// tokens is the number of words of filler.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100000
	Tokens *int32 `json:"tokens,omitempty"`
	// texts to answer with, one an iteration.
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
	// its last line breaks, {{input}} for the text of the last user message, {{images}} for what its images are,
	// {{locale}} for the locale.
	// +optional
	// +kubebuilder:validation:Type=object
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:pruning:PreserveUnknownFields
	Arguments *JSON `json:"arguments,omitempty"`
	// rawArguments is the text of the arguments, passed on byte for byte, valid JSON or not.
	// +optional
	// +kubebuilder:validation:MaxLength=262144
	RawArguments *string `json:"rawArguments,omitempty"`
}

// SimulatedStep is what a simulated model does in one iteration.
type SimulatedStep struct {
	// calls to make. None means that the model answers with text and the Turn ends.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=128
	Calls []SimulatedToolCall `json:"calls,omitempty"`
}

// SimulatedRule chooses tool calls by the user's text.
type SimulatedRule struct {
	// contains is a part of the last user message, in the case as given.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Contains string `json:"contains"`
	// sequence is what the model does then, one step an iteration; after the last step it makes no more calls.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	Sequence []SimulatedStep `json:"sequence"`
}

// SimulatedToolCalls says which tools a simulated model calls. Rules of conditional come first; the first that applies
// is used.
// +kubebuilder:validation:XValidation:rule="!(has(self.fixed) && has(self.sequence))",message="at most one of fixed and sequence may be set."
type SimulatedToolCalls struct {
	// fixed calls are made in every iteration, so that the Turn ends at maxIterations.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=128
	Fixed []SimulatedToolCall `json:"fixed,omitempty"`
	// sequence is one step an iteration, from the beginning again after the last. A step without calls ends the Turn.
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

// Simulation is the script of a simulated model (SIM-01). What it answers depends on the Turn's own iteration and
// messages alone, so that a restart changes nothing.
type Simulation struct {
	// response is what the model says. Default: a greeting.
	// +optional
	Response *SimulatedResponse `json:"response,omitempty"`
	// toolCalls says which tools it calls.
	// +optional
	ToolCalls *SimulatedToolCalls `json:"toolCalls,omitempty"`
	// latency of an answer, up to 1h.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="!self.matches('^([0-9]+([.][0-9]+)?(ms|s|m|h))+$') || duration(self) <= duration('1h')",message="latency must be at most 1h."
	// +kubebuilder:validation:Type=string
	Latency *metav1.Duration `json:"latency,omitempty"`
}

// ModelStatus is what the manager says about a Model.
type ModelStatus struct {
	// conditions: Ready is True when the Model can be called as far as the manager knows: its driver accepts the spec,
	// and its Secret holds an API key. The provider is not called for that.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the generation of the spec that this status describes.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}

// Model is a model at a provider. The annotation capstan.dev/is-default-model: "true" makes it the one that is used
// where none is named.
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
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the model that the user offers.
	// +required
	Spec ModelSpec `json:"spec"`
	// status is what the manager says about it.
	// +optional
	// +kubebuilder:default={conditions: {{type: "Ready", status: "Unknown", reason: "Pending", message: "Waiting for the manager.", lastTransitionTime: "1970-01-01T00:00:00Z"}}}
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
