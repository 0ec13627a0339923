package turn

import (
	"context"
	"fmt"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/act"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
	"github.com/capstan-dev/capstan/internal/runtime/tool/jobstatus"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

// missingPodInterval is the time between two checks of the Events of a Job without a pod.
const missingPodInterval = 30 * time.Second

// missingPod holds the last check of the Events of a Job without a pod: its time, and the cause as a reason and as the
// text of the API server.
type missingPod struct {
	askedAt     time.Time
	reason, why string
}

// explainMissingPod shows in the status of a call why its Job has been without a pod for a while. The Job controller
// retries until the start timeout.
func (r *Reconciler) explainMissingPod(ctx context.Context, a *actScope, index int, job *batchv1.Job, since time.Time) {
	now, known := r.Clock(), a.step.job(job.Name).missingPod
	due := since.Add(missingPodGrace)
	if known != nil {
		due = known.askedAt.Add(missingPodInterval)
	}
	if !now.Before(due) {
		known = &missingPod{askedAt: now}
		if why := PodFailure(ctx, r.Live, job); why != "" {
			known.reason, known.why = jobstatus.Refused(why).Reason, strings.TrimPrefix(why, "Error creating: ")
		}
		a.step.job(job.Name).missingPod = known
		due = now.Add(missingPodInterval)
	}
	a.deadline(due)
	if known == nil || known.reason == "" {
		return
	}
	act.Describe(
		&a.turn.Status.ToolCalls[index],
		tool.Outcome{State: v1alpha1.ToolCallStatePending, Reason: known.reason, Error: known.why},
	)
}

// clearRefusal removes the refusal of the pod from a call whose pod exists now.
func (a *actScope) clearRefusal(index int, job string) {
	known := a.step.job(job).missingPod
	if known == nil {
		return
	}
	a.step.job(job).missingPod = nil
	if shown := &a.turn.Status.ToolCalls[index]; known.reason != "" && act.Open(*shown) {
		shown.Preview = ""
	}
}

// refusals returns the waits for objects that calls of the step need to start and that the API server rejects.
func (a *actScope) refusals() []v1alpha1.TurnWait {
	var waits []v1alpha1.TurnWait
	for _, call := range a.calls() {
		if call.State != v1alpha1.ToolCallStatePending || len(waits) == turnstate.MaxWaits {
			continue
		}
		name, _ := a.job(call)
		known := a.step.job(name).missingPod
		switch {
		case call.Reason == v1alpha1.ToolCallReasonServiceAccountRefused && a.step.account.refused != nil:
			waits = append(
				waits,
				refusal(call, "the ServiceAccount of its pod was not accepted: "+a.step.account.refused.Error()),
			)
		case known != nil && known.reason != "" && call.Reason == known.reason:
			waits = append(waits, refusal(call, known.why))
		}
	}
	return waits
}

func refusal(call v1alpha1.ToolCall, why string) v1alpha1.TurnWait {
	return turnstate.ClusterWait(
		call.Reason,
		fmt.Sprintf("Call %s (%s) cannot start; retrying until its startTimeout: %s", call.ID, call.Name, why),
	)
}

// missingObjects are the waits of the step's calls, other than for results and approvals: for refused objects, missing
// references and sub-agents.
func (a *actScope) missingObjects() []v1alpha1.TurnWait {
	waits := append(a.refusals(), turnstate.ReferenceWaits(a.calls(), a.step.known)...)
	waits = append(waits, turnstate.SubAgentWaits(a.calls())...)
	return waits[:min(len(waits), turnstate.MaxWaits)]
}
