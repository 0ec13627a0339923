package hook

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Event is a point at which hooks run (HOOK-01).
type Event string

const (
	// SessionStart: a Session was created. Its hooks can change nothing.
	SessionStart Event = "session_start"
	// SessionEnd: a Session is being deleted. Its hooks can change nothing.
	SessionEnd Event = "session_end"
	// UserPromptSubmit: before the first model call of a Turn. Its hooks can block the Turn and rewrite the message.
	UserPromptSubmit Event = "user_prompt_submit"
	// TurnEnd: a Turn has ended. Its hooks can change nothing.
	TurnEnd Event = "turn_end"
	// PreToolUse: before a tool call. Its hooks can block the call and rewrite its arguments.
	PreToolUse Event = "pre_tool_use"
	// PostToolUse: after a tool call. Its hooks can rewrite the result.
	PostToolUse Event = "post_tool_use"
)

// Events are all of them, in the order of a Session's life.
func Events() []Event {
	return []Event{SessionStart, UserPromptSubmit, PreToolUse, PostToolUse, TurnEnd, SessionEnd}
}

// Matches reports whether hooks of the event may have a matcher: it is an event of one tool call.
func (e Event) Matches() bool {
	return e == PreToolUse || e == PostToolUse
}

// OnError is the effect of a failed hook on the message, the call or the result.
type OnError string

const (
	// OnErrorWarn goes on and records a warning. It is the default.
	OnErrorWarn OnError = "warn"
	// OnErrorBlock blocks, as if the hook had decided to.
	OnErrorBlock OnError = "block"
	// OnErrorAllow goes on.
	OnErrorAllow OnError = "allow"
)

// The bounds of a spec (HOOK-03, HOOK-13).
const (
	// DefaultTimeout is the timeout of a hook that sets none.
	DefaultTimeout = 5 * time.Second
	// MinTimeout is the shortest timeout.
	MinTimeout = 100 * time.Millisecond
	// MaxTimeout is the longest timeout.
	MaxTimeout = 30 * time.Second
	// MaxEnv is the most environment variables of a hook.
	MaxEnv = 16
	// MaxCommandBytes is the longest script of a hook.
	MaxCommandBytes = 64 << 10
	// MaxExpressionBytes is the longest CEL expression.
	MaxExpressionBytes = 4 << 10
	// MaxOutputBytes is the most that a hook may print or respond.
	MaxOutputBytes = 64 << 10
)

// Spec is one hook (HOOK-02). Exactly one of Bash, CEL and Webhook is set.
type Spec struct {
	// ID is the resolved id, as Name or Finalize make it.
	ID string
	// Name is the author's name of the hook, unique within its source. Empty for one after the event and the position.
	Name string
	// Event at which it runs.
	Event Event
	// Matcher restricts the tool calls at which it runs.
	Matcher Matcher
	// Bash is a script.
	Bash *Bash
	// CEL is an expression.
	CEL *CEL
	// Webhook is a request over HTTPS.
	Webhook *Webhook
	// Timeout of one run; 0 for DefaultTimeout.
	Timeout time.Duration
	// OnError is what happens when it fails; empty for OnErrorWarn.
	OnError OnError
}

// Kind is what executes a hook.
type Kind string

const (
	// KindBash is of a hook with a script.
	KindBash Kind = "bash"
	// KindCEL is of a hook with an expression.
	KindCEL Kind = "cel"
	// KindWebhook is of a hook with a request.
	KindWebhook Kind = "webhook"
)

// Kind returns what executes the hook; empty if that is not exactly one.
func (s *Spec) Kind() Kind {
	kinds := s.kinds()
	if len(kinds) != 1 {
		return ""
	}
	return kinds[0]
}

func (s *Spec) kinds() []Kind {
	var set []Kind
	if s.Bash != nil {
		set = append(set, KindBash)
	}
	if s.CEL != nil {
		set = append(set, KindCEL)
	}
	if s.Webhook != nil {
		set = append(set, KindWebhook)
	}
	return set
}

// Bash is a hook that is a script.
type Bash struct {
	// Command is the script.
	Command string `json:"command"`
	// Env are further environment variables. They replace those of the runtime.
	Env []Variable `json:"env,omitempty"`
}

// Variable is an environment variable.
type Variable struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// CEL is a hook that is an expression.
type CEL struct {
	// Expression to evaluate.
	Expression string
}

// Webhook is a hook that is a request over HTTPS.
type Webhook struct {
	// URL to which the payload is sent.
	URL string
	// Headers of the request.
	Headers []Header
	// CABundle is PEM certificates that the server may be trusted by instead of the system's; empty for the system's.
	CABundle string
}

// Header is a header of a webhook's request, with a fixed value or that of a Secret's key.
type Header struct {
	Name, Value           string
	SecretName, SecretKey string
}

// TimeoutOrDefault is the time that one run may take.
func (s *Spec) TimeoutOrDefault() time.Duration {
	if s.Timeout == 0 {
		return DefaultTimeout
	}
	return s.Timeout
}

// Policy is what happens when the hook fails.
func (s *Spec) Policy() OnError {
	if s.OnError == "" {
		return OnErrorWarn
	}
	return s.OnError
}

// Validate returns why the hook cannot run; nil if it can (HOOK-03). It does not compile what an executor runs.
func (s *Spec) Validate() error {
	if !slices.Contains(Events(), s.Event) {
		return fmt.Errorf("unknown event %.64q", s.Event)
	}
	if t := s.TimeoutOrDefault(); t < MinTimeout || t > MaxTimeout {
		return fmt.Errorf("timeout is %s; it must be between %s and %s", t, MinTimeout, MaxTimeout)
	}
	if !slices.Contains([]OnError{OnErrorWarn, OnErrorBlock, OnErrorAllow}, s.Policy()) {
		return fmt.Errorf("unknown error policy %.64q", s.OnError)
	}
	if s.Matcher != (Matcher{}) && !s.Event.Matches() {
		return fmt.Errorf("the event %s has no tool call, so that a matcher cannot match", s.Event)
	}
	if _, err := s.Matcher.Compile(); err != nil {
		return err
	}
	return s.validateExecutor()
}

func (s *Spec) validateExecutor() error {
	switch s.Kind() {
	case KindBash:
		return s.Bash.validate()
	case KindCEL:
		return bounded("expression", s.CEL.Expression, MaxExpressionBytes)
	case KindWebhook:
		return bounded("url", s.Webhook.URL, 2048)
	default:
		return fmt.Errorf("exactly one of bash, cel and webhook must be set; %d are", len(s.kinds()))
	}
}

func (b *Bash) validate() error {
	if err := bounded("command", b.Command, MaxCommandBytes); err != nil {
		return err
	}
	if len(b.Env) > MaxEnv {
		return fmt.Errorf("%d environment variables; the maximum is %d", len(b.Env), MaxEnv)
	}
	for _, v := range b.Env {
		if !validVariable(v.Name) {
			return fmt.Errorf("invalid name %.64q of an environment variable", v.Name)
		}
	}
	return nil
}

func bounded(field, text string, limit int) error {
	switch {
	case strings.TrimSpace(text) == "":
		return fmt.Errorf("%s is empty", field)
	case len(text) > limit:
		return fmt.Errorf("%s has %d bytes; the maximum is %d", field, len(text), limit)
	default:
		return nil
	}
}

// validVariable reports whether a text can be the name of a variable of a shell.
func validVariable(name string) bool {
	for i, c := range []byte(name) {
		letter := c == '_' || (c|0x20 >= 'a' && c|0x20 <= 'z')
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return name != "" && len(name) <= 128
}

// Payload is what a hook receives (HOOK-10). It is encoded as JSON, with null for what does not exist.
type Payload struct {
	// Event that has happened.
	Event Event `json:"event"`
	// HookID is the id of the hook that runs.
	HookID string `json:"hook_id"`
	// SessionID is the UID of the Session.
	SessionID string `json:"session_id"`
	// TurnID is the UID of the Turn; nil at an event of a Session.
	TurnID *string `json:"turn_id"`
	// OrgID is the namespace.
	OrgID *string `json:"org_id"`
	// AgentID is the name of the Agent; nil if the Session has none.
	AgentID *string `json:"agent_id"`
	// Time of the event, in UTC.
	Time string `json:"ts"`
	// Data of the event (HOOK-11).
	Data json.RawMessage `json:"data"`
}
