package tool

import (
	"strings"
)

// quotaWords are what the API server says when a quota has no room. It has no code of its own for that.
const quotaWords = "exceeded quota"

// quotaUnknownWords are what the API server says of a quota that is so new that nobody has counted what it limits.
const quotaUnknownWords = "status unknown for quota"

// RefusedForNow reports whether what the API server has refused is worth another try in a moment.
func RefusedForNow(message string) bool {
	return strings.Contains(message, quotaUnknownWords)
}

// Refused is the outcome of a call whose Job, or the pod of it, the API server does not accept. message is what it
// says.
func Refused(message string) Outcome {
	// The Job controller's own words come before those of the API server.
	why := strings.TrimPrefix(message, "Error creating: ")
	if strings.Contains(why, quotaWords) {
		return notExecuted(ReasonQuotaExceeded, "a quota of the namespace has no room for it"+quoted(why))
	}
	return notExecuted(ReasonRefused, "the cluster refused to start it"+quoted(why))
}
