package step

import (
	"context"
	"errors"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/act"
	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/excerpt"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/plan"
	"github.com/capstan-dev/capstan/internal/runtime/subagent"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
	"github.com/capstan-dev/capstan/internal/runtime/tool/content"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

// Act closes the open act step with the results of its calls (PHASE-06), and with the messages that wait to go into the
// Turn. A failed tool is a normal result (TOOL-13).
func (run *Runner) Act(ctx context.Context, t turnstate.Turn, known *act.Step) (*journal.Closed, error) {
	steers, _, err := run.Pending(ctx, t)
	if err != nil {
		return nil, err
	}
	steers = readMessages(ctx, steers)
	known, closed, err := run.restore(ctx, t, known)
	if closed != nil || err != nil {
		return closed, err
	}
	known = known.Clone()
	known.Local = t.Local
	calls := t.Progress.ToolCalls
	for i := range calls {
		known.Show(&calls[i])
	}
	record := recordOf(t)
	record.Events = run.actEvents(t, known)
	record.Transition = plan.AfterAct(t.Progress)
	subagent.AddEnded(&record.Transition, calls)
	addPayments(record.Transition.Summary, calls, known)
	run.steer(t, &record, steers)
	record.Unclaimed, record.Parts = known.Unclaimed(calls, nil), known.Parts(calls)
	record.Events = run.storeImages(ctx, t, record.Events, passTimeout)
	closed, err = run.append(ctx, t, record)
	if errors.Is(err, journal.ErrFull) {
		return run.full(ctx, t, known, err)
	}
	return closed, err
}

// endCalls sets an outcome for every call of an open act step when the Turn ends. It returns the events of the calls,
// as Act does, the ids of the calls that it reports as never claimed, and the step with all outcomes; nil for another
// step.
func (run *Runner) endCalls(
	t turnstate.Turn, known *act.Step, claims []journal.ClaimRef,
) ([]event.Event, []string, *act.Step) {
	if t.Progress.Plan.Phase != v1alpha1.PlanPhaseAct {
		return nil, nil, nil
	}
	calls := t.Progress.ToolCalls
	all := known.End(calls, claims)
	return run.actEvents(t, all), all.Unclaimed(calls, claims), all
}

// actEvents returns the events of the tool calls: first the manager's own calls, then the connections that they have
// needed, then the results of clients (TOOL-11, TOOL-16, TOOL-17).
func (run *Runner) actEvents(t turnstate.Turn, known *act.Step) []event.Event {
	f := run.events(t).Step(t.Step(), 1)
	var server, client []v1alpha1.ToolCall
	for _, call := range t.Progress.ToolCalls {
		if call.Executor == v1alpha1.ToolExecutorClient {
			client = append(client, call)
		} else {
			server = append(server, call)
		}
	}
	known = known.Clone()
	for _, call := range known.Refused(t.Progress.ToolCalls) {
		server = append(server, v1alpha1.ToolCall{ID: call.ID, Name: excerpt.Of(call.Name, 64)})
		known.Row(call.ID).Outcome = &tool.Outcome{State: v1alpha1.ToolCallStateNotExecuted, Error: call.Refusal}
	}
	events := append(serverEvents(f, t, server, known), connectionEvents(f, t, server, known)...)
	return append(events, clientEvents(f, client, known)...)
}

// serverEvents returns the events of the manager's own calls.
func serverEvents(f event.Step, t turnstate.Turn, calls []v1alpha1.ToolCall, known *act.Step) []event.Event {
	if len(calls) == 0 {
		return nil
	}
	events := []event.Event{
		f.ActStarted(event.ActStarted{Iteration: t.Progress.Iteration, ToolCalls: summaries(calls)}),
	}
	failed := int32(0)
	for _, call := range calls {
		outcome, _ := known.Outcome(call.ID)
		if outcome.State != v1alpha1.ToolCallStateSucceeded {
			failed++
		}
		planned := known.Plan(call.ID)
		if outcome.Reason == v1alpha1.ToolCallReasonRateLimited {
			events = append(events, f.ToolRateLimited(event.ToolRateLimited{
				ToolCallID: call.ID, ToolName: call.Name, DisplayName: planned.Display, Error: outcome.Error,
			}))
			continue
		}
		events = append(events, subAgentEvents(f, call, outcome)...)
		if outcome.Started {
			events = append(events, atTime(f, outcome.StartedAt).ToolStarted(event.ToolStarted{
				ToolCall: eventCall(planned), Attempt: call.Attempt, DisplayName: planned.Display,
			}))
		}
		ended := atTime(f, outcome.FinishedAt).ToolCompleted(completed(call, planned.Display, outcome))
		ended = withSource(ended, known.Source(call.ID))
		if outcome.Image != "" {
			ended.Context[contextToolImage] = outcome.Image
		}
		events = append(events, ended)
	}
	return append(
		events,
		f.ActCompleted(event.ActCompleted{Completed: true, SuccessCount: int32(len(calls)) - failed, ErrorCount: failed}),
	)
}

// subAgentEvents returns the events of the sub-agent that a call ran as (SPAWN-05).
func subAgentEvents(f event.Step, call v1alpha1.ToolCall, outcome tool.Outcome) []event.Event {
	if call.SubAgent == nil {
		return nil
	}
	ended := event.TypeSubAgentFailed
	switch {
	case outcome.State == v1alpha1.ToolCallStateSucceeded:
		ended = event.TypeSubAgentCompleted
	case outcome.Reason == v1alpha1.ToolCallReasonSubAgentCancelled,
		outcome.Reason == v1alpha1.ToolCallReasonTurnEnded:
		ended = event.TypeSubAgentCancelled
	}
	data := event.SubAgent{
		ToolCallID: call.ID, ToolName: call.Name, Session: call.SubAgent.Name, SessionID: string(call.SubAgent.SessionUID),
		Turn: call.SubAgent.Name,
	}
	return []event.Event{
		atTime(f, outcome.StartedAt).SubAgent(event.TypeSubAgentSpawned, data),
		atTime(f, outcome.FinishedAt).SubAgent(ended, data),
	}
}

// maxRequestedDescription is the length of a tool's description in the request for its result, in bytes.
const maxRequestedDescription = 256

// requestedEvents returns the event that requests the results of client tools (TOOL-17). It is in the entry that plans
// the calls, so that clients read it before the Turn waits for them, and belongs to the run of the act step.
func (run *Runner) requestedEvents(
	t turnstate.Turn, c turnstate.Config, next v1alpha1.TurnProgress, planned []journal.PlannedCall,
) []event.Event {
	arguments := map[string]string{}
	for _, call := range planned {
		arguments[call.ID] = call.Arguments
	}
	var requested event.ToolCallRequested
	for _, call := range next.ToolCalls {
		if call.Executor != v1alpha1.ToolExecutorClient {
			continue
		}
		asked := event.RequestedCall{ID: call.ID, Name: call.Name, Arguments: arguments[call.ID]}
		if d := c.Tools.Find(call.Name); d != nil {
			description, _ := d.Offer()
			asked.Description = excerpt.Of(description, maxRequestedDescription)
			asked.DisplayName = d.DisplayName
			for _, hint := range d.Hints {
				asked.Hints = append(asked.Hints, string(hint))
			}
		}
		requested.ToolCalls = append(requested.ToolCalls, asked)
	}
	if len(requested.ToolCalls) == 0 {
		return nil
	}
	return []event.Event{run.events(t).Step(next.Plan.Step, 1).ToolCallRequested(requested)}
}

// clientEvents returns the events of the calls of client tools. A call without an answer has no completed event: the
// prompt is repaired instead (CLIENT-06).
func clientEvents(f event.Step, calls []v1alpha1.ToolCall, known *act.Step) []event.Event {
	var events []event.Event
	for _, call := range calls {
		outcome, _ := known.Outcome(call.ID)
		if act.HasNoClient(outcome) {
			continue
		}
		ended := f.ToolCompleted(completed(call, known.Plan(call.ID).Display, outcome))
		events = append(events, withSource(ended, known.Source(call.ID)))
	}
	return events
}

// withSource adds the source ToolResult to an event, if there is one.
func withSource(e event.Event, source types.UID) event.Event {
	if source != "" {
		e.Context[contextToolResult] = string(source)
	}
	return e
}

// completed is the end of a call as an event (TOOL-15). display is the name of its tool for people.
func completed(call v1alpha1.ToolCall, display string, outcome tool.Outcome) event.ToolCompleted {
	data := event.ToolCompleted{
		ToolCallID:  call.ID,
		ToolName:    call.Name,
		DisplayName: display,
		Success:     outcome.State == v1alpha1.ToolCallStateSucceeded,
		Status:      event.StatusSuccess,
		Error:       outcome.Error,
		Fingerprint: call.Fingerprint,
		Hooks:       outcome.Hooks,
		Original:    outcome.Original,
		Payment:     outcome.Payment,
	}
	switch {
	case outcome.State == v1alpha1.ToolCallStateUnknown:
		data.Status = event.StatusInterrupted
	case outcome.Reason == v1alpha1.ToolCallReasonTimeout:
		data.Status = event.StatusTimeout
	case !data.Success:
		data.Status = event.StatusError
	}
	if outcome.Result != nil {
		data.Result = content.Parts(*outcome.Result)
	}
	if !outcome.StartedAt.IsZero() && !outcome.FinishedAt.IsZero() {
		ms := max(outcome.FinishedAt.Sub(outcome.StartedAt).Milliseconds(), 0)
		data.DurationMS = &ms
	}
	return data
}

func summaries(calls []v1alpha1.ToolCall) []event.CallSummary {
	names := make([]event.CallSummary, len(calls))
	for i, call := range calls {
		names[i] = event.CallSummary{ID: call.ID, Name: call.Name}
	}
	return names
}

func eventCall(p journal.PlannedCall) event.ToolCall {
	return event.ToolCall{ID: p.ID, ProviderID: p.ProviderID, Name: p.Name, Arguments: p.Arguments}
}

// atTime builds events of a time, or of the present when the time is not known.
func atTime(f event.Step, t time.Time) event.Step {
	if t.IsZero() {
		return f
	}
	return f.At(t)
}

// micro is the present as status carries it.
func (run *Runner) micro() metav1.MicroTime {
	return metav1.NewMicroTime(run.Clock())
}
