package tool

import (
	"regexp"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// AtMostOnce reports whether a call must never start twice. It is the meaning of an empty class (TOOL-09).
func AtMostOnce(call v1alpha1.ToolCall) bool {
	return call.SideEffect != v1alpha1.SideEffectPure && call.SideEffect != v1alpha1.SideEffectIdempotent
}

// traceParent is a W3C trace context of any version.
var traceParent = regexp.MustCompile(`^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$`)

// ValidTraceParent reports whether a text is a W3C trace context.
func ValidTraceParent(text string) bool {
	return traceParent.MatchString(text)
}
