package event

import (
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// Span ids are derived from the spanned things. So a started and a completed event share their span without stored
// state, even across a restart, and a tool's Job gets the span that its events will have.

// TurnSpan is the id of the root span of a turn.
func TurnSpan(turn types.UID) string {
	return spanID("turn", string(turn))
}

// StepSpan is the id of the span of a reason or act step, a child of the turn's.
func StepSpan(turn types.UID, exec string) string {
	return spanID("step", string(turn), exec)
}

// ToolSpan is the id of the span of a tool call, a child of its act step's.
func ToolSpan(turn types.UID, exec, call string) string {
	return spanID("tool", string(turn), exec, call)
}

// ModelSpan is the id of the span of the n-th model call of a reason step, counted from 0: a child of the step's.
func ModelSpan(turn types.UID, exec string, n int) string {
	return spanID("model", string(turn), exec, strconv.Itoa(n))
}

// HookSpan is the id of the span of a run of a hook, which a key identifies: a child of the turn's.
func HookSpan(key string) string {
	return spanID("hook", key)
}

// Trace is the trace that a turn belongs to.
type Trace struct {
	// ID has 32 hexadecimal digits.
	ID string
	// Parent is the span around that of the turn; empty for none.
	Parent string
	// Flags has the two hexadecimal digits of a W3C trace context.
	Flags string
}

// traceParent is a W3C trace context of the first version.
var traceParent = regexp.MustCompile(`^00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})$`)

// TraceOf returns the trace of a turn: that of a W3C traceparent, or a new one, whose id is the Turn's UID. An invalid
// traceparent starts a new trace.
func TraceOf(turn types.UID, given string) Trace {
	if m := traceParent.FindStringSubmatch(given); m != nil && strings.Trim(m[1], "0") != "" &&
		strings.Trim(m[2], "0") != "" {
		return Trace{ID: m[1], Parent: m[2], Flags: m[3]}
	}
	id := strings.ToLower(strings.ReplaceAll(string(turn), "-", ""))
	if !isTraceID(id) {
		id = hash(16, "trace", string(turn))
	}
	return Trace{ID: id, Flags: "01"}
}

// TraceParent is the W3C traceparent of a span of the trace.
func (t Trace) TraceParent(span string) string {
	return "00-" + t.ID + "-" + span + "-" + t.Flags
}

func isTraceID(s string) bool {
	raw, err := hex.DecodeString(s)
	return err == nil && len(raw) == 16 && strings.Trim(s, "0") != ""
}

func spanID(parts ...string) string {
	return hash(8, parts...)
}

func hash(bytes int, parts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:bytes])
}
