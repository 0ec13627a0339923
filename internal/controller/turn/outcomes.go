package turn

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller/executor"
	"github.com/capstan-dev/capstan/internal/runtime/fairshare"
	"github.com/capstan-dev/capstan/internal/runtime/step"
	"github.com/capstan-dev/capstan/internal/runtime/tool/jobstatus"
)

// held describes the outcomes of a step that are only in memory.
type held struct {
	// refused is when the journal first rejected them; zero if it did not. share counts them for the namespace from
	// then on.
	refused time.Time
	share   *fairshare.Share
	// dropped reports whether they were dropped, as are any that come until the journal accepts one.
	dropped bool
}

// count counts the bytes for the namespace, and reports whether it has room for them.
func (h *held) count(activities *executor.Executor, namespace string, bytes int64) bool {
	if h.share.Amount().Bytes < bytes {
		h.share.Release()
		h.share = activities.Hold(namespace, bytes)
	}
	return h.share != nil
}

// release drops the share.
func (h *held) release() {
	h.share.Release()
	*h = held{}
}

// recallOutcomes reads the outcomes that the journal has, for a step that another process may have worked on. They
// replace those of this process.
func (r *Reconciler) recallOutcomes(ctx context.Context, s *scope) error {
	memory := s.memory.of(s.plan().Step)
	if !memory.stale {
		return nil
	}
	refs, err := r.Steps.Log.Settled(ctx, s.journal(), s.turn.UID, s.plan().Step, s.plan().OpenedAtOrdinal)
	if err != nil {
		return fmt.Errorf("reading the outcomes in the journal: %w", err)
	}
	memory.known.Adopt(refs)
	memory.stale = false
	return nil
}

// keepOutcomes appends the outcomes to the journal that only memory has, and drops their texts: tenants can have any
// number of Turns that wait. They survive this process from then on.
func (r *Reconciler) keepOutcomes(ctx context.Context, a *actScope) error {
	known := a.step.known
	if len(known.Keepable(a.calls())) > 0 {
		var err error
		if known, err = r.known(ctx, a.scope); err != nil {
			return err
		}
	}
	closed, err := r.Steps.KeepOutcomes(ctx, a.turnState(), known)
	if err != nil {
		a.notStored = err
		return err
	}
	a.step.closed = closed
	a.step.held.release()
	return nil
}

// holdOutcomes bounds the memory of a Turn whose outcomes the journal does not accept. They count for their namespace,
// and are dropped when it has no room for them, or after the maximum time: they are then observed again from their
// pods, or produced by another request. Of an outcome that only this process can know the start stays, as in status.
func (r *Reconciler) holdOutcomes(s *scope) {
	plan := s.plan()
	if plan == nil || s.session == nil || plan.Phase != v1alpha1.PlanPhaseAct {
		return
	}
	memory, now, calls := s.memory.of(plan.Step), r.Clock(), s.turn.Status.ToolCalls
	memory.known.Drop()
	bytes := memory.heldBytes(calls)
	if bytes == 0 {
		memory.held.release()
		return
	}
	if memory.held.refused.IsZero() {
		memory.held.refused = now
	}
	ends := memory.held.refused.Add(step.UndeliveredRetention)
	if !memory.held.dropped && now.Before(ends) && memory.held.count(r.Activities, s.turn.Namespace, bytes) {
		s.deadline(ends)
		if stall := s.memory.stall; stall != nil && stall.until.After(ends) {
			stall.until = ends
		}
		return
	}
	memory.held.release()
	memory.held.refused, memory.held.dropped = now, true
	memory.known.DropReproducible(calls)
	for _, call := range calls {
		key := callKey(s.turn.UID, plan.Step, call)
		if run := memory.requests[key]; run != nil {
			run.Shorten(call)
		}
	}
}

// heldBytes returns the size of the texts of outcomes that are in memory, of calls with and without an end.
func (m *stepMemory) heldBytes(calls []v1alpha1.ToolCall) int64 {
	_, bytes := m.known.Held(calls)
	for _, run := range m.requests {
		bytes += run.Bytes()
	}
	return bytes
}

// showPod sets the pod name in status for a call whose outcome is from the journal.
func (a *actScope) showPod(index int) {
	call := &a.turn.Status.ToolCalls[index]
	if call.PodName != "" || call.Executor != v1alpha1.ToolExecutorJob || !a.step.known.Row(call.ID).Cut {
		return
	}
	var pod *corev1.Pod
	if _, job := a.job(*call); job != nil {
		pod = jobstatus.SelectPod(a.pods[string(job.UID)], job, *call)
	}
	call.PodName = podName(pod)
}
