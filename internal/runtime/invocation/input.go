package invocation

import (
	"context"
	"errors"
	"fmt"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

// keepInput appends what the tool has asked to the journal, before anything else knows it. If another process has
// recorded what the tool has asked in this round, that counts.
func (run *Runner) keepInput(
	ctx context.Context, t turnstate.Turn, call v1alpha1.ToolCall, state *Attempt, input tool.Input,
) (End, error) {
	end, err := run.Ask(ctx, t, call, state.line, input)
	if err == nil && end.Asked.Ordinal != 0 {
		state.forget()
	}
	return end, err
}

// Ask records in the journal what the tool of a call has asked. The End has where it is; an outcome if the tool may not
// ask; or the entry that has closed the step.
func (run *Runner) Ask(
	ctx context.Context, t turnstate.Turn, call v1alpha1.ToolCall, line *Line, input tool.Input,
) (End, error) {
	line.mu.Lock()
	defer line.mu.Unlock()
	asked := &journal.AskedInput{Round: tool.InputRound(call) + 1, State: input.State, Requests: input.Requests}
	if asked.Round > tool.MaxInputRounds {
		return End{Outcome: tool.NoMoreInput()}, nil
	}
	var err error
	if asked.Digest, err = tool.InputDigest(t.Ref.UID, t.Step(), call.ID, asked.Round, asked.Requests); err != nil {
		return End{}, err
	}
	ref, closed, err := run.Log.Settle(ctx, t.Session, t.Ref, t.Step(), t.Progress.Plan.OpenedAtOrdinal,
		journal.SettledCall{ID: call.ID, Asked: asked})
	switch {
	case errors.Is(err, journal.ErrFull):
		// The step cannot be closed either, and the Turn ends.
		return End{Outcome: tool.NoRoomForInput()}, nil
	case err != nil:
		return End{}, fmt.Errorf("recording what call %s asks: %w", call.ID, err)
	case closed != nil:
		return End{Closed: closed}, nil
	}
	return End{Asked: ref}, nil
}

// answers reads the answers that the next request of a call has; nil for its first request.
func (run *Runner) answers(ctx context.Context, t turnstate.Turn, call v1alpha1.ToolCall) (*tool.Answers, error) {
	round := tool.InputRound(call)
	if round == 0 {
		return nil, nil
	}
	refs, err := run.Log.Settled(ctx, t.Session, t.Ref.UID, t.Step(), t.Progress.Plan.OpenedAtOrdinal)
	if err != nil {
		return nil, fmt.Errorf("reading the answers for call %s: %w", call.ID, err)
	}
	var asked *journal.AskedInput
	given := &tool.Answers{Round: round}
	for _, ref := range refs {
		switch {
		case ref.Call.ID != call.ID:
		case ref.Call.Asked != nil && ref.Call.Asked.Round == round:
			asked, given.State = ref.Call.Asked, ref.Call.Asked.State
		case ref.Call.Answered != nil && ref.Call.Answered.Round == round:
			given.Answers = append(given.Answers, ref.Call.Answered.Answer)
		}
	}
	if asked != nil && tool.AsksForConnection(asked.Requests) && len(given.Answers) == 1 {
		// The call is sent again as it was.
		given.Answers = nil
		return given, nil
	}
	if asked == nil || len(given.Answers) != len(asked.Requests) {
		return nil, fmt.Errorf("%w: it lacks what call %s of step %d of Turn %s has asked, or answers to it",
			journal.ErrCorrupt, call.ID, t.Step(), t.Ref.Name)
	}
	return given, nil
}
