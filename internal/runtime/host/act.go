package host

import (
	"context"
	"errors"
	"maps"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/plan"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
)

// ActResults are the known results of the calls of an act step.
type ActResults struct {
	// Outcomes by call id; every call of the step has one.
	Outcomes map[string]tool.Outcome
	// Settled are the results of client tools and the decisions in the journal, by call id.
	Settled map[string]journal.SettledRef
	// Kept are the outcomes in the journal of calls that the manager carried out, by call id.
	Kept map[string]journal.SettledRef
	// Dropped are the calls, by id, of whose texts only the start is in Outcomes, because the journal has them.
	Dropped map[string]bool
	// Sources are the UIDs of the ToolResults with the results of client tools and the decisions, by call id.
	Sources map[string]types.UID
	// Planned is the bulk of the calls, by call id.
	Planned map[string]journal.PlannedCall
	// short leaves out the results, including those in the journal.
	short bool
}

// Act closes the open act step with the results of its calls (PHASE-06), and with the messages that wait to go into the
// Turn. A failed tool is a normal result (TOOL-13).
func (h *Host) Act(ctx context.Context, t Turn, results ActResults) (*journal.Closed, error) {
	steers, _, err := h.Pending(ctx, t)
	if err != nil {
		return nil, err
	}
	steers = read(ctx, steers)
	results, closed, err := h.restore(ctx, t, results)
	if closed != nil || err != nil {
		return closed, err
	}
	for i := range t.Progress.ToolCalls {
		results.showKept(&t.Progress.ToolCalls[i])
	}
	record := t.record()
	record.Events = h.actEvents(t, results)
	record.Transition = plan.AfterAct(t.Progress)
	h.steer(t, &record, steers)
	record.Unclaimed = unclaimed(t, results.Outcomes, results.Kept, nil)
	for _, call := range t.Progress.ToolCalls {
		for _, known := range []map[string]journal.SettledRef{results.Settled, results.Kept} {
			if ref, ok := known[call.ID]; ok {
				record.Parts = append(record.Parts, ref.Ordinal)
			}
		}
	}
	closed, err = h.append(ctx, t, record)
	if errors.Is(err, journal.ErrFull) {
		return h.full(ctx, t, results, err)
	}
	return closed, err
}

// endCalls sets an outcome for every call of an open act step when the Turn ends: the known one, or a conclusion
// without one. It returns the events of the calls, as Act does, and the ids of the calls that it reports as never
// claimed.
func (h *Host) endCalls(
	t Turn,
	known ActResults,
	claims map[string]journal.ClaimRef,
) ([]event.Event, []string) {
	if t.Progress.Plan.Phase != v1alpha1.PlanPhaseAct {
		return nil, nil
	}
	all := known
	all.Outcomes = map[string]tool.Outcome{}
	for i := range t.Progress.ToolCalls {
		call := &t.Progress.ToolCalls[i]
		outcome, ok := known.Outcomes[call.ID]
		switch {
		case known.Kept[call.ID].Ordinal != 0:
		case approvedElsewhere(*call, known) && t.claimable(*call):
			outcome = t.endedHere(*call, claims)
		case approvedElsewhere(*call, known), ok && t.unwithdrawn(*call, outcome):
			outcome = mayHaveRun()
		case !ok:
			outcome = t.endedWith(*call, claims)
		}
		all.Outcomes[call.ID] = outcome
		all.showKept(call)
	}
	return h.actEvents(t, all), unclaimed(t, all.Outcomes, known.Kept, claims)
}

// endedWith returns the outcome of a call that had none when the Turn ended. A call of a Job is only known not to have
// been executed if status has its withdrawal: this process may be behind another one that has let its pod start.
func (t Turn) endedWith(call v1alpha1.ToolCall, claims map[string]journal.ClaimRef) tool.Outcome {
	switch {
	case t.inProcess(call) && !tool.Unapproved(call):
		return t.endedHere(call, claims)
	case call.State.Settled():
		return tool.Recalled(call)
	case tool.Unapproved(call):
		return neverStarted()
	case call.Executor == v1alpha1.ToolExecutorClient:
		return noClientResult()
	case call.Executor != v1alpha1.ToolExecutorJob:
		return neverStarted()
	default:
		return mayHaveRun()
	}
}

// unwithdrawn reports whether an outcome is NotExecuted although another process may still let the pod of the call
// start.
func (t Turn) unwithdrawn(call v1alpha1.ToolCall, outcome tool.Outcome) bool {
	return !t.inProcess(call) && outcome.State == v1alpha1.ToolCallStateNotExecuted && tool.Withdrawable(call) &&
		!tool.Withdrawn(call)
}

// Withdraw marks in the Turn's progress those calls as not executed whose pods start only once they are recorded there,
// and are not. That must be written to status under optimistic lock before an entry may state it. Outcomes other than
// NotExecuted stand.
func Withdraw(p *v1alpha1.TurnProgress, known map[string]tool.Outcome) {
	for i := range p.ToolCalls {
		call := &p.ToolCalls[i]
		outcome, ok := known[call.ID]
		if !ok {
			outcome = neverStarted()
		}
		if tool.Withdrawable(*call) && !tool.Withdrawn(*call) && outcome.State == v1alpha1.ToolCallStateNotExecuted {
			Describe(call, outcome)
		}
	}
}

func neverStarted() tool.Outcome {
	return tool.Outcome{
		State:  v1alpha1.ToolCallStateNotExecuted,
		Reason: v1alpha1.ToolCallReasonTurnEnded,
		Error:  tool.NotExecuted("the turn ended first"),
	}
}

// noClientResult is the outcome of a client call without a result. The manager does not know what the client has done.
func noClientResult() tool.Outcome {
	return tool.Outcome{
		State: v1alpha1.ToolCallStateNotExecuted, Reason: v1alpha1.ToolCallReasonTurnEnded,
		Error: "The client gave no result before the turn ended.",
	}
}

func mayHaveRun() tool.Outcome {
	return tool.Outcome{
		State:  v1alpha1.ToolCallStateUnknown,
		Reason: v1alpha1.ToolCallReasonTurnEnded,
		Error:  tool.OutcomeUnknown("the turn ended while it may have been running"),
	}
}

// brief leaves out the results, for an entry that must fit where they did not.
func (r ActResults) brief() ActResults {
	short := ActResults{
		Outcomes: map[string]tool.Outcome{}, Settled: r.Settled, Kept: r.Kept, Sources: r.Sources,
		short: true,
	}
	for id, outcome := range r.Outcomes {
		short.Outcomes[id] = shortened(outcome)
	}
	return short
}

// Waits reports whether the Turn waits for client tools (TURN-11, GAP-06).
func Waits(t Turn) bool {
	return plan.Waits(t.ClientTools, t.Hints)
}

// actEvents returns the events of the tool calls: first the manager's own calls, then the results of clients (TOOL-11,
// TOOL-17).
func (h *Host) actEvents(t Turn, results ActResults) []event.Event {
	f := h.events(t).Step(t.step(), 1)
	var server, client []v1alpha1.ToolCall
	for _, call := range t.Progress.ToolCalls {
		if call.Executor == v1alpha1.ToolExecutorClient {
			client = append(client, call)
		} else {
			server = append(server, call)
		}
	}
	results.Outcomes = maps.Clone(results.Outcomes)
	for _, call := range refused(t, results.Planned) {
		server = append(server, v1alpha1.ToolCall{ID: call.ID, Name: cut(call.Name, 64)})
		results.Outcomes[call.ID] = tool.Outcome{State: v1alpha1.ToolCallStateNotExecuted, Error: call.Refusal}
	}
	return append(serverEvents(f, t, server, results), clientEvents(f, client, results)...)
}

// serverEvents returns the events of the manager's own calls.
func serverEvents(f event.Step, t Turn, calls []v1alpha1.ToolCall, results ActResults) []event.Event {
	if len(calls) == 0 {
		return nil
	}
	events := []event.Event{
		f.ActStarted(event.ActStarted{Iteration: t.Progress.Iteration, ToolCalls: summaries(calls)}),
	}
	failed := int32(0)
	for _, call := range calls {
		outcome := results.Outcomes[call.ID]
		if outcome.State != v1alpha1.ToolCallStateSucceeded {
			failed++
		}
		if outcome.Started {
			events = append(
				events,
				at(
					f,
					outcome.StartedAt,
				).ToolStarted(event.ToolStarted{ToolCall: eventCall(results.Planned[call.ID]), Attempt: call.Attempt}),
			)
		}
		ended := from(at(f, outcome.FinishedAt).ToolCompleted(completed(call, outcome)), results.Sources[call.ID])
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

// requestedEvents returns the event that requests the results of client tools (TOOL-17). It is in the entry that plans
// the calls, so that clients read it before the Turn waits for them, and belongs to the run of the act step.
func (h *Host) requestedEvents(t Turn, next v1alpha1.TurnProgress, planned []journal.PlannedCall) []event.Event {
	arguments := map[string]string{}
	for _, call := range planned {
		arguments[call.ID] = call.Arguments
	}
	var requested event.ToolCallRequested
	for _, call := range next.ToolCalls {
		if call.Executor == v1alpha1.ToolExecutorClient {
			requested.ToolCalls = append(requested.ToolCalls,
				event.RequestedCall{ID: call.ID, Name: call.Name, Arguments: arguments[call.ID]})
		}
	}
	if len(requested.ToolCalls) == 0 {
		return nil
	}
	return []event.Event{h.events(t).Step(next.Plan.Step, 1).ToolCallRequested(requested)}
}

// clientEvents returns the events of the calls of client tools. A call without an answer has no completed event: the
// prompt is repaired instead (CLIENT-06).
func clientEvents(f event.Step, calls []v1alpha1.ToolCall, results ActResults) []event.Event {
	var events []event.Event
	for _, call := range calls {
		outcome := results.Outcomes[call.ID]
		if outcome.Reason == v1alpha1.ToolCallReasonNoClient {
			continue
		}
		events = append(events, from(f.ToolCompleted(completed(call, outcome)), results.Sources[call.ID]))
	}
	return events
}

// from adds the source ToolResult to an event, if there is one.
func from(e event.Event, source types.UID) event.Event {
	if source != "" {
		e.Context[contextToolResult] = string(source)
	}
	return e
}

// completed is the end of a call as an event (TOOL-15).
func completed(call v1alpha1.ToolCall, outcome tool.Outcome) event.ToolCompleted {
	data := event.ToolCompleted{
		ToolCallID:  call.ID,
		ToolName:    call.Name,
		Success:     outcome.State == v1alpha1.ToolCallStateSucceeded,
		Status:      event.StatusSuccess,
		Error:       outcome.Error,
		Fingerprint: call.Fingerprint,
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
		data.Result = []event.Part{event.Text(*outcome.Result)}
	}
	if !outcome.StartedAt.IsZero() && !outcome.FinishedAt.IsZero() {
		ms := max(outcome.FinishedAt.Sub(outcome.StartedAt).Milliseconds(), 0)
		data.DurationMS = &ms
	}
	return data
}

// ClientOutcome returns the outcome of a call with a client's result.
func ClientOutcome(call journal.SettledCall) tool.Outcome {
	if call.Error != nil {
		return tool.Outcome{
			State:  v1alpha1.ToolCallStateFailed,
			Reason: v1alpha1.ToolCallReasonClientError,
			Error:  *call.Error,
		}
	}
	text := ""
	if call.Result != nil {
		text = *call.Result
	}
	return tool.Outcome{State: v1alpha1.ToolCallStateSucceeded, Reason: v1alpha1.ToolCallReasonClientResult, Result: &text}
}

// FromStatus returns the outcome of a call for which no process waits any more, from status alone.
func FromStatus(call v1alpha1.ToolCall) (tool.Outcome, bool) {
	switch {
	case WasGivenUp(call):
		return GivenUp(call), true
	case call.State == v1alpha1.ToolCallStateNotExecuted && call.Reason == v1alpha1.ToolCallReasonNoClient:
		return NoClient(), true
	default:
		return tool.Outcome{}, false
	}
}

// NoClient is the outcome of a client call that no client answers.
func NoClient() tool.Outcome {
	return tool.Outcome{
		State:  v1alpha1.ToolCallStateNotExecuted,
		Reason: v1alpha1.ToolCallReasonNoClient,
		Error:  event.SentenceNotExecuted,
	}
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

// at builds events of a time, or of the present when the time is not known.
func at(f event.Step, t time.Time) event.Step {
	if t.IsZero() {
		return f
	}
	return f.At(t)
}

// DeterminismViolation is an error about a Job with the call's name that differs from the plan (DUR-05).
func DeterminismViolation(call v1alpha1.ToolCall, job string) plan.Failure {
	return plan.Failure{
		Code:   v1alpha1.ErrorCodeProcessingError,
		Fields: map[string]string{"call": call.ID, "job": job, "violation": "determinism"},
	}
}

// micro is the present as status carries it.
func (h *Host) micro() metav1.MicroTime {
	return metav1.NewMicroTime(h.Clock())
}
