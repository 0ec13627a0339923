package tool

import "github.com/capstan-dev/capstan/api/v1alpha1"

// Withheld reports whether a call of an HTTP tool waits for a Secret that a header needs.
func Withheld(call v1alpha1.ToolCall) bool {
	if call.Executor != v1alpha1.ToolExecutorHTTP || call.State != v1alpha1.ToolCallStatePending {
		return false
	}
	switch call.Reason {
	case v1alpha1.ReasonSecretMissing, v1alpha1.ReasonSecretKeyMissing, v1alpha1.ReasonRoleMissing:
		return true
	default:
		return false
	}
}
