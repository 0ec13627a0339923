package host

import (
	"context"
	"errors"
	"fmt"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/act"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
)

// Keep appends a result or decision for a call of the open act step to the journal before the step is complete
// (CLIENT-04). It returns the closing entry if the step is closed, or if the Turn ends here because the journal has no
// room.
func (h *Host) Keep(
	ctx context.Context,
	t Turn,
	call journal.SettledCall,
	known *act.Step,
) (journal.SettledRef, *journal.Closed, error) {
	ref, closed, err := h.Log.Settle(ctx, t.Session, t.Ref, t.step(), t.Progress.Plan.OpenedAtOrdinal, call)
	if errors.Is(err, journal.ErrFull) {
		closed, err = h.full(ctx, t, known, err)
		return journal.SettledRef{}, closed, err
	}
	if err != nil {
		return journal.SettledRef{}, nil, fmt.Errorf("recording the client result of call %s: %w", call.ID, err)
	}
	return ref, closed, nil
}

// takeIn adds the results in the journal to the known results of the calls of an open act step; those of the journal
// take precedence. The ordinals are those of their entries.
func (h *Host) takeIn(ctx context.Context, t Turn, known *act.Step) (*act.Step, []int64, error) {
	if t.Progress.Plan.Phase != v1alpha1.PlanPhaseAct {
		return known, nil, nil
	}
	refs, err := h.Log.Settled(ctx, t.Session, t.Ref.UID, t.step(), t.Progress.Plan.OpenedAtOrdinal)
	if err != nil {
		return known, nil, fmt.Errorf("reading the results of step %d of Turn %s: %w", t.step(), t.Ref.Name, err)
	}
	parts := make([]int64, len(refs))
	for i, ref := range refs {
		parts[i] = ref.Ordinal
	}
	all := known.With(Recorded(refs))
	all.Local = t.Local
	return all, parts, nil
}

// Recorded returns the state of calls in the journal in the form of package act.
func Recorded(refs []journal.SettledRef) []act.Recorded {
	recorded := make([]act.Recorded, len(refs))
	for i, ref := range refs {
		recorded[i] = recordedAs(ref)
	}
	return recorded
}

func recordedAs(ref journal.SettledRef) act.Recorded {
	return act.Recorded{Ordinal: ref.Ordinal, Call: ref.Call}
}

// maxResultBytes is the length up to which the cache keeps the text of a ToolResult that was not accepted yet.
const maxResultBytes = 2 << 10

// LeaveOutResult drops a long text of a ToolResult. Caches that keep many ToolResults use it, and read the text later.
func LeaveOutResult(result *v1alpha1.ToolResult) {
	for _, text := range []**string{&result.Spec.Result, &result.Spec.Error} {
		if *text != nil && len(**text) > maxResultBytes {
			*text = nil
		}
	}
}

// ResultLeftOut reports whether LeaveOutResult has dropped the text of the ToolResult. The API server accepts no
// ToolResult without one.
func ResultLeftOut(result *v1alpha1.ToolResult) bool {
	return result.Spec.Result == nil && result.Spec.Error == nil && result.Spec.Decision == ""
}

// SettledCallOf returns a ToolResult in the form of the journal.
func SettledCallOf(result *v1alpha1.ToolResult) journal.SettledCall {
	call := journal.SettledCall{
		ID:       result.Spec.CallID,
		Source:   result.UID,
		Error:    result.Spec.Error,
		Decision: result.Spec.Decision,
	}
	if call.Decision != "" {
		call.By = result.Spec.SubmittedBy
	}
	if text := result.Spec.Result; text != nil {
		// Truncated here, because the entry must hold it however it is encoded.
		kept := tool.CutResult(*text)
		call.Result = &kept
	}
	return call
}
