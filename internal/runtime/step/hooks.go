package step

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/go-logr/logr"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/background"
	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/excerpt"
	"github.com/capstan-dev/capstan/internal/runtime/hook"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/runtime/plan"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

// hookRunner runs the hooks of a step, which was opened at an ordinal of the journal.
func (run *Runner) hookRunner(t turnstate.Turn, c turnstate.Config, step int32, openedAt int64) *hook.Runner {
	return &hook.Runner{
		Executors: run.Hooks, Now: run.Clock, Files: run.Files(t, InitialFiles(c)), Ended: run.hookTracer(t),
		Identity: hook.Identity{
			Namespace: t.Session.Namespace, Session: t.Session.UID, Turn: t.Ref.UID, Step: step, OpenedAt: openedAt,
			Agent: t.Agent,
		},
	}
}

// openHooks runs the hooks of the open step.
func (run *Runner) openHooks(t turnstate.Turn, c turnstate.Config) *hook.Runner {
	return run.hookRunner(t, c, t.Step(), t.Progress.Plan.OpenedAtOrdinal)
}

// prompt returns what the hooks of the Turn have made of its message (HOOK-17, HOOK-18): nil without any. They run
// before the first model call, and their outcome is in the journal before anything follows from it. One that blocks
// ends the Turn.
func (run *Runner) prompt(
	ctx context.Context, t turnstate.Turn, c turnstate.Config, known *journal.HookedPrompt,
) (*journal.HookedPrompt, *journal.Closed, error) {
	if t.Step() != 1 {
		return nil, nil, nil
	}
	if known == nil && len(hook.Of(c.Hooks, hook.UserPromptSubmit)) > 0 {
		text := t.Original().PlainText()
		result, err := run.openHooks(t, c).Prompt(ctx, c.Hooks, text)
		if err != nil {
			return nil, nil, err
		}
		logHooks(ctx, result.Records)
		prompt := journal.HookedPrompt{Hooks: hookRuns(result.Records)}
		if result.Blocked != nil {
			prompt.Blocked, prompt.UserMessage = result.Blocked.Hook, result.Blocked.UserMessage
		} else if result.Text != text {
			prompt.Text = &result.Text
		}
		opened := t.Progress.Plan.OpenedAtOrdinal
		var closed *journal.Closed
		known, closed, err = run.Log.KeepPrompt(ctx, t.Session, t.Ref, t.Step(), opened, prompt)
		if errors.Is(err, journal.ErrFull) {
			closed, err = run.full(ctx, t, nil, err)
		}
		if err != nil || closed != nil {
			return nil, closed, err
		}
	}
	if known == nil || known.Blocked == "" {
		return known, nil, nil
	}
	closed, err := run.blockPrompt(ctx, t, known)
	return known, closed, err
}

// blockPrompt ends the Turn because a hook has blocked its message.
func (run *Runner) blockPrompt(
	ctx context.Context, t turnstate.Turn, p *journal.HookedPrompt,
) (*journal.Closed, error) {
	t.Prompt = p
	failure := plan.Failure{
		Code: v1alpha1.ErrorCodeBlockedByUserPromptHook, Fields: map[string]string{v1alpha1.ErrorFieldHook: p.Blocked},
	}
	sentence := failure.Sentence()
	if p.UserMessage != "" {
		sentence = excerpt.Of(p.UserMessage, turnstate.MaxMessageBytes)
	}
	message := event.NewErrorMessage(sentence, string(failure.Code), failure.Fields)
	message.ID = t.ResponseID()
	output := run.events(t).OutputMessage(event.OutputMessageCompleted{
		Message: message, ErrorCode: string(failure.Code), ErrorFields: failure.Fields,
	})
	return run.end(ctx, t, turnstate.Failed(failure, sentence), nil, output)
}

// unchecked stands for the hook that has not looked at a message.
const unchecked = "none"

// guarded is a Turn that ends in its first step. A message at which its hooks have not looked, because it was cancelled
// before, is in no later prompt: otherwise a cancelled Turn would carry it past them.
func (run *Runner) guarded(ctx context.Context, t turnstate.Turn) (turnstate.Turn, error) {
	if t.Prompt != nil || run.Hooked == nil {
		return t, nil
	}
	hooked, err := run.Hooked(ctx, t)
	if err != nil || !hooked {
		return t, err
	}
	_, open, err := run.Log.Resume(ctx, t.Session, t.Ref, t.Step(), t.Progress.Plan.OpenedAtOrdinal)
	if err != nil {
		return t, err
	}
	if t.Prompt = open.Prompt; t.Prompt == nil {
		t.Prompt = &journal.HookedPrompt{Blocked: unchecked}
	}
	return t, nil
}

// hooksMatch reports whether a hook looks at a call of a response.
func (run *Runner) hooksMatch(ctx context.Context, c turnstate.Config, r journal.Record) bool {
	if len(hook.Of(c.Hooks, hook.PreToolUse)) == 0 {
		return false
	}
	ctx, cancel := hook.WithStepBudget(ctx)
	defer cancel()
	var calls []hook.ToolCall
	for _, call := range hookable(r) {
		calls = append(calls, hookCall(call))
	}
	return hook.AnyMatches(ctx, c.Hooks, hook.PreToolUse, calls)
}

// hookable are the calls of a response that hooks may look at: those that are to run, but for those of clients.
func hookable(r journal.Record) []journal.PlannedCall {
	if r.Transition.Plan == nil || r.Transition.Plan.Phase != v1alpha1.PlanPhaseAct {
		return nil
	}
	var calls []journal.PlannedCall
	for _, pinned := range r.Transition.ToolCalls {
		if pinned.State == v1alpha1.ToolCallStateNotExecuted || pinned.Executor == v1alpha1.ToolExecutorClient {
			continue
		}
		for _, call := range r.Calls {
			if call.ID == pinned.ID {
				calls = append(calls, call)
			}
		}
	}
	return calls
}

// hookCall is a call as hooks see it. One that starts a background task is a call of the tool that it starts.
func hookCall(call journal.PlannedCall) hook.ToolCall {
	name, arguments := background.CallOf(call.Name, call.Arguments)
	return hook.ToolCall{ID: call.ID, Tool: name, Arguments: json.RawMessage(tool.ArgumentsOrEmpty(arguments))}
}

// hookedRecord is the content of a response whose calls hooks look at: the record that closes the step without them.
type hookedRecord struct {
	Events     []event.Event          `json:"events"`
	Calls      []journal.PlannedCall  `json:"calls"`
	Transition v1alpha1.TurnProgress  `json:"transition"`
	Context    *journal.PinnedContext `json:"context,omitempty"`
	Digest     string                 `json:"digest,omitempty"`
}

// maxHookedRecord is the most that a recorded response may take when it is read again.
const maxHookedRecord = 32 << 20

// hooked records a response and runs the hooks at its calls. It returns the entry that closes the step if it is closed.
// A response that cannot be recorded goes on: what follows tries to append it again, and only the end of the process in
// between would repeat the model call.
func (run *Runner) hooked(
	ctx context.Context, t turnstate.Turn, c turnstate.Config, u *UndeliveredResponse,
) (*journal.Closed, error) {
	content, err := packHooked(u.record)
	if err != nil {
		return nil, err
	}
	closed, err := run.Log.KeepResponse(ctx, t.Session, t.Ref, t.Step(), t.Progress.Plan.OpenedAtOrdinal, content)
	switch {
	case closed != nil || ctx.Err() != nil:
		return closed, ctx.Err()
	case err != nil:
		logr.FromContextOrDiscard(ctx).Info("Failed to record a response before its hooks", "error", err.Error())
	}
	decisions, err := run.decide(ctx, t, c, u.record)
	if err != nil {
		return nil, err
	}
	compose := u.compose
	u.compose = func(ctx context.Context, turns map[string]journal.RecordedTurn) journal.Record {
		return run.amended(t, c, compose(ctx, turns), decisions)
	}
	u.record = run.amended(t, c, u.record, decisions)
	return nil, nil
}

// continueHooked closes the step with a response that an earlier process has recorded: its hooks run again, and the
// model is not called.
func (run *Runner) continueHooked(
	ctx context.Context, t turnstate.Turn, c turnstate.Config, content []byte,
) (*journal.Closed, error) {
	kept, err := unpackHooked(content)
	if err != nil {
		return nil, fmt.Errorf("%w: the recorded response of step %d of Turn %s: %w", journal.ErrCorrupt, t.Step(),
			t.Ref.Name, err)
	}
	if c, err = wholeConfig(ctx, c); err != nil {
		return nil, err
	}
	record := recordOf(t)
	record.Events, record.Calls, record.Context = kept.Events, kept.Calls, kept.Context
	record.Transition, record.Digest = kept.Transition, kept.Digest
	decisions, err := run.decide(ctx, t, c, record)
	if err != nil {
		return nil, err
	}
	record = run.amended(t, c, record, decisions)
	compose := func(context.Context, map[string]journal.RecordedTurn) journal.Record { return record }
	return run.deliver(ctx, t, run.undelivered(ctx, t, record, compose), storeTimeout)
}

// decide runs the hooks at the calls of a response, in the order of the calls.
func (run *Runner) decide(
	ctx context.Context, t turnstate.Turn, c turnstate.Config, r journal.Record,
) (map[string]hook.CallResult, error) {
	ctx, cancel := hook.WithStepBudget(ctx)
	defer cancel()
	decisions := map[string]hook.CallResult{}
	hooks := run.openHooks(t, c)
	for _, call := range hookable(r) {
		result, err := hooks.Before(ctx, c.Hooks, hookCall(call))
		if err != nil {
			return nil, err
		}
		logHooks(ctx, result.Records)
		decisions[call.ID] = result
	}
	return decisions, nil
}

// amended is a record with what hooks have decided about its calls (HOOK-20). Rewritten arguments are checked like
// those of the model, and are what runs, what is approved and what the fingerprint is of. Prompts show the model its
// own.
func (run *Runner) amended(
	t turnstate.Turn, c turnstate.Config, r journal.Record, decisions map[string]hook.CallResult,
) journal.Record {
	r.Calls, r.Transition = slices.Clone(r.Calls), *r.Transition.DeepCopy()
	next := &r.Transition
	for i := range next.ToolCalls {
		pinned := &next.ToolCalls[i]
		at := slices.IndexFunc(r.Calls, func(call journal.PlannedCall) bool { return call.ID == pinned.ID })
		decision, ok := decisions[pinned.ID]
		if at < 0 || !ok {
			continue
		}
		planned := &r.Calls[at]
		planned.Hooks = hookRuns(decision.Records)
		name, own := background.CallOf(planned.Name, planned.Arguments)
		switch arguments := string(decision.Arguments); {
		case decision.Blocked != nil:
			planned.Refusal = hook.BlockedPrefix + decision.Blocked.Reason
			pinned.State, pinned.Reason = v1alpha1.ToolCallStateNotExecuted, v1alpha1.ToolCallReasonBlockedByHook
			pinned.Preview, pinned.Arguments = tool.ShownPreview(planned.Refusal), ""
			pinned.CallDigest, pinned.Executor, pinned.Attempt = "", v1alpha1.ToolExecutorNone, 0
		case arguments != tool.ArgumentsOrEmpty(own):
			if name != planned.Name {
				arguments = background.Wrap(name, arguments)
			}
			planned.Arguments = arguments
			now := c
			if replaced(c, *pinned) {
				now.Withheld = map[string]string{planned.Name: changedMeanwhile}
			}
			*pinned = run.pinOne(t, now, planned, model.ToolCall{
				ProviderID: planned.ProviderID, Name: planned.Name, Arguments: arguments,
			}, subAgentsBefore(t, next.ToolCalls[:i]))
		}
	}
	turnstate.ShowArguments(next.ToolCalls, r.Calls)
	next.Phase = v1alpha1.TurnPhaseAct
	plan.CountCalls(next)
	t.ShowWait(next, c.Effective.ToolConcurrency)
	return r
}

// hookRuns are the records that the journal keeps: those of hooks that have changed something or have failed.
func hookRuns(records []hook.Record) []journal.HookRun {
	var runs []journal.HookRun
	for _, r := range records {
		if r.Decision != hook.Allow {
			runs = append(runs, journal.HookRun{Hook: r.Hook, Decision: string(r.Decision), Reason: r.Reason})
		}
	}
	return runs
}

// logHooks logs what hooks have decided (HOOK-24).
func logHooks(ctx context.Context, records []hook.Record) {
	logger := logr.FromContextOrDiscard(ctx)
	for _, r := range records {
		switch {
		case r.Decision == hook.Allow:
		case r.Cause != nil:
			logger.Error(r.Cause, "A hook could not be run", "hook", r.Hook, "reason", r.Reason)
		default:
			logger.Info("A hook did not allow", "hook", r.Hook, "decision", r.Decision, "reason", r.Reason)
		}
	}
}

func packHooked(r journal.Record) ([]byte, error) {
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	err := json.NewEncoder(w).Encode(hookedRecord{r.Events, r.Calls, r.Transition, r.Context, r.Digest})
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		return nil, fmt.Errorf("encoding a response: %w", err)
	}
	return packed.Bytes(), nil
}

func unpackHooked(content []byte) (hookedRecord, error) {
	var r hookedRecord
	z, err := gzip.NewReader(bytes.NewReader(content))
	if err != nil {
		return r, err
	}
	raw, err := io.ReadAll(io.LimitReader(z, maxHookedRecord))
	if err != nil {
		return r, err
	}
	return r, json.Unmarshal(raw, &r)
}
