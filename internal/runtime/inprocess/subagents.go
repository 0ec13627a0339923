package inprocess

import (
	"context"
	"time"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/act"
	"github.com/capstan-dev/capstan/internal/runtime/invocation"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/step"
	"github.com/capstan-dev/capstan/internal/runtime/subagent"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

// stopLimit is how long the end of a Turn waits for its sub-agents.
const stopLimit = time.Minute

// spawn creates the Session of a call that runs as a sub-agent, or finds it: its name identifies the call. It shows the
// sub-agent in the status of the call, and returns how to run it. A call that must not start is settled.
func (a *acting) spawn(call *v1alpha1.ToolCall) (carryOut func(context.Context) (invocation.End, error), err error) {
	definition := a.definition(*call)
	if definition == nil || definition.Spec.Agent == nil {
		a.step.Settle(call, tool.Changed())
		return nil, nil
	}
	spec := subagent.Call{
		Session: a.session(), Turn: a.turn.DeepCopy(), Step: a.turn.Status.Plan.Step, Call: *call, Tool: definition,
		Arguments: a.step.Plan(call.ID).Arguments,
	}
	if refused := spec.TooLong(); refused != nil {
		a.step.Settle(call, *refused)
		return nil, nil
	}
	session, err := a.loop.Objects.AddSession(spec.NewSession())
	if err != nil {
		return nil, err
	}
	if !spec.SameSession(session) {
		a.step.Settle(call, subagent.NameTaken(session.Name))
		return nil, nil
	}
	call.SubAgent = &v1alpha1.SubAgentReference{Name: session.Name, SessionUID: session.UID}
	after := a.after(a.turnState(), *call)
	return func(ctx context.Context) (invocation.End, error) {
		outcome, err := a.loop.runSubAgent(ctx, a.run, spec, session)
		if err == nil && after != nil {
			outcome, err = after(ctx, outcome)
		}
		outcome.Output = nil // It was kept, or is not of use.
		return invocation.End{Outcome: outcome}, err
	}, nil
}

// runSubAgent runs the Turn of a sub-agent to its end. A Turn that another process has begun continues where the
// journal of its Session shows that it was.
func (l *Loop) runSubAgent(
	ctx context.Context, caller *run, spec subagent.Call, session *v1alpha1.Session,
) (tool.Outcome, error) {
	own := spec.NewTurn(session.UID)
	own.UID, own.Generation = types.UID(uuid.NewString()), 1
	r, err := l.submit(own)
	if err != nil {
		return tool.Outcome{}, err
	}
	caller.adopt(r)
	for {
		l.mu.Lock()
		done, failed, changed, turn := r.done, r.err, r.changed, r.shown.DeepCopy()
		l.mu.Unlock()
		if done {
			return l.endSubAgent(ctx, session, turn, failed)
		}
		select {
		case <-changed:
		case <-ctx.Done():
			// The step is closed, or the process ends: no receiver is left.
			return tool.CallAbandoned(), nil
		}
	}
}

// endSubAgent is the outcome of a call whose sub-agent's Turn has ended.
func (l *Loop) endSubAgent(
	ctx context.Context, session *v1alpha1.Session, turn *v1alpha1.Turn, failed error,
) (tool.Outcome, error) {
	if failed != nil {
		return tool.Outcome{}, failed
	}
	text := turn.Status.Output
	if step.ResponseCut(text) {
		var err error
		if text, err = l.Steps.Response(ctx, turnstate.JournalOf(session), text); err != nil {
			return tool.Outcome{}, err
		}
	}
	return subagent.Ended(turn, text), nil
}

// adopt makes a run that of a sub-agent of this one.
func (r *run) adopt(agent *run) {
	r.loop.mu.Lock()
	defer r.loop.mu.Unlock()
	agent.caller = r
	r.agents = append(r.agents, agent)
	agent.announce()
}

// idle reports whether the Turn waits for others, or only for sub-agents that do. The lock is held.
func (r *run) idle() bool {
	if r.done || r.cancelled || r.waits {
		return r.waits
	}
	if !turnstate.WaitsForSubAgent(&r.shown.Status.TurnProgress) {
		return false
	}
	waits := false
	for _, agent := range r.agents {
		if agent.done && !shownAsEnded(r.shown, agent.shown.Name) || !agent.done && !agent.idle() {
			return false
		}
		waits = waits || !agent.done
	}
	return waits
}

// shownAsEnded reports whether the status of a Turn shows the end of the call that a sub-agent runs for.
func shownAsEnded(turn *v1alpha1.Turn, agent string) bool {
	for _, call := range turn.Status.ToolCalls {
		if call.SubAgent != nil && call.SubAgent.Name == agent {
			return !act.Open(call)
		}
	}
	return true
}

// stopSubAgents cancels the sub-agents of a Turn that ends, and waits for their ends, but not longer than stopLimit.
func (r *run) stopSubAgents(ctx context.Context, closed *journal.Closed) {
	if closed.Transition.Plan.Phase != v1alpha1.PlanPhaseComplete {
		return
	}
	l := r.loop
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var limit <-chan struct{}
	for _, call := range r.turn.Status.ToolCalls {
		if call.SubAgent == nil {
			continue
		}
		l.mu.Lock()
		agent := l.turns[call.SubAgent.Name]
		l.mu.Unlock()
		if agent == nil {
			continue
		}
		l.cancel(agent)
		if limit == nil {
			limit = r.alarm(ctx, l.Clock.Now().Add(stopLimit))
		}
		agent.awaitEnd(ctx, limit)
	}
}

// awaitEnd waits for the end of a run, or for that of a wait.
func (r *run) awaitEnd(ctx context.Context, limit <-chan struct{}) {
	for {
		r.loop.mu.Lock()
		done, changed := r.done, r.changed
		r.loop.mu.Unlock()
		if done {
			return
		}
		select {
		case <-changed:
		case <-limit:
			return
		case <-ctx.Done():
			return
		}
	}
}

// waits are those of the calls of the step, other than for results and approvals.
func (a *acting) waits() []v1alpha1.TurnWait {
	return append(turnstate.ReferenceWaits(a.calls(), a.step), turnstate.SubAgentWaits(a.calls())...)
}
