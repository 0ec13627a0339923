package step

import (
	"context"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/config"
	"github.com/capstan-dev/capstan/internal/runtime/excerpt"
	"github.com/capstan-dev/capstan/internal/runtime/hook"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

// maxShownReason bounds the reason of an outcome in the status of a Session, and maxShownOutcomes the outcomes.
const (
	maxShownReason   = 512
	maxShownOutcomes = 8
)

// reasonDeleted is why a Session ends.
const reasonDeleted = "deleted"

// StartSession runs the hooks at the start of a Session (HOOK-01, HOOK-15), and returns the outcomes of those that did
// not allow. They change nothing. The error is that of the context: then it must be called again.
func (run *Runner) StartSession(
	ctx context.Context, session *v1alpha1.Session, c turnstate.Config,
) ([]v1alpha1.HookOutcome, error) {
	data := map[string]*string{"agent_id": agentOf(session)}
	return run.advise(ctx, session, c, hook.SessionStart, data)
}

// EndSession runs the hooks at the end of a Session that were pinned when it started (HOOK-01, HOOK-15), and returns
// the outcomes of those that did not allow. They change nothing. The error is that of the context.
func (run *Runner) EndSession(
	ctx context.Context, session *v1alpha1.Session, c turnstate.Config, pinned []v1alpha1.PinnedHook,
) ([]v1alpha1.HookOutcome, error) {
	c.Hooks = config.Pinned(pinned)
	return run.advise(ctx, session, c, hook.SessionEnd, map[string]string{"reason": reasonDeleted})
}

// advise runs the hooks of a Session. What a script writes comes after all that the Turns so far have written.
func (run *Runner) advise(
	ctx context.Context, session *v1alpha1.Session, c turnstate.Config, event hook.Event, data any,
) ([]v1alpha1.HookOutcome, error) {
	t := turnstate.Turn{Session: turnstate.JournalOf(session)}
	if agent := agentOf(session); agent != nil {
		t.Agent = *agent
	}
	records, err := run.hookRunner(t, c, 0, session.Status.Journal.Head+1).Advise(ctx, c.Hooks, event, data)
	logHooks(ctx, records)
	if err != nil {
		return nil, err
	}
	return shownOutcomes(records), nil
}

// agentOf is the name of the Agent; nil for none.
func agentOf(session *v1alpha1.Session) *string {
	if session.Spec.AgentRef == nil {
		return nil
	}
	return &session.Spec.AgentRef.Name
}

// shownOutcomes are the outcomes for the status of a Session: those of hooks that did not allow or have failed.
func shownOutcomes(records []hook.Record) []v1alpha1.HookOutcome {
	decisions := map[hook.Decision]v1alpha1.HookDecision{
		hook.Block: v1alpha1.HookDecisionBlock, hook.Mutate: v1alpha1.HookDecisionMutate,
		hook.Failed: v1alpha1.HookDecisionError,
	}
	var outcomes []v1alpha1.HookOutcome
	for _, r := range records {
		if decision, shown := decisions[r.Decision]; shown && len(outcomes) < maxShownOutcomes {
			outcomes = append(outcomes, v1alpha1.HookOutcome{
				ID: r.Hook, Decision: decision, Reason: excerpt.Of(r.Reason, maxShownReason),
			})
		}
	}
	return outcomes
}
