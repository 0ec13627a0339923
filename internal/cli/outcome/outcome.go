package outcome

import (
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// Exit codes.
const (
	Done        = 0
	Failure     = 1
	TurnFailed  = 2
	Cancelled   = 3
	TimedOut    = 4
	Incomplete  = 5
	Interrupted = 130
)

// codes explains the exit codes, in their order.
var codes = []struct {
	code    int
	meaning string
}{
	{Done, "done; with ask, chat and watch of a Turn: the Turn has its response"},
	{Failure, "the command failed, or doctor has found something wrong"},
	{TurnFailed, "the Turn failed"},
	{Cancelled, "the Turn was cancelled"},
	{TimedOut, "the time of --timeout has passed; the Turn goes on"},
	{Incomplete, "the Turn ended without a whole response: at a limit of tokens or of model calls, or the model refused"},
	{Interrupted, "interrupted by Ctrl-C; the Turn goes on"},
}

// Table lists the exit codes for a help text.
func Table() string {
	lines := []string{"Exit codes:"}
	for _, c := range codes {
		lines = append(lines, fmt.Sprintf("  %-4d %s", c.code, c.meaning))
	}
	return strings.Join(lines, "\n")
}

// Error ends the program with a code.
type Error struct {
	Code int
	// Message for the user; empty if everything was said.
	Message string
}

// Error implements error.
func (e *Error) Error() string {
	return fmt.Sprintf("exit code %d: %s", e.Code, e.Message)
}

// Of returns the error of a Turn that has ended; nil if it has its response.
func Of(turn *v1alpha1.Turn) error {
	reason, message := succeeded(turn)
	switch turn.Status.Phase {
	case v1alpha1.TurnPhaseFailed:
		return &Error{TurnFailed, fmt.Sprintf("Turn %s failed: %s: %s", turn.Name, reason, message)}
	case v1alpha1.TurnPhaseCancelled:
		return &Error{Cancelled, fmt.Sprintf("Turn %s was cancelled.", turn.Name)}
	default:
	}
	switch v1alpha1.StopReason(reason) {
	case v1alpha1.StopReasonMaxTokens, v1alpha1.StopReasonMaxTurnRequests, v1alpha1.StopReasonRefusal:
		return &Error{Incomplete, fmt.Sprintf("Turn %s: %s: %s", turn.Name, reason, message)}
	default:
		return nil
	}
}

func succeeded(turn *v1alpha1.Turn) (reason, message string) {
	for i := range turn.Status.Conditions {
		if c := &turn.Status.Conditions[i]; c.Type == v1alpha1.ConditionSucceeded && c.Status != metav1.ConditionUnknown {
			return c.Reason, c.Message
		}
	}
	return "", ""
}
