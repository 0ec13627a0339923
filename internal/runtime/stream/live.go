package stream

import (
	"encoding/json"
	"fmt"
	"time"

	stream "github.com/capstan-dev/capstan/api/stream/v1alpha1"
	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
)

// Live returns a live event. The data is that of its type in api/stream.
func Live(s journal.Session, turn *stream.Turn, kind string, at time.Time, data any) stream.Event {
	return stream.Event{
		Type: kind, Live: true, Time: event.MicroTime(at), Session: sessionOf(s), Turn: turn, Data: encode(data),
	}
}

// Progress returns the live event of the progress of a tool call (CTX-03).
func Progress(s journal.Session, turn stream.Turn, e event.Event) (stream.Event, error) {
	data, err := as[stream.ToolProgress](e.Data.Raw)
	if err != nil {
		return stream.Event{}, fmt.Errorf("reading the progress of a tool call: %w", err)
	}
	return stream.Event{
		Type: stream.TypeToolProgress, Live: true, Time: e.Time, Session: sessionOf(s), Turn: &turn, Context: e.Context,
		Data: data,
	}, nil
}

// Output returns the live event of a piece of output of a running tool call (CTX-04). The context is that of the call.
func Output(
	s journal.Session, turn stream.Turn, context map[string]string, at time.Time, data stream.ToolOutputDelta,
) stream.Event {
	e := Live(s, &turn, stream.TypeToolOutputDelta, at, data)
	e.Context = context
	return e
}

// State returns what turn.state shows of a Turn.
func State(t *v1alpha1.Turn) stream.TurnState {
	state := stream.TurnState{Phase: t.Status.Phase}
	if t.Status.Plan != nil {
		state.Step = t.Status.Plan.Step
	}
	for _, w := range t.Status.WaitsFor {
		state.Waits = append(state.Waits, stream.TurnWait{
			Type: w.Type, Reason: w.Reason, Message: w.Message, Until: w.Until,
		})
	}
	for _, c := range t.Status.ToolCalls {
		state.ToolCalls = append(state.ToolCalls, stream.ToolCallState{
			ID: c.ID, Name: c.Name, State: c.State, Reason: c.Reason, Attempt: c.Attempt,
		})
	}
	return state
}

// WaitingCall returns a call that waits for approval, without its arguments.
func WaitingCall(t *v1alpha1.Turn, c *v1alpha1.ToolCall) stream.WaitingCall {
	return stream.WaitingCall{
		Turn: stream.Turn{Name: t.Name, UID: t.UID}, TurnSubmittedBy: t.Spec.SubmittedBy,
		TurnSteeredBy: t.Status.SteeredBy, ID: c.ID, CallDigest: c.CallDigest,
		Name: c.Name, Executor: c.Executor, SideEffect: c.SideEffect, Hints: c.Hints, ApproveBy: c.ApproveBy,
	}
}

// encode is for the types of api/stream, which always have a JSON form.
func encode(data any) json.RawMessage {
	raw, err := json.Marshal(data)
	if err != nil {
		panic(fmt.Sprintf("encoding %T: %v", data, err))
	}
	return raw
}
