package turn

import (
	"context"
	"errors"
	"time"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller/notice"
	"github.com/capstan-dev/capstan/internal/runtime/host"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
)

// withheldCall is the state of a call that waits for a Secret, in this process.
type withheldCall struct {
	*host.Withheld
	// lookAt is when the Secret is looked for again, pause how long that took it.
	lookAt time.Time
	pause  time.Duration
}

// withhold keeps a call back that has found no Secret. Each look that follows comes later than the one before.
func (a *actScope) withhold(index int, missing *host.Withheld, now time.Time) {
	call := &a.turn.Status.ToolCalls[index]
	w := a.step.withheld[call.ID]
	if w == nil {
		w = &withheldCall{}
		a.step.withheld[call.ID] = w
	}
	w.Withheld, w.pause = missing, min(max(2*w.pause, firstKeyRetry), lastKeyRetry)
	w.lookAt = now.Add(w.pause)
	missing.Describe(call)
	a.deadline(w.lookAt)
}

// withheldBy handles the error of a request that has found no Secret, and reports whether the error is one.
func (a *actScope) withheldBy(index int, err error, now time.Time) bool {
	var missing *host.Withheld
	if !errors.As(err, &missing) {
		return false
	}
	key := a.requestKey(a.calls()[index])
	delete(a.step.pauses, key)
	delete(a.step.requests, key)
	a.withhold(index, missing, now)
	return true
}

// lookForSecrets looks for the Secrets of the calls that wait for one, when the time has come. It takes no place for
// that and writes nothing: as many Turns wait as tenants like. A call whose Secrets are there may start.
func (r *Reconciler) lookForSecrets(ctx context.Context, a *actScope) error {
	var failed []error
	for i, call := range a.calls() {
		if !tool.Withheld(call) {
			continue
		}
		now, w := r.Clock(), a.step.withheld[call.ID]
		if w != nil && now.Before(w.lookAt) {
			a.deadline(w.lookAt)
			continue
		}
		if r.Policies.Await(a.key()) != nil {
			// No Secret is read now. The Turn is woken when one may be.
			continue
		}
		var missing *host.Withheld
		definition, err := a.wholeTool(ctx, call)
		if err == nil && definition != nil && definition.Spec.HTTP != nil {
			missing, err = r.Host.CheckSecrets(ctx, a.turn.Namespace, call.Name, definition.Spec.HTTP)
		}
		if err != nil {
			failed = append(failed, err)
			continue
		}
		if missing != nil {
			a.withhold(i, missing, now)
			continue
		}
		delete(a.step.withheld, call.ID)
		shown := &a.turn.Status.ToolCalls[i]
		shown.Reason, shown.Preview = "", ""
	}
	return errors.Join(failed...)
}

// missingReferences are the waits of the step's calls for missing references.
func (a *actScope) missingReferences() []v1alpha1.TurnWait {
	withheld := map[string]*host.Withheld{}
	for id, w := range a.step.withheld {
		withheld[id] = w.Withheld
	}
	return host.ReferenceWaits(a.calls(), withheld)
}

// tellReference records an Event about the reference that a Turn which has begun waits for, once it was missing for a
// while.
func (r *Reconciler) tellReference(s *scope) {
	step := s.memory.of(s.plan().Step)
	var missing *v1alpha1.TurnWait
	for i := range s.turn.Status.WaitsFor {
		if s.turn.Status.WaitsFor[i].Type == v1alpha1.WaitTypeReference {
			missing = &s.turn.Status.WaitsFor[i]
			break
		}
	}
	if missing == nil {
		step.missingSince = time.Time{}
		return
	}
	now := r.Clock()
	if step.missingSince.IsZero() {
		step.missingSince = now
	}
	if due := step.missingSince.Add(missingTold); now.Before(due) {
		s.deadline(due)
		return
	}
	r.Notices.Record(
		s.turn,
		notice.Notice{Warning: true, Reason: missing.Reason, Action: actionWait, Message: missing.Message},
	)
}
