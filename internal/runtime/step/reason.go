package step

import (
	"cmp"
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/excerpt"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/runtime/modelcall"
	"github.com/capstan-dev/capstan/internal/runtime/plan"
	"github.com/capstan-dev/capstan/internal/runtime/prompt"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

// Reason runs the open reason step: it checks the journal for an entry that closes the step, calls the model, and
// appends the result (PHASE-04). A failure of the model is an outcome like any other (LLM-03); after an error nothing
// was decided and the step must be run again. An UndeliveredResponse error has a response: call Deliver instead. After
// a Backoff, call ReasonAfter when its time has come; after a RateLimited, when there may be room; after a MissingKey,
// call Reason when its Model may have an API key.
func (run *Runner) Reason(ctx context.Context, t turnstate.Turn, c turnstate.Config) (*journal.Closed, error) {
	return run.ReasonAfter(ctx, t, c, nil)
}

// ReasonAfter runs the open reason step again as Reason does, after a Backoff that it has returned; nil for none.
func (run *Runner) ReasonAfter(
	ctx context.Context,
	t turnstate.Turn,
	c turnstate.Config,
	earlier *Backoff,
) (*journal.Closed, error) {
	closed, open, err := run.Log.Resume(ctx, t.Session, t.Ref, t.Step(), t.Progress.Plan.OpenedAtOrdinal)
	if err != nil || closed != nil {
		return closed, err
	}
	kept := open.Partial
	if c.Blocker != nil {
		return run.Block(ctx, t, c.Blocker, nil)
	}
	storeFirst := t.StoreFirst && c.Model != nil && recovered(c, kept) == nil &&
		(kept == nil || kept.Holder != run.holder())
	if kept, err = run.own(ctx, t, kept); err != nil {
		return nil, err
	}
	view, err := run.conversation(ctx, t, open.Head)
	if err != nil {
		return nil, fmt.Errorf("reading the conversation: %w", err)
	}
	if opened := t.Progress.Plan.OpenedAtOrdinal; view.Head < opened-1 {
		// A response could not be appended: no money is spent on one.
		return nil, journal.EndsTooEarly(t.Session, t.Ref, t.Step(), opened, view.Head)
	}
	if t, view, err = run.firstMessage(ctx, t, view, open.Head); err != nil {
		return nil, err
	}
	if recovered(c, kept) == nil {
		if c, err = wholeConfig(ctx, c); err != nil {
			return nil, err
		}
	}
	if t.Prompt, closed, err = run.prompt(ctx, t, c, open.Prompt); err != nil || closed != nil {
		return closed, err
	}
	if open.Response != nil {
		return run.continueHooked(ctx, t, c, open.Response)
	}
	if storeFirst {
		closed, err := run.RecordDrop(ctx, t, &Dropped{message: event.NewID(), model: c.Model.Name})
		if err != nil || closed != nil {
			return closed, err
		}
	}
	g, err := run.generate(ctx, t, c, view, kept, earlier)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	if g.compacted != nil {
		return run.deliver(ctx, t, g.compacted, storeTimeout)
	}
	c = g.hold(c, view.Context)
	// They are large, and the response may be kept for a while.
	g.prompt, g.context, c = nil, prompt.Context{}, onlyCalled(c, g.calls())
	g.compacting.forget()
	compose := func(ctx context.Context, turns map[string]journal.RecordedTurn) journal.Record {
		// A message that cannot be read now waits for a later step: a response that was paid for must not be lost
		// because of it.
		waiting, _ := pendingMessages(ctx, t)
		return run.closeReason(t, c, g, readMessages(ctx, notInJournal(waiting, turns)))
	}
	undelivered := run.undelivered(ctx, t, compose(ctx, view.Turns), compose)
	if run.hooksMatch(ctx, c, undelivered.record) {
		if closed, err = run.hooked(ctx, t, c, undelivered); err != nil || closed != nil {
			return closed, err
		}
	}
	if m := g.answer().Model; m != nil && !g.finalized {
		// The id is a new one: the journal may have text of the response, as discarded.
		undelivered.dropped = &Dropped{message: event.NewID(), model: m.Name}
	}
	return run.deliver(ctx, t, undelivered, storeTimeout)
}

// firstMessage returns a Turn whose first step is open with its whole message, and the conversation before it, which
// reaches to head, under a Share with room for the images that the message names. A later step changes nothing.
func (run *Runner) firstMessage(
	ctx context.Context, t turnstate.Turn, view *journal.View, head int64,
) (turnstate.Turn, *journal.View, error) {
	if t.Step() != 1 {
		return t, view, nil
	}
	t, err := wholeMessage(ctx, t)
	if err != nil {
		return t, nil, err
	}
	requested := t.SentBytes()
	if t = run.describeImages(ctx, t, storeTimeout); t.SentBytes() > requested {
		if view, err = run.conversation(ctx, t, head); err != nil {
			return t, nil, fmt.Errorf("reading the conversation: %w", err)
		}
	}
	return t, view, nil
}

const (
	// firstRetry and lastRetry are the pauses between attempts to append a response.
	firstRetry = 100 * time.Millisecond
	lastRetry  = 15 * time.Second
)

// generation is one model call and its inputs.
type generation struct {
	prompt   []event.Message
	messages int32
	repairs  []event.TranscriptRepaired
	lastText string
	// called are the called Models, in order: the configured one, and then its fallbacks. At most the last one has
	// responded.
	called []modelcall.Result
	// kept is the recorded partial response of an earlier process; nil for none. finalized reports whether it is the
	// response.
	kept      *journal.Partial
	finalized bool
	// context is the part of the prompt beside the messages; pinned is its recorded form.
	context prompt.Context
	pinned  *journal.PinnedContext
	tools   int32
	// compacted closes the step instead of a response: the conversation was compacted. compacting is the compaction of the
	// conversation where that is configured, with what was tried of it.
	compacted  *UndeliveredResponse
	compacting *compacting
}

// answer returns the Model that determines the next step: the one that has responded, or, if none has, the configured
// one.
func (g generation) answer() modelcall.Result {
	if last := g.called[len(g.called)-1]; last.Err == nil {
		return last
	}
	return g.called[0]
}

// calls returns the tool calls of the response.
func (g generation) calls() []model.ToolCall {
	if response := g.answer().Response; response != nil {
		return response.ToolCalls
	}
	return nil
}

// generate composes the prompt and calls the model, unless an earlier process has recorded enough of a response.
func (run *Runner) generate(
	ctx context.Context,
	t turnstate.Turn,
	c turnstate.Config,
	view *journal.View,
	kept *journal.Partial,
	earlier *Backoff,
) (generation, error) {
	g := generation{kept: kept}
	messages := prompt.Sendable(view.Messages)
	if t.Step() == 1 {
		messages = append(messages, t.Message())
	}
	g.lastText = lastText(messages, t.MessageID())
	messages, g.repairs = prompt.Repair(messages)
	if m := recovered(c, kept); m != nil {
		g.called, g.finalized = []modelcall.Result{run.finalize(m, kept)}, true
		return g, nil
	}
	g.prompt, g.messages = event.Fenced(messages), int32(len(messages))
	var err error
	if g.context, err = run.contextOf(ctx, t, c, view, g.prompt); err != nil {
		return g, err
	}
	g.tools = int32(len(g.context.Tools))
	g.compacting = run.compactingFor(t, c, view, g.context)
	refused := earlier != nil && earlier.refused != nil
	if refused {
		g.called = earlier.refused
	} else if decision, due := g.compacting.due(); due && (earlier == nil || earlier.summary) {
		if g.compacted, err = run.compact(
			ctx,
			g.compacting,
			decision,
			resumed(t, earlier),
		); err != nil ||
			g.compacted != nil {
			return g, err
		}
		if earlier != nil {
			earlier = &Backoff{} // It was about the summary: the call with the prompt begins anew.
		}
	}
	if !refused {
		g.called, err = run.request(ctx, t, c, g, earlier)
	}
	if err != nil {
		return g, err
	}
	if decision, possible := g.compacting.refusedAs(g.called); possible {
		var waited *modelcall.Backoff
		if refused {
			waited = earlier.Backoff
		}
		g.compacted, err = run.compact(ctx, g.compacting, decision, waited)
	}
	return g, err
}

// request calls the model with the prompt.
func (run *Runner) request(
	ctx context.Context, t turnstate.Turn, c turnstate.Config, g generation, earlier *Backoff,
) ([]modelcall.Result, error) {
	return run.call(ctx, t, c, model.Request{
		SystemPrompt: g.context.SystemPrompt,
		Messages:     run.resolveImages(ctx, t.Session, g.prompt),
		Tools:        g.context.Tools,
		Locale:       t.Locale,
		Iteration:    max(t.Progress.Iteration, 1),
		TurnID:       string(t.Ref.UID),
		User:         prompt.User(t.Session.UID),
	}, earlier)
}

// closeReason calls the planner with the model's result and the number of waiting messages, and composes the entry that
// closes the step.
func (run *Runner) closeReason(
	t turnstate.Turn,
	c turnstate.Config,
	g generation,
	steers []turnstate.Steer,
) journal.Record {
	result := run.result(t, c, g)
	result.message.ID = t.ResponseID()
	now := run.Clock()
	if g.finalized {
		t.Progress.Recovered = v1alpha1.TurnRecoveryFinalized
	}
	if answer := g.answer(); answer.Err == nil {
		t.Progress.Model = answer.Model.Name
	}
	t.Progress.ModelNotFound = c.ModelNotFound
	record := recordOf(t)
	record.Events = append(run.opening(t), run.reasonEvents(t, g, result)...)
	at := metav1.NewMicroTime(now)
	if result.failure != nil {
		e := turnstate.Failed(*result.failure, result.text)
		record.Events = append(record.Events, run.failedEvents(t, e)...)
		record.Transition, record.Closing = e.Progress(t, at), true
		g.addCost(record.Transition.Summary)
		g.compacting.account(record.Transition.Summary)
		return record
	}
	record.Transition = plan.AfterReason(t.Progress, result.response, len(steers), c.Effective.MaxIterations)
	next := &record.Transition
	g.addFirstToken(next.Summary)
	switch next.Plan.Phase {
	case v1alpha1.PlanPhaseReason:
		run.steer(t, &record, steers)
	case v1alpha1.PlanPhaseAct:
		record.Calls, record.Context = result.planned, g.pinned
		record.Events = append(record.Events, run.requestedEvents(t, c, *next, result.planned)...)
		t.ShowWait(next, c.Effective.ToolConcurrency)
		next.Plan.Locale = t.Locale
	case v1alpha1.PlanPhaseComplete:
		text := cmp.Or(result.text, g.lastText)
		record.Events = append(record.Events, run.completedEvents(t, *next, result.message.ID, text, now)...)
		next.Summary.FinishedAt, next.Output = &at, excerpt.Encoded(text, turnstate.MaxOutputBytes)
	}
	g.addCost(record.Transition.Summary)
	g.compacting.account(record.Transition.Summary)
	return record
}

// reasoned is the result of a reason step (LLM-01).
type reasoned struct {
	// failure is why no model has responded; nil if one has.
	failure *plan.Failure
	// text of the response, or the sentence for the user about the failure.
	text string
	// message that the Session gets, and the provider's id of the response; it may be empty.
	message event.Message
	id      string
	// response determines the next step; planned are its calls, for the journal.
	response plan.Response
	planned  []journal.PlannedCall
	// usage is that of the model call; nil if it is unknown.
	usage *event.Usage
}

// result is the model call with its message and the planned calls.
func (run *Runner) result(t turnstate.Turn, c turnstate.Config, g generation) reasoned {
	answer := g.answer()
	if answer.Err != nil {
		failure := answer.Failure()
		text := failure.Sentence()
		message := event.NewErrorMessage(text, string(failure.Code), stringFields(failure.Fields))
		return reasoned{failure: &failure, text: text, message: message}
	}
	r := answer.Response
	planned, pinned := run.pin(t, c, r.ToolCalls)
	calls := make([]event.ToolCall, len(planned))
	for i, call := range planned {
		calls[i] = event.ToolCall{ID: call.ID, ProviderID: call.ProviderID, Name: call.Name, Arguments: call.Arguments}
	}
	result := reasoned{
		text: r.Text, message: answer.Message(calls), planned: planned,
		response: plan.Response{Calls: pinned, Planned: len(planned)},
	}
	if g.finalized {
		return result
	}
	result.id, result.response.FinishReason = r.ResponseID, r.FinishReason
	result.response.Usage = usageOf(r.Usage)
	result.usage = event.UsageOf(result.response.Usage)
	return result
}

// usageOf returns the tokens of a model call as the API counts them.
func usageOf(u model.Usage) v1alpha1.Usage {
	return v1alpha1.Usage{
		InputTokens: u.InputTokens, OutputTokens: u.OutputTokens, TotalTokens: u.InputTokens + u.OutputTokens,
	}
}

// reasonEvents returns the events of the model call, in the order of LLM-02.
func (run *Runner) reasonEvents(t turnstate.Turn, g generation, result reasoned) []event.Event {
	f := run.events(t).Step(t.Step(), 1)
	first, last := g.called[0], g.called[len(g.called)-1]
	began, ended := f.At(first.Began), f.At(last.Ended)
	iteration := max(t.Progress.Iteration, 1)
	events := []event.Event{
		began.ReasonStarted(
			event.ReasonStarted{Iteration: iteration, Harness: t.Harness, Agent: t.Agent, Model: model.Name(first.Model)},
		),
	}
	events = append(events, run.budgetEvents(t)...)
	if g.kept != nil && !g.finalized {
		events = append(events, began.ReasonRecovered(event.ReasonRecovered{Mode: event.RecoveredRestart}))
	}
	for _, repair := range g.repairs {
		events = append(events, began.TranscriptRepaired(repair))
	}
	events = append(
		events,
		began.OutputMessageStarted(
			event.OutputMessageStarted{MessageID: result.message.ID, Iteration: iteration, Model: model.Name(g.answer().Model)},
		),
	)
	if g.compacting != nil {
		events = append(events, g.compacting.generations(f, g.compacting.called)...)
	}
	if !g.finalized {
		for _, a := range g.called {
			events = append(events, f.At(a.Ended).LLMGeneration(generationOf(a, g, iteration)))
		}
	}
	completed := event.OutputMessageCompleted{
		Message: result.message, ResponseID: result.id, Usage: result.usage,
	}
	technical := ""
	if failure := result.failure; failure != nil {
		completed.ErrorCode, completed.ErrorFields = string(failure.Code), stringFields(failure.Fields)
		technical = g.answer().Err.Error()
	}
	duration := last.Ended.Sub(first.Began).Milliseconds()
	events = append(events, ended.OutputMessageCompleted(completed))
	if g.finalized {
		events = append(
			events,
			ended.ReasonRecovered(event.ReasonRecovered{Mode: event.RecoveredFinalize, Length: int64(len(g.kept.Text))}),
		)
	}
	return append(events,
		ended.ReasonCompleted(event.ReasonCompleted{
			Success:       result.failure == nil,
			TextPreview:   excerpt.Of(result.text, 200),
			HasToolCalls:  len(result.planned) > 0,
			ToolCallCount: int32(len(result.planned)),
			Error:         excerpt.Of(technical, turnstate.MaxMessageBytes),
			Usage:         completed.Usage,
			DurationMS:    &duration,

			TimeToFirstTokenMS: firstTokenMillis(g.answer()),
		}),
	)
}

// generationOf returns the event of one called Model.
func generationOf(a modelcall.Result, g generation, iteration int32) event.LLMGeneration {
	duration := a.Ended.Sub(a.Began).Milliseconds()
	call := event.LLMGeneration{
		Model:        model.Name(a.Model),
		Iteration:    iteration,
		MessageCount: g.messages,
		ToolCount:    g.tools,
		DurationMS:   &duration,
		Success:      a.Err == nil,
	}
	if a.Model != nil {
		call.Provider = string(a.Model.Spec.Provider)
	}
	if a.Tries > 1 {
		call.Tries = a.Tries
	}
	call.ReasoningDropped, call.ImagesDropped = a.ReasoningDropped, int32(len(a.ImagesLeftOut))
	if a.Err != nil {
		call.Error, call.ErrorCode = excerpt.Of(a.Err.Error(), turnstate.MaxMessageBytes), string(a.Failure().Code)
		return call
	}
	if a.Response.Model != "" {
		call.Model = excerpt.Of(a.Response.Model, 256)
	}
	call.TimeToFirstTokenMS = firstTokenMillis(a)
	call.ToolCallCount = int32(len(a.Response.ToolCalls))
	call.FinishReason, call.ResponseID = cmp.Or(a.Response.FinishWord, a.Response.FinishReason), a.Response.ResponseID
	call.Usage = event.UsageOf(usageOf(a.Response.Usage))
	call.Usage.CacheReadTokens = a.Response.Usage.CacheReadTokens
	call.Usage.CacheWriteTokens = a.Response.Usage.CacheWriteTokens
	call.Cost = a.Cost()
	return call
}

// lastText returns the newest text of the model in the Turn, which becomes the response if the Turn ends without one
// (SM-02).
func lastText(messages []event.Message, input string) string {
	for i := len(messages) - 1; i >= 0; i-- {
		m := messages[i]
		if m.ID == input {
			return ""
		}
		if text := m.PlainText(); m.Role == event.RoleAssistant && text != "" {
			return text
		}
	}
	return ""
}
