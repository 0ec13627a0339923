package turn

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/act"
	"github.com/capstan-dev/capstan/internal/runtime/queue"
	"github.com/capstan-dev/capstan/internal/runtime/subagent"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
	"github.com/capstan-dev/capstan/internal/runtime/tool/jobstatus"
)

// agent returns the knowledge about the sub-agent of a call.
func (m *stepMemory) agent(call string) *act.SubAgent {
	return &m.known.Row(call).SubAgent
}

func hasSubAgent(call v1alpha1.ToolCall) bool {
	return call.SubAgent != nil
}

// subAgent returns a call in the form that determines its sub-agent; false if its Tool has changed or is gone.
func (r *Reconciler) subAgent(ctx context.Context, a *actScope, call v1alpha1.ToolCall) (subagent.Call, bool, error) {
	definition := a.config.Tools.Planned(call).Object()
	if definition == nil || definition.Spec.Agent == nil {
		return subagent.Call{}, false, nil
	}
	if err := r.planned(ctx, a.scope); err != nil {
		return subagent.Call{}, false, err
	}
	return subagent.Call{
		Session: a.session, Turn: a.turn, Step: a.plan().Step, Call: call, Tool: definition,
		Arguments: a.step.known.Plan(call.ID).Arguments,
	}, true, nil
}

// startSubAgent creates the Session of a call, whose intent is in the status. An existing one is from before a crash,
// or from a second process: its name identifies the call. Nothing begins before the Session is recorded.
func (r *Reconciler) startSubAgent(ctx context.Context, a *actScope, index int) error {
	call := a.calls()[index]
	if call.SubAgent != nil || a.step.agent(call.ID).Session != "" {
		return nil
	}
	spec, planned, err := r.subAgent(ctx, a, call)
	switch {
	case err != nil:
		return err
	case !planned:
		a.settle(index, tool.Changed())
		return nil
	}
	if refused := spec.TooLong(); refused != nil {
		a.settle(index, *refused)
		return nil
	}
	taken, err := r.turnTaken(ctx, a, spec)
	switch {
	case err != nil:
		return err
	case taken:
		a.settle(index, subagent.NameTaken(spec.Name()))
		return nil
	}
	return r.createSession(ctx, a, index, spec)
}

// turnTaken reports whether a Turn that is not the call's has the name of that.
func (r *Reconciler) turnTaken(ctx context.Context, a *actScope, spec subagent.Call) (bool, error) {
	found := &v1alpha1.Turn{}
	err := r.Client.Get(ctx, types.NamespacedName{Namespace: a.turn.Namespace, Name: spec.Name()}, found)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("reading the Turn of call %s: %w", spec.Call.ID, err)
	}
	return err == nil && !subagent.Runs(found.Spec.Origin.SubAgentOf(), a.turn.UID, spec.Step, spec.Call.ID), nil
}

// createSession requests the Session of one call.
func (r *Reconciler) createSession(ctx context.Context, a *actScope, index int, spec subagent.Call) error {
	known, session := a.step.agent(spec.Call.ID), spec.NewSession()
	err := r.Client.Create(ctx, session)
	switch {
	case err == nil:
		if !r.Turns.Reserve(session.UID, session.Namespace) {
			a.settle(index, subagent.Crowded())
			return nil
		}
		known.Session = session.UID
		return nil
	case apierrors.IsAlreadyExists(err):
		return r.adoptSession(ctx, a, index, spec)
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return nil
	case jobstatus.RefusedForNow(err.Error()):
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err), apierrors.IsBadRequest(err),
		apierrors.IsRequestEntityTooLargeError(err):
		a.settle(index, jobstatus.Refused(err.Error()))
		return nil
	}
	return fmt.Errorf("creating Session %s for call %s: %w", spec.Name(), spec.Call.ID, err)
}

// adoptSession makes the Session that exists under the name that of the call, if it is exactly the one that the call
// needs. Otherwise the call ends.
func (r *Reconciler) adoptSession(ctx context.Context, a *actScope, index int, spec subagent.Call) error {
	found := &v1alpha1.Session{}
	key := types.NamespacedName{Namespace: a.turn.Namespace, Name: spec.Name()}
	if err := r.Live.Get(ctx, key, found); err != nil {
		return fmt.Errorf("reading the existing Session %s: %w", key.Name, err)
	}
	if !spec.SameSession(found) {
		a.settle(index, subagent.NameTaken(spec.Name()))
		return nil
	}
	a.step.agent(spec.Call.ID).Session = found.UID
	return nil
}

// recordSubAgents sets the Sessions of calls in the status, and reports whether there are any.
func (r *Reconciler) recordSubAgents(a *actScope) bool {
	recorded := false
	for i, call := range a.calls() {
		session := a.step.agent(call.ID).Session
		if !act.RecordsSubAgent(call) || session == "" {
			continue
		}
		shown := &a.turn.Status.ToolCalls[i]
		shown.SubAgent = &v1alpha1.SubAgentReference{
			Name: subagent.Name(a.turn.UID, a.plan().Step, call.ID), SessionUID: session,
		}
		act.Start(shown)
		recorded = true
	}
	return recorded
}

// createSubAgents creates the Turns of the recorded sub-agents that have none.
func (r *Reconciler) createSubAgents(ctx context.Context, a *actScope) error {
	var failed []error
	for i, call := range a.calls() {
		if act.RecordedSubAgent(call) && !a.step.known.Done(call.ID) && a.step.agent(call.ID).CreatedAt.IsZero() {
			failed = append(failed, r.createTurn(ctx, a, i))
		}
	}
	return errors.Join(failed...)
}

// createTurn creates the Turn of one sub-agent, unless its Session shows that it was there already. A Turn that is
// created again in the same Session takes over the outcome that the journal of that has, so that it never runs twice.
func (r *Reconciler) createTurn(ctx context.Context, a *actScope, index int) error {
	call := a.calls()[index]
	key := types.NamespacedName{Namespace: a.turn.Namespace, Name: call.SubAgent.Name}
	session := &v1alpha1.Session{}
	err := r.Live.Get(ctx, key, session)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading the Session of call %s: %w", call.ID, err)
	}
	if err != nil || session.UID != call.SubAgent.SessionUID || !session.DeletionTimestamp.IsZero() ||
		subagent.Used(session) {
		return r.concludeMissing(ctx, a, index)
	}
	spec, planned, err := r.subAgent(ctx, a, call)
	if err != nil {
		return err
	}
	if !planned {
		// Its message and its limits are lost.
		r.conclude(a, index, tool.Unknown(v1alpha1.ToolCallReasonToolChanged,
			"its tool was changed or removed before its sub-agent was known to have begun"))
		return nil
	}
	turn := spec.NewTurn(session.UID)
	err = r.Client.Create(ctx, turn)
	switch {
	case err == nil:
		a.step.agent(call.ID).CreatedAt = r.Clock()
	case apierrors.IsAlreadyExists(err):
		return r.adoptTurn(ctx, a, index, spec)
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
	case !jobstatus.RefusedForNow(err.Error()) && (apierrors.IsForbidden(err) || apierrors.IsInvalid(err)):
		r.conclude(a, index, subagent.TurnRefused(err.Error()))
	default:
		return fmt.Errorf("creating Turn %s for call %s: %w", turn.Name, call.ID, err)
	}
	return nil
}

// adoptTurn makes the Turn that exists under the name that of the call, if it is exactly the one that the call needs.
func (r *Reconciler) adoptTurn(ctx context.Context, a *actScope, index int, spec subagent.Call) error {
	found := &v1alpha1.Turn{}
	key := types.NamespacedName{Namespace: a.turn.Namespace, Name: spec.Name()}
	if err := r.Live.Get(ctx, key, found); err != nil {
		return fmt.Errorf("reading the existing Turn %s: %w", key.Name, err)
	}
	if !spec.SameTurn(found, a.calls()[index].SubAgent.SessionUID) {
		r.conclude(a, index, subagent.TurnTaken(spec.Name()))
		return nil
	}
	a.step.agent(spec.Call.ID).CreatedAt = r.Clock()
	return nil
}

// concludeMissing ends a call whose Session is gone, or has had its Turn, unless the Turn exists after all.
func (r *Reconciler) concludeMissing(ctx context.Context, a *actScope, index int) error {
	call := a.calls()[index]
	turn, err := r.liveTurnOf(ctx, a.scope, call)
	if err != nil {
		return err
	}
	if turn != nil {
		a.step.agent(call.ID).CreatedAt = r.Clock()
		a.deadline(r.Clock().Add(cacheLag))
		return nil
	}
	r.conclude(a, index, subagent.Gone())
	return nil
}

// liveTurnOf reads the Turn of a sub-agent past the cache; nil for none.
func (r *Reconciler) liveTurnOf(ctx context.Context, s *scope, call v1alpha1.ToolCall) (*v1alpha1.Turn, error) {
	turn := &v1alpha1.Turn{}
	err := r.Live.Get(ctx, types.NamespacedName{Namespace: s.turn.Namespace, Name: call.SubAgent.Name}, turn)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading the Turn of call %s past the cache: %w", call.ID, err)
	case !subagent.Runs(turn.Spec.Origin.SubAgentOf(), s.turn.UID, s.plan().Step, call.ID):
		return nil, nil
	}
	return turn, nil
}

// turnOf reads the Turn of a sub-agent from the cache; nil for none.
func (r *Reconciler) turnOf(ctx context.Context, s *scope, call v1alpha1.ToolCall) (*v1alpha1.Turn, error) {
	turn := &v1alpha1.Turn{}
	err := r.Client.Get(ctx, types.NamespacedName{Namespace: s.turn.Namespace, Name: call.SubAgent.Name}, turn)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading the Turn of call %s: %w", call.ID, err)
	}
	if err != nil || !subagent.Runs(turn.Spec.Origin.SubAgentOf(), s.turn.UID, s.plan().Step, call.ID) {
		return nil, nil
	}
	return turn, nil
}

// observeSubAgent determines the state of one call that runs as a sub-agent. One that is not recorded has not begun.
func (r *Reconciler) observeSubAgent(ctx context.Context, a *actScope, index int) error {
	call := a.calls()[index]
	if call.SubAgent == nil {
		return nil
	}
	known := a.step.agent(call.ID)
	turn, err := r.turnOf(ctx, a.scope, call)
	if err != nil {
		return err
	}
	if turn == nil {
		return r.observeMissingTurn(ctx, a, index, known)
	}
	known.CreatedAt, known.Seen = r.Clock(), true
	if !queue.Finished(turn) {
		act.Start(&a.turn.Status.ToolCalls[index])
		return nil
	}
	return r.concludeSubAgent(ctx, a, index)
}

// observeMissingTurn decides about a recorded call whose Turn the cache does not have: it is created when this process
// does not know that it was there, and is gone only if a live read proves it.
func (r *Reconciler) observeMissingTurn(ctx context.Context, a *actScope, index int, known *act.SubAgent) error {
	if known.CreatedAt.IsZero() {
		act.Start(&a.turn.Status.ToolCalls[index])
		return nil
	}
	if lag := known.CreatedAt.Add(cacheLag); !known.Seen && r.Clock().Before(lag) {
		a.deadline(lag)
		return nil
	}
	return r.concludeMissing(ctx, a, index)
}

// concludeSubAgent ends a call whose sub-agent's Turn has ended. The cache leaves the response out.
func (r *Reconciler) concludeSubAgent(ctx context.Context, a *actScope, index int) error {
	call := a.calls()[index]
	turn, err := r.liveTurnOf(ctx, a.scope, call)
	if err != nil {
		return err
	}
	if turn == nil {
		r.conclude(a, index, subagent.Gone())
		return nil
	}
	text, done, err := r.readResponse(ctx, a, call, turn)
	if err != nil || !done {
		act.Start(&a.turn.Status.ToolCalls[index])
		return err
	}
	return r.concludeObserved(ctx, a, index, subagent.Ended(turn, text))
}
