package host

import (
	"context"
	"fmt"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/fairshare"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/plan"
)

// CallBytes returns the memory that the next model call of the Turn takes, by the known size of the journal.
func (t Turn) CallBytes(journal int64) int64 {
	if t.step() == 1 {
		journal += max(t.MessageBytes, messageBytes(t.Input, t.Content))
	}
	return fairshare.ConversationBytes(journal + t.ConfigBytes)
}

func messageBytes(input string, content []event.Part) int64 {
	if content == nil {
		return int64(len(input))
	}
	n := int64(0)
	for _, part := range content {
		n += int64(len(part.Text) + len(part.Base64))
	}
	return n
}

// conversation reads the conversation under the Share of the model call. If it is larger than requested, it is dropped
// again until there is room for it.
func (h *Host) conversation(ctx context.Context, t Turn) (*journal.View, error) {
	share := fairshare.FromContext(ctx)
	for {
		view, err := h.Log.View(ctx, t.Session, t.Progress.Plan.OpenedAtOrdinal-1)
		if err != nil {
			return nil, err
		}
		held := share.Amount()
		needed := t.CallBytes(view.Bytes)
		if share == nil || needed <= held.Bytes {
			return view, nil
		}
		held.Bytes = needed
		if err := share.Regain(ctx, held); err != nil {
			return nil, err
		}
	}
}

// RefuseTooLarge ends the Turn because its conversation needs more memory than its namespace may use.
func (h *Host) RefuseTooLarge(ctx context.Context, t Turn, cause *fairshare.TooLargeError) (*journal.Closed, error) {
	sentence := fmt.Sprintf("The conversation of Session %s is too large for this manager: its journal, the "+
		"message, and the long prompts and Tools of its configuration exceed %d bytes in total. "+
		"Continue in a new Session, or raise --conversation-bytes of the manager.",
		t.Session.Name, fairshare.LargestConversation(cause.Ceiling.Bytes))
	return h.end(ctx, t, failed(plan.Failure{Code: v1alpha1.ErrorCodeRequestTooLarge}, sentence), nil)
}
