package event

import (
	"crypto/sha256"
	"encoding/hex"
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

// TraceParent is the W3C traceparent of a span of a turn: the trace is the Turn's UID.
func TraceParent(turn types.UID, span string) string {
	trace := strings.ToLower(strings.ReplaceAll(string(turn), "-", ""))
	if !isTraceID(trace) {
		trace = hash(16, "trace", string(turn))
	}
	return "00-" + trace + "-" + span + "-01"
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
