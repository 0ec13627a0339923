package host

import (
	"context"
	"errors"
	"fmt"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
)

// Keep puts what others gave for a call of the open act step into the log before the step is complete (CLIENT-04). Of a step that is closed, or
// whose Turn ends here because the log has no room, it gives the closing.
func (h *Host) Keep(ctx context.Context, t Turn, call v1alpha1.SettledCall, known ActResults) (journal.SettledRef, *journal.Closed, error) {
	ref, closed, err := h.Log.Settle(ctx, t.Session, t.Ref, t.step(), t.Progress.Plan.OpenedAt, call)
	if errors.Is(err, journal.ErrFull) {
		closed, err = h.full(ctx, t, known, err)
		return journal.SettledRef{}, closed, err
	}
	if err != nil {
		return journal.SettledRef{}, nil, fmt.Errorf("keeping what was given for call %s: %w", call.ID, err)
	}
	return ref, closed, nil
}

// decisions are what others gave for the calls of the open act step that is in the log, by call id: results of client tools and decisions.
func (h *Host) decisions(ctx context.Context, t Turn) (map[string]journal.SettledRef, error) {
	refs, err := h.Log.Settled(ctx, t.Session, t.Ref.UID, t.step(), t.Progress.Plan.OpenedAt)
	if err != nil {
		return nil, fmt.Errorf("reading what the log has of step %d of Turn %s: %w", t.step(), t.Ref.Name, err)
	}
	settled := make(map[string]journal.SettledRef, len(refs))
	for _, ref := range refs {
		if GivenByOthers(ref.Call) {
			settled[ref.Call.ID] = ref
		}
	}
	return settled, nil
}

// approvals are the ordinals of the approvals that are known to be in the log. Even the end of a Turn has to take them in: who put them there may
// have started the calls.
func approvals(known ActResults) []int64 {
	var parts []int64
	for _, ref := range known.Settled {
		if ref.Call.Decision == v1alpha1.DecisionApprove {
			parts = append(parts, ref.Ordinal)
		}
	}
	return parts
}

// approvedElsewhere says that the log has an approval of a call that the status does not show: another process may have started it.
func approvedElsewhere(call v1alpha1.ToolCall, known ActResults) bool {
	return tool.Unapproved(call) && known.Settled[call.ID].Call.Decision == v1alpha1.DecisionApprove
}

// GivenByOthers says that a settled call was answered by a client or decided about, and not carried out by the manager.
func GivenByOthers(call v1alpha1.SettledCall) bool {
	return call.State == ""
}

// SettledCallOf is a ToolResult as the log keeps it.
func SettledCallOf(result *v1alpha1.ToolResult) v1alpha1.SettledCall {
	call := v1alpha1.SettledCall{ID: result.Spec.CallID, Source: result.UID, Error: result.Spec.Error, Decision: result.Spec.Decision}
	if call.Decision != "" {
		call.By = result.Spec.SubmittedBy
	}
	if text := result.Spec.Result; text != nil {
		// Cut here, because what the log keeps must fit into one entry however it is encoded.
		kept := tool.CutResult(*text)
		call.Result = &kept
	}
	return call
}
