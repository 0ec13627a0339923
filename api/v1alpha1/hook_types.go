package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// HookEvent is the point of a Session or a Turn at which a hook runs.
// +kubebuilder:validation:Enum=SessionStart;SessionEnd;UserPromptSubmit;PreToolUse;PostToolUse;TurnEnd
type HookEvent string

const (
	// HookEventSessionStart is before the first Turn of a Session, once the Session can be used. A hook can change
	// nothing.
	HookEventSessionStart HookEvent = "SessionStart"
	// HookEventSessionEnd is when a Session is deleted. A hook can change nothing.
	HookEventSessionEnd HookEvent = "SessionEnd"
	// HookEventUserPromptSubmit is before the first model call of a Turn. A hook can rewrite the message, or block it
	// and end the Turn.
	HookEventUserPromptSubmit HookEvent = "UserPromptSubmit"
	// HookEventPreToolUse is before each tool call, but for those of client tools. A hook can rewrite the arguments, or
	// block the call.
	HookEventPreToolUse HookEvent = "PreToolUse"
	// HookEventPostToolUse is after each tool call that has run, but for those of client tools. A hook can rewrite the
	// result, add to it, or replace it by an error.
	HookEventPostToolUse HookEvent = "PostToolUse"
	// HookEventTurnEnd is when a Turn has ended, with or without success. A hook can change nothing.
	HookEventTurnEnd HookEvent = "TurnEnd"
)

// HookErrorPolicy is what happens when a hook fails: it cannot run, takes too long or has no valid outcome.
// +kubebuilder:validation:Enum=Warn;Block;Allow
type HookErrorPolicy string

const (
	// HookErrorPolicyWarn continues, and records the error in the journal. It is the default.
	HookErrorPolicyWarn HookErrorPolicy = "Warn"
	// HookErrorPolicyBlock blocks the message or the call, or replaces the result by the error of the hook.
	HookErrorPolicyBlock HookErrorPolicy = "Block"
	// HookErrorPolicyAllow continues.
	HookErrorPolicyAllow HookErrorPolicy = "Allow"
)

// HookMatcher restricts a hook to some tool calls. All of its conditions must match.
// +kubebuilder:validation:XValidation:rule="!has(self.matchRegex) || !has(self.denyRegex)",message="at most one of matchRegex and denyRegex can be set."
// +kubebuilder:validation:XValidation:rule="!(has(self.matchRegex) || has(self.denyRegex)) || has(self.argsPath)",message="a regular expression needs argsPath."
type HookMatcher struct {
	// toolName is the exact name of the tool.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	ToolName string `json:"toolName,omitempty"`
	// toolNameGlob is alternatives, separated by |. Each may end with * for any rest: `delete_*|remove`.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:Pattern=`^[^*?\[\]{}|]*\**(\|[^*?\[\]{}|]*\**)*$`
	ToolNameGlob string `json:"toolNameGlob,omitempty"`
	// argsPath is a path of keys to a value in the arguments: `$.options.path`. Without a regular expression, the hook
	// runs if the value is there and not empty.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	ArgsPath string `json:"argsPath,omitempty"`
	// matchRegex is searched for in the value at argsPath, in the syntax of RE2. The hook also runs if the value is too
	// long to be searched.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	MatchRegex string `json:"matchRegex,omitempty"`
	// denyRegex is the same as matchRegex, for hooks that block.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	DenyRegex string `json:"denyRegex,omitempty"`
}

// HookVariable is an environment variable of a script.
type HookVariable struct {
	// name of the variable.
	// +required
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:Pattern=`^[A-Za-z_][A-Za-z0-9_]*$`
	Name string `json:"name"`
	// value of the variable.
	// +required
	// +kubebuilder:validation:MaxLength=256
	Value string `json:"value"`
}

// BashHook runs a script, in a process without network, host files or other programs. The variable
// CAPSTAN_HOOK_PAYLOAD_JSON has the event. A script that prints nothing allows with exit code 0 and blocks with any
// other; one that prints a JSON object decides by that.
type BashHook struct {
	// command is the script, with the builtins of bash, the usual commands for files and text, and jq.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=16384
	// +kubebuilder:validation:XValidation:rule="self.trim() != ''",message="command must not be blank."
	Command string `json:"command"`
	// env are further environment variables. They replace those of the runtime.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Env []HookVariable `json:"env,omitempty"`
}

// CELHook evaluates an expression over the variables event, session, turn, agent and data. It yields true to allow,
// false to block, a text as the reason to block, or a map with a decision.
type CELHook struct {
	// expression in CEL: `data.tool_name != "delete" || data.arguments.path.startsWith("/tmp/")`. The macros are has,
	// all, exists and exists_one.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Expression string `json:"expression"`
}

// WebhookHeader is a header of a hook's request: with a fixed value, or with the value of a Secret's key.
// +kubebuilder:validation:XValidation:rule="has(self.value) != has(self.secretKeyRef)",message="exactly one of value and secretKeyRef must be set."
type WebhookHeader struct {
	// name of the header. Idempotency-Key, Traceparent and the headers that control the transfer are reserved for the
	// runtime.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9!#$%&'*+.^_|~-]+$`
	// +kubebuilder:validation:XValidation:rule="!(self.lowerAscii() in ['connection', 'content-encoding', 'content-length', 'expect', 'host', 'idempotency-key', 'keep-alive', 'proxy-authorization', 'proxy-connection', 'te', 'traceparent', 'trailer', 'transfer-encoding', 'upgrade'])",message="this header is set by the runtime, or says how the request is sent. Leave it out."
	Name string `json:"name"`
	// value of the header.
	// +optional
	// +kubebuilder:validation:MaxLength=4096
	// +kubebuilder:validation:Pattern=`^[ -~]*$`
	Value *string `json:"value,omitempty"`
	// secretKeyRef reads the whole value from a Secret, including a prefix such as `Bearer `. A user who writes the
	// hook must be allowed to read that Secret. A Secret with the annotation capstan.dev/allowed-hosts is sent only to
	// the hosts listed there. The request is not sent to another host, port or scheme than the url's.
	// +optional
	SecretKeyRef *SecretKeyReference `json:"secretKeyRef,omitempty"`
}

// WebhookHook sends the event as JSON by POST. A status of 200 to 299 with an empty body allows, and with a JSON object
// decides by that; everything else is an error of the hook. Only public addresses are reached, and addresses that the
// operator of the manager has allowed. A redirect to another server is refused.
type WebhookHook struct {
	// url that the request is sent to: https, without user, password and fragment.
	// +required
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:XValidation:rule="isURL(self) && url(self).getScheme() == 'https' && url(self).getHostname() != ''",message="url must be an absolute https URL."
	// +kubebuilder:validation:XValidation:rule="!self.matches('^[A-Za-z]+:/*[^/?#]*@')",message="url must not have a user or a password in it: use headers."
	// +kubebuilder:validation:XValidation:rule="!self.contains('#')",message="url must not have a fragment."
	URL string `json:"url"`
	// headers of the request, besides Content-Type, Accept and Idempotency-Key.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=4
	Headers []WebhookHeader `json:"headers,omitempty"`
	// caBundle is certificates in PEM form that the server is trusted by, instead of those that the manager trusts.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=16384
	CABundle string `json:"caBundle,omitempty"`
}

// Hook is a program that runs at an event of a Session or a Turn. It looks at a message, a tool call or its result, and
// can rewrite or block it. Of the start and the end of a Session, and of the end of a Turn, it is only informed.
// +kubebuilder:validation:XValidation:rule="[has(self.bash), has(self.cel), has(self.webhook)].exists_one(set, set)",message="exactly one of bash, cel and webhook must be set."
// +kubebuilder:validation:XValidation:rule="!has(self.matcher) || self.event in ['PreToolUse', 'PostToolUse']",message="matcher is for the events PreToolUse and PostToolUse."
// +kubebuilder:validation:XValidation:rule="!has(self.onError) || !(self.event in ['SessionStart', 'SessionEnd', 'TurnEnd'])",message="onError is not for the events SessionStart, SessionEnd and TurnEnd, whose hooks change nothing."
type Hook struct {
	// name of the hook, unique in the object. Its id is harness/HARNESS:NAME, agent/AGENT:NAME, session:NAME, or
	// object/CAPABILITY:NAME.
	// +required
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([a-z0-9_-]*[a-z0-9])?$`
	Name string `json:"name"`
	// event at which the hook runs: SessionStart, SessionEnd, UserPromptSubmit, PreToolUse, PostToolUse or TurnEnd.
	// +required
	Event HookEvent `json:"event"`
	// matcher restricts the tool calls at which the hook runs. Without one it runs at all of them.
	// +optional
	Matcher *HookMatcher `json:"matcher,omitempty"`
	// bash runs a script.
	// +optional
	Bash *BashHook `json:"bash,omitempty"`
	// cel evaluates an expression.
	// +optional
	CEL *CELHook `json:"cel,omitempty"`
	// webhook sends a request.
	// +optional
	Webhook *WebhookHook `json:"webhook,omitempty"`
	// timeout of the hook, 100ms to 30s. Default 5s. All hooks before the calls of a step have 60s together, those after
	// one call 60s, those at the end of a Turn 10s, those at the start of a Session 30s, and those at its end 30s.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="!self.matches('^([0-9]+([.][0-9]+)?(ms|s|m|h))+$') || (duration(self) >= duration('100ms') && duration(self) <= duration('30s'))",message="timeout must be between 100ms and 30s."
	// +kubebuilder:validation:Type=string
	Timeout *metav1.Duration `json:"timeout,omitempty"`
	// onError is what happens when the hook fails: Warn (default), Block or Allow. A hook that guards something needs
	// Block. It cannot be set at the events SessionStart, SessionEnd and TurnEnd.
	// +optional
	OnError HookErrorPolicy `json:"onError,omitempty"`
}

// HookDecision is what a hook has decided.
// +kubebuilder:validation:Enum=Block;Mutate;Error
type HookDecision string

const (
	// HookDecisionBlock: the hook did not allow.
	HookDecisionBlock HookDecision = "Block"
	// HookDecisionMutate: the hook wanted to rewrite something.
	HookDecisionMutate HookDecision = "Mutate"
	// HookDecisionError: the hook failed.
	HookDecisionError HookDecision = "Error"
)

// HookOutcome is what a hook has decided that did not allow, or that has failed.
type HookOutcome struct {
	// id of the hook, such as harness/base:report.
	// +required
	// +kubebuilder:validation:MaxLength=512
	ID string `json:"id"`
	// decision of the hook: Block, Mutate or Error. At an event of a Session it has no effect.
	// +required
	Decision HookDecision `json:"decision"`
	// reason of the decision, or the error.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Reason string `json:"reason,omitempty"`
}

// PinnedHook is a hook as it was when the Session started.
type PinnedHook struct {
	// id of the hook, such as harness/base:report.
	// +required
	// +kubebuilder:validation:MaxLength=512
	ID string `json:"id"`
	// hook that runs. It is kept as it was in its object, and not validated again: a hook that an earlier version of the
	// manager has accepted must not keep the status from being written.
	// +required
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	Hook Hook `json:"hook"`
}

// SessionHooks shows what became of the hooks at the start of a Session, and has those that run at its end.
type SessionHooks struct {
	// startedAt is when the hooks at the start had run. Until then the Session is not ready.
	// +optional
	StartedAt *metav1.Time `json:"startedAt,omitempty"`
	// start has those of the hooks at the start that did not allow, or have failed. They have changed nothing.
	// +optional
	// +listType=map
	// +listMapKey=id
	// +kubebuilder:validation:MaxItems=8
	Start []HookOutcome `json:"start,omitempty"`
	// end are the hooks that run when the Session is deleted, as they were when it started: the objects that they come
	// from may be gone by then. One that was removed from its object meanwhile does not run. They have at most 16 KiB
	// together.
	// +optional
	// +listType=map
	// +listMapKey=id
	// +kubebuilder:validation:MaxItems=8
	End []PinnedHook `json:"end,omitempty"`
}
