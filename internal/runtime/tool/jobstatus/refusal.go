package jobstatus

import (
	"strings"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
)

// quotaWords are the API server's text for an exhausted quota. It has no specific code for that.
const quotaWords = "exceeded quota"

// quotaUnknownWords are the API server's text for a new quota whose usage was not counted yet.
const quotaUnknownWords = "status unknown for quota"

// RefusedForNow reports whether a request that the API server has refused is worth an early retry.
func RefusedForNow(message string) bool {
	return strings.Contains(message, quotaUnknownWords)
}

// Refused is the outcome of a call if the API server does not accept its Job, or the pod of it. message is the API
// server's text.
func Refused(message string) tool.Outcome {
	// The Job controller's own text precedes that of the API server.
	why := strings.TrimPrefix(message, "Error creating: ")
	if strings.Contains(why, quotaWords) {
		return tool.NotExecuted(
			v1alpha1.ToolCallReasonQuotaExceeded,
			"a quota of the namespace is exhausted"+tool.Quoted(why),
		)
	}
	return tool.NotExecuted(v1alpha1.ToolCallReasonRefused, "the cluster rejected it"+tool.Quoted(why))
}
