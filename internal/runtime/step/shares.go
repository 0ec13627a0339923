package step

import (
	"context"
	"fmt"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/fairshare"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/plan"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

// CallBytes returns the memory that the next model call of the Turn takes, by the known size of the conversation.
func CallBytes(t turnstate.Turn, journal int64) int64 {
	if t.Step() == 1 {
		journal += t.SentBytes()
	}
	return fairshare.ConversationBytes(journal + t.ConfigBytes)
}

// conversation reads the conversation under the Share of the model call. It reaches to head, and further only if the
// call has waited.
func (run *Runner) conversation(ctx context.Context, t turnstate.Turn, head int64) (*journal.View, error) {
	read := func(ctx context.Context) (*journal.View, error) { return run.Log.ViewTo(ctx, t.Session, head) }
	return run.within(ctx, t.Session, read, func(bytes int64) int64 { return CallBytes(t, bytes) })
}

// within reads a conversation under the Share of an activity, which needs so much memory by the size of the journal. If
// it is larger than requested, it is dropped, and read to its end once there is room for it.
func (run *Runner) within(
	ctx context.Context, s journal.Session, read func(context.Context) (*journal.View, error),
	need func(journal int64) int64,
) (*journal.View, error) {
	share := fairshare.FromContext(ctx)
	toEnd := func(ctx context.Context) (*journal.View, error) { return run.Log.View(ctx, s, 0) }
	for ; ; read = toEnd {
		view, err := read(ctx)
		if err != nil {
			return nil, err
		}
		held := share.Amount()
		needed := need(view.Conversation)
		if share == nil || needed <= held.Bytes {
			return view, nil
		}
		held.Bytes = needed
		if err := share.Regain(ctx, held); err != nil {
			return nil, err
		}
	}
}

// RefuseTooLarge ends the Turn because its conversation needs more memory than its namespace may use. The images that
// its message names are recorded without their sizes, and so are never sent: otherwise one message would make the
// conversation too large for all later Turns.
func (run *Runner) RefuseTooLarge(
	ctx context.Context,
	t turnstate.Turn,
	cause *fairshare.TooLargeError,
) (*journal.Closed, error) {
	sentence := fmt.Sprintf("The conversation of Session %s is too large for this manager: its journal, "+
		"its images, the message, and the long prompts and Tools of its configuration exceed %d bytes in total. "+
		"Continue in a new Session, or raise --conversation-bytes of the manager.",
		t.Session.Name, fairshare.LargestConversation(cause.Ceiling.Bytes))
	t, err := run.recordable(ctx, t)
	if err != nil {
		return nil, err
	}
	return run.endAs(ctx, t, turnstate.Failed(plan.Failure{Code: v1alpha1.ErrorCodeRequestTooLarge}, sentence), nil)
}
