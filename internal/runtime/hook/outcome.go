package hook

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/capstan-dev/capstan/internal/runtime/excerpt"
)

// Decision is what a hook has decided.
type Decision string

const (
	// Allow goes on.
	Allow Decision = "allow"
	// Block refuses the message or the call.
	Block Decision = "block"
	// Mutate rewrites.
	Mutate Decision = "mutate"
	// Failed is not a decision: the hook has none, and its error policy applies.
	Failed Decision = "error"
)

// The texts of outcomes that have none of their own.
const (
	reasonExited  = "hook exited non-zero"
	reasonBlocked = "hook blocked"
)

// Outcome is what one run of a hook has decided.
type Outcome struct {
	// Decision of the hook.
	Decision Decision
	// Reason of a Block or a Mutate, or the error of a Failed.
	Reason string
	// UserMessage of a Block is for the user; empty for none.
	UserMessage string
	// Patch of a Mutate, as JSON.
	Patch json.RawMessage
	// Cause of a Failed is for logs: it may have texts of the API server. It is nil where Reason has all.
	Cause error
}

// InternalError is an error of the manager, such as one of the API server. Users read only its text.
type InternalError struct {
	text  string
	cause error
}

// Internal returns an error with a text for users, and a cause for logs.
func Internal(text string, cause error) error {
	return &InternalError{text: text, cause: cause}
}

// Error implements error. It is the text for users.
func (e *InternalError) Error() string { return e.text }

// Unwrap returns the cause.
func (e *InternalError) Unwrap() error { return e.cause }

// FailWith is the outcome of a hook without a decision, because of an error whose text users may read. The cause of an
// InternalError is kept.
func FailWith(err error) Outcome {
	o := Outcome{Decision: Failed, Reason: err.Error()}
	var internal *InternalError
	if errors.As(err, &internal) {
		o.Cause = internal.cause
	}
	return o
}

// Fail is the outcome of a hook without a decision.
func Fail(format string, args ...any) Outcome {
	return Outcome{Decision: Failed, Reason: fmt.Sprintf(format, args...)}
}

// Output is what the run of a script has printed.
type Output struct {
	// Stdout and Stderr of the script.
	Stdout, Stderr string
	// Exit is its exit code.
	Exit int
}

// quotedBytes is how much of an invalid output an error repeats.
const quotedBytes = 80

// Parse returns the outcome that a script has printed (HOOK-14). A JSON object counts regardless of the exit code.
// More than MaxOutputBytes of both outputs together is an error (HOOK-13).
func Parse(o Output) Outcome {
	if n := len(o.Stdout) + len(o.Stderr); n > MaxOutputBytes {
		return Fail("the output has more than %d bytes", MaxOutputBytes)
	}
	stdout := strings.TrimLeftFunc(o.Stdout, unicode.IsSpace)
	switch {
	case stdout == "" && o.Exit == 0:
		return Outcome{Decision: Allow}
	case stdout == "":
		reason := strings.TrimSpace(o.Stderr)
		if reason == "" {
			reason = reasonExited
		}
		return Outcome{Decision: Block, Reason: strings.ToValidUTF8(reason, "\uFFFD")}
	case stdout[0] != '{':
		return Fail("the output is not a JSON object: %q", excerpt.Head(stdout, quotedBytes))
	}
	return ParseJSON([]byte(stdout))
}

// ParseJSON returns the outcome that a JSON object stands for.
func ParseJSON(object []byte) Outcome {
	if len(object) > MaxOutputBytes {
		return Fail("the output has more than %d bytes", MaxOutputBytes)
	}
	if !utf8.Valid(object) {
		return Fail("the output is not valid UTF-8")
	}
	known, err := members(object)
	if err != nil {
		return Fail("the output is not valid: %v", err)
	}
	var decision, reason, message *string
	for key, to := range map[string]**string{"decision": &decision, "reason": &reason, "user_message": &message} {
		if raw, ok := known[key]; ok && json.Unmarshal(raw, to) != nil {
			return Fail("the output is not valid: %s is not a string", key)
		}
	}
	patch := known["patch"]
	if string(patch) == "null" {
		patch = nil
	}
	switch {
	case decision == nil || *decision == string(Allow):
		return Outcome{Decision: Allow}
	case *decision == string(Block):
		return Outcome{Decision: Block, Reason: orElse(reason, reasonBlocked), UserMessage: orElse(message, "")}
	case *decision == string(Mutate) && patch == nil:
		return Fail("the output has the decision mutate and no patch")
	case *decision == string(Mutate):
		return Outcome{Decision: Mutate, Reason: orElse(reason, ""), Patch: patch}
	default:
		return Fail("the output has an unknown decision %.64q", *decision)
	}
}

func orElse(text *string, otherwise string) string {
	if text == nil || *text == "" {
		return otherwise
	}
	return *text
}

// members returns the known members of an object. A member that is there twice is an error: readers differ in which one
// counts. The names are exact, which they are not for encoding/json.
func members(object []byte) (map[string]json.RawMessage, error) {
	d := json.NewDecoder(bytes.NewReader(object))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, errors.New("it is not a JSON object")
	}
	known := map[string]json.RawMessage{}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return nil, syntax(err)
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, syntax(err)
		}
		switch key, _ := t.(string); key {
		case "decision", "reason", "user_message", "patch":
			if _, twice := known[key]; twice {
				return nil, fmt.Errorf("it has %s twice", key)
			}
			known[key] = value
		}
	}
	if _, err := d.Token(); err != nil {
		return nil, syntax(err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is more behind the JSON object")
	}
	return known, nil
}

func syntax(err error) error {
	return fmt.Errorf("it is not JSON: %w", err)
}
