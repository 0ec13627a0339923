package act

import (
	"fmt"
	"slices"
	"time"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
	"github.com/capstan-dev/capstan/internal/runtime/tool/executors"
)

// MissingSecret is the error of a call that waits for a Secret, such as that of a header. Nothing of the call was
// claimed or sent.
type MissingSecret struct {
	// Tool is the name of the Tool.
	Tool string
	// Reason and Problem name the missing reference and the remedy.
	Reason, Problem string
}

// Error implements error.
func (w *MissingSecret) Error() string {
	return fmt.Sprintf("Tool %q cannot be called (%s). %s", w.Tool, w.Reason, w.Problem)
}

const (
	// firstSecretCheck is the pause before a missing Secret is looked for again. Each further pause is twice as long.
	firstSecretCheck = 5 * time.Second
	// lastSecretCheck bounds the pauses.
	lastSecretCheck = 5 * time.Minute
)

// Withhold keeps a call back for which a Secret is missing, and shows that in its status. It returns when to look
// again, if the process is not notified of new Secrets.
func (s *Step) Withhold(call *v1alpha1.ToolCall, missing *MissingSecret, now time.Time) time.Time {
	row := s.Row(call.ID)
	row.MissingSecret, row.secretCheckPause = missing, min(max(2*row.secretCheckPause, firstSecretCheck), lastSecretCheck)
	row.secretCheckAt = now.Add(row.secretCheckPause)
	call.State, call.Reason = v1alpha1.ToolCallStatePending, missing.Reason
	call.Preview = tool.ShownPreview(missing.Problem)
	return row.secretCheckAt
}

// Release lets a call start whose Secrets exist.
func (s *Step) Release(call *v1alpha1.ToolCall) {
	row := s.Row(call.ID)
	row.MissingSecret, row.secretCheckAt, row.secretCheckPause = nil, time.Time{}, 0
	call.Reason, call.Preview = "", ""
}

// Missing returns the missing references that calls wait for, in the order of the calls.
func (s *Step) Missing(calls []v1alpha1.ToolCall) []*MissingSecret {
	var missing []*MissingSecret
	for _, call := range calls {
		if w := s.copyOf(call.ID).MissingSecret; w != nil && awaitsSecret(call) {
			missing = append(missing, w)
		}
	}
	return missing
}

// WaitsForOthers reports whether the step only waits for ToolResults, Secrets and sub-agents: there are calls without
// an outcome, and each is a client's, runs as a sub-agent, waits for approval, an answer or a Secret, or is held back
// behind one that does. Client calls count only if the Turn waits for clients; approvals always do (GAP-06).
func (s *Step) WaitsForOthers(
	calls []v1alpha1.ToolCall, clients bool, concurrency v1alpha1.ToolConcurrency,
) bool {
	held, due := heldBack(calls, concurrency), chosen(calls, concurrency, MaxConcurrency)
	missing := false
	for i, call := range calls {
		if s.Done(call.ID) || call.State.Settled() {
			continue
		}
		switch {
		case held[i], runsAsSubAgent(call):
			missing = true
		case open(&call) && !running(&call) && !slices.Contains(due, i):
			// It waits for a running call, which counts itself.
			missing = true
		case call.Executor != v1alpha1.ToolExecutorClient:
			return false
		case clients:
			missing = true
		}
	}
	return missing
}

// runsAsSubAgent reports whether the sub-agent of a call runs: the Turn that made the call has nothing to do meanwhile.
func runsAsSubAgent(call v1alpha1.ToolCall) bool {
	return call.Executor == v1alpha1.ToolExecutorAgent && running(&call)
}

// awaitsSecret reports whether a call that the process carries out waits for a Secret.
func awaitsSecret(call v1alpha1.ToolCall) bool {
	if !executors.InProcess(call.Executor) || call.State != v1alpha1.ToolCallStatePending {
		return false
	}
	switch call.Reason {
	case v1alpha1.ReasonSecretMissing, v1alpha1.ReasonSecretKeyMissing, v1alpha1.ReasonRoleMissing,
		v1alpha1.ReasonToolsNotDiscovered, v1alpha1.ReasonIdentityUnavailable, v1alpha1.ReasonConnectionUnavailable:
		return true
	default:
		return false
	}
}
