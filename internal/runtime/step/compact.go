package step

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/compaction"
	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/excerpt"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/runtime/modelcall"
	"github.com/capstan-dev/capstan/internal/runtime/plan"
	"github.com/capstan-dev/capstan/internal/runtime/prompt"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
	"github.com/capstan-dev/capstan/internal/runtime/utility"
)

// compacting is a compaction of the conversation that the open step was about to call a model with (LLM-08).
type compacting struct {
	turn         turnstate.Turn
	config       turnstate.Config
	conversation compaction.Conversation
	trigger      v1alpha1.CompactionTrigger
	// threshold is the size that the prompt has reached; 0 for none.
	threshold int64
	// refused are the model calls of the step whose prompt was too large.
	refused []modelcall.Result
	// called are the calls for the summary, in order, and failed reports whether they have returned none.
	called []modelcall.Result
	failed bool
}

// compactingFor returns the compaction of a conversation that may become necessary; nil where the Session has none, or
// where the provider has refused the prompt although the step before has compacted the conversation for that.
func (run *Runner) compactingFor(
	t turnstate.Turn, c turnstate.Config, view *journal.View, context prompt.Context,
) *compacting {
	if c.Compaction == nil || c.Model == nil || len(view.Messages) == 0 ||
		t.Progress.Plan.Compacted == v1alpha1.CompactionTriggerRequestTooLarge {
		return nil
	}
	beside := int64(len(context.SystemPrompt))
	for _, tool := range context.Tools {
		beside += int64(len(tool.Name) + len(tool.Description) + len(tool.InputSchema))
	}
	conversation := compaction.Conversation{
		Messages: view.Messages, Input: t.MessageID(), Beside: beside, Tokens: view.Tokens, Measured: view.Measured,
	}
	if t.Step() == 1 {
		message := t.Message()
		conversation.Beside += message.Bytes()
	}
	return &compacting{turn: t, config: c, conversation: conversation, threshold: c.Compaction.Threshold(c.Model)}
}

// due returns how to compact the conversation before a model is called with it, and whether to do that. A summary that
// no Model could write is not asked for again in the Turn: a model call for each of its steps is dear, and no likelier
// to succeed.
func (k *compacting) due() (compaction.Decision, bool) {
	if k == nil || k.threshold == 0 || k.conversation.Size() < k.threshold || k.turn.Progress.Plan.Compacted != "" {
		return compaction.Decision{}, false
	}
	k.trigger = v1alpha1.CompactionTriggerThreshold
	d, possible := compaction.Decide(k.config.Compaction, k.conversation, k.threshold, true)
	if sum := k.turn.Progress.Summary; d.Mode == compaction.Summarize && sum != nil && sum.FailedSummaries > 0 {
		return compaction.Decision{}, false
	}
	return d, possible
}

// refusedAs returns how to compact the conversation after calls with it, and whether to do that: if the provider has
// refused it as too large.
func (k *compacting) refusedAs(called []modelcall.Result) (compaction.Decision, bool) {
	if k == nil {
		return compaction.Decision{}, false
	}
	last := called[len(called)-1]
	if last.Err == nil || last.Failure().Code != v1alpha1.ErrorCodeRequestTooLarge {
		return compaction.Decision{}, false
	}
	k.trigger, k.refused = v1alpha1.CompactionTriggerRequestTooLarge, called
	return compaction.Decide(k.config.Compaction, k.conversation, k.threshold, true)
}

// compact carries out a decision and returns the record that closes the step, as an undelivered response: a summary was
// paid for as a response is. The step that follows calls the model. It returns nil if no summary could be written and
// the conversation stays as it is: nothing is left out without one unless a provider has refused the prompt. After a
// Backoff the compaction is to be repeated with it as earlier.
func (run *Runner) compact(
	ctx context.Context, k *compacting, d compaction.Decision, earlier *modelcall.Backoff,
) (*UndeliveredResponse, error) {
	began, text := run.Clock(), compaction.Trimmed()
	if d.Mode == compaction.Summarize {
		summary, err := run.summarize(ctx, k, d.Cut, earlier)
		if err != nil {
			return nil, err
		}
		if text = summary; text == "" {
			k.failed = true
			var possible bool
			d, possible = compaction.Decide(k.config.Compaction, k.conversation, k.threshold, false)
			if !possible || k.trigger != v1alpha1.CompactionTriggerRequestTooLarge {
				return nil, nil
			}
			text = compaction.Trimmed()
		}
	}
	t := k.turn
	summary := event.NewSummary(event.ID(t.Ref.UID, t.Step(), event.TypeContextCompacted, "summary"), text)
	record := recordOf(t)
	record.Compaction = k.conversation.Record(d, summary)
	left, _ := journal.Compacted(k.conversation.Messages, record.Compaction)
	compacted := event.ContextCompacted{
		Trigger: triggers[k.trigger], Mode: words[d.Mode], MessageCount: int32(len(left)),
		Tokens: k.conversation.After(left),
	}
	if d.Mode != compaction.Mask {
		compacted.Summary = text
	}
	record.Events = append(run.opening(t), run.compactionEvents(k, began, compacted)...)
	record.Transition = plan.Compacted(t.Progress, k.trigger)
	k.account(record.Transition.Summary)
	undelivered := run.undelivered(ctx, t, record,
		func(context.Context, map[string]journal.RecordedTurn) journal.Record { return record })
	if m := k.writer(); m != nil {
		undelivered.dropped = &Dropped{message: event.NewID(), model: m.Name}
	}
	return undelivered, nil
}

// The words of events.
var (
	triggers = map[v1alpha1.CompactionTrigger]string{
		v1alpha1.CompactionTriggerThreshold:       event.CompactThreshold,
		v1alpha1.CompactionTriggerRequestTooLarge: event.CompactTooLarge,
	}
	words = map[compaction.Mode]string{
		compaction.Mask: event.CompactMask, compaction.Summarize: event.CompactSummarize, compaction.Trim: event.CompactTrim,
	}
)

// summarize has a model write a summary of the messages before a cut: the one that the capability names, or the Models
// of the Turn. It returns an empty text if none has.
func (run *Runner) summarize(
	ctx context.Context, k *compacting, cut int, earlier *modelcall.Backoff,
) (string, error) {
	var models []*v1alpha1.Model
	for _, m := range k.models() {
		models = append(models, utility.Tuned(m))
	}
	window := int64(0)
	if w := models[0].Spec.ContextWindow; w != nil {
		window = int64(*w)
	}
	request := k.conversation.Request(cut, window)
	request.TurnID, request.User = string(k.turn.Ref.UID), prompt.User(k.turn.Session.UID)
	request.Iteration = max(k.turn.Progress.Iteration, 1)
	called, err := run.caller().Call(ctx, modelcall.Request{
		Content: request, Input: k.turn.MessageID(), Namespace: k.turn.Session.Namespace, Models: models,
		Read: func(ctx context.Context, m *v1alpha1.Model) (*v1alpha1.Model, error) {
			return wholeModel(ctx, k.config, m)
		},
		Payer:       k.turn.Payer(),
		OnLowBudget: func(name string) { k.turn.Budgets.Warn(k.turn.Step(), run.Clock(), name) },
		TraceParent: func(n int) string { return k.turn.ModelTraceParent(len(k.refused) + n) },
		Earlier:     earlier,
	})
	var pause *modelcall.Backoff
	var held *modelcall.Held
	var key *model.KeyError
	limited := rateLimited(err, k.waits)
	switch {
	case errors.As(err, &held):
		return "", &Held{Refusal: held.Refusal, Earlier: k.waits(held.Earlier)}
	case limited != nil:
		return "", limited
	case errors.As(err, &pause):
		return "", k.waits(pause)
	case errors.As(err, &key):
		return "", &turnstate.MissingKey{Model: key.Model, Reason: key.Reason, Problem: key.Problem}
	case err != nil:
		return "", fmt.Errorf("summarizing the conversation: %w", err)
	}
	k.called = called
	last := called[len(called)-1]
	if last.Err != nil {
		return "", nil
	}
	return compaction.Summary(last.Response), nil
}

// waits returns a wait of the call for the summary.
func (k *compacting) waits(b *modelcall.Backoff) *Backoff {
	return &Backoff{Backoff: b, refused: k.refused, summary: true}
}

// models are the Models that may write the summary, in order, each once.
func (k *compacting) models() []*v1alpha1.Model {
	models := lastFirst(k.turn, k.config.Models())
	first := k.config.Summarizer
	if first == nil {
		return models
	}
	others := slices.DeleteFunc(slices.Clone(models), func(m *v1alpha1.Model) bool { return m.Name == first.Name })
	return append([]*v1alpha1.Model{first}, others...)
}

// writer is the Model that has written the summary; nil for none.
func (k *compacting) writer() *v1alpha1.Model {
	if len(k.called) == 0 || k.called[len(k.called)-1].Err != nil {
		return nil
	}
	return k.called[len(k.called)-1].Model
}

// account adds the model calls for the summary to the totals of the Turn, also of one that no text came of: it was paid
// for. k may be nil.
func (k *compacting) account(sum *v1alpha1.TurnSummary) {
	if k == nil {
		return
	}
	if k.failed {
		sum.FailedSummaries++
	}
	if k.writer() == nil {
		return
	}
	answer := k.called[len(k.called)-1]
	plan.AddCall(sum, usageOf(answer.Response.Usage))
	addCost(sum, answer)
}

// forget drops the conversation. k may be nil.
func (k *compacting) forget() {
	if k != nil {
		k.conversation = compaction.Conversation{}
	}
}

// generations returns the events of model calls.
func (k *compacting) generations(f event.Step, called []modelcall.Result) []event.Event {
	var events []event.Event
	for _, a := range called {
		g := generation{messages: 1}
		events = append(events, f.At(a.Ended).LLMGeneration(generationOf(a, g, max(k.turn.Progress.Iteration, 1))))
	}
	return events
}

// compactionEvents are the events of a step that has compacted the conversation: the refused calls, and the compaction
// with its own (LLM-02).
func (run *Runner) compactionEvents(k *compacting, began time.Time, compacted event.ContextCompacted) []event.Event {
	f := run.events(k.turn).Step(k.turn.Step(), 1)
	events := k.generations(f, k.refused)
	events = append(events, f.At(began).ContextCompacting(event.ContextCompacting{
		Trigger: compacted.Trigger, MessageCount: int32(len(k.conversation.Messages)), Tokens: k.conversation.Size(),
	}))
	events = append(events, k.generations(f, k.called)...)
	ended := run.Clock()
	duration := ended.Sub(began).Milliseconds()
	compacted.Model, compacted.DurationMS = model.Name(k.writer()), &duration
	if n := len(k.called); n > 0 && k.called[n-1].Err != nil {
		compacted.Error = excerpt.Of(k.called[n-1].Err.Error(), turnstate.MaxMessageBytes)
	}
	return append(events, f.At(ended).ContextCompacted(compacted))
}
