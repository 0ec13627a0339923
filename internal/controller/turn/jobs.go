package turn

import (
	"context"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
)

const (
	// gatherPods is how long the first gated pod of a step waits for the others, so that one write records them all.
	gatherPods = 500 * time.Millisecond
	// stopLimit is how long the end of a Turn waits for its containers; a node that is gone must not hold it for ever.
	stopLimit = time.Minute
)

// start makes the Jobs, and sends the requests, of the calls that may start now.
func (r *Reconciler) start(ctx context.Context, a *actScope) error {
	for _, index := range tool.Startable(a.calls(), a.config.Effective.ToolConcurrency, tool.MaxConcurrency) {
		call := a.calls()[index]
		if call.Executor == v1alpha1.ExecutorHTTP {
			r.startRequest(a, index)
			continue
		}
		name, job := a.job(call)
		if job != nil || !a.step.created[name].IsZero() {
			continue
		}
		if at := call.NotBefore; at != nil && r.Clock().Before(at.Time) {
			a.deadline(at.Time)
			continue
		}
		if err := r.startJob(ctx, a, index, name); err != nil {
			return err
		}
	}
	return nil
}

// startJob makes the Job of one call. Its intent is in the status. A Job that exists already is ours from before a crash, or a second
// process's: its name says for which call it is.
func (r *Reconciler) startJob(ctx context.Context, a *actScope, index int, name string) error {
	call := a.calls()[index]
	definition := a.config.Tools[call.Name]
	if definition == nil || definition.Generation != call.ToolGeneration {
		a.settle(index, tool.Changed())
		return nil
	}
	if !a.config.Effective.Network.Binds(definition.Name, &definition.Spec) {
		a.settle(index, tool.Unenforceable())
		return nil
	}
	job := tool.BuildJob(tool.JobParams{
		Turn:      a.turn,
		Session:   a.session.Name,
		Step:      a.plan().Step,
		Call:      call,
		Tool:      &definition.Spec,
		ToolName:  definition.Name,
		Arguments: a.step.planned[call.ID].Arguments,
		Launcher:  r.Launcher,
		Locale:    a.plan().Locale,

		TraceParent: r.Host.TraceParent(a.hostTurn(), call.ID),
	})
	if refused, ready, err := r.cutOff(ctx, job); err != nil || !ready {
		if refused != nil {
			a.settle(index, *refused)
		}
		return err
	}
	a.step.attempted[name] = true
	err := r.Client.Create(ctx, job)
	switch {
	case err == nil:
	case apierrors.IsAlreadyExists(err):
		if err := r.adoptJob(ctx, a.turn, name); err != nil {
			return err
		}
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		delete(a.step.attempted, name)
		return nil
	case tool.RefusedForNow(err.Error()):
		delete(a.step.attempted, name)
		return fmt.Errorf("creating Job %s for call %s: %w", name, call.ID, err)
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err), apierrors.IsBadRequest(err), apierrors.IsRequestEntityTooLargeError(err):
		delete(a.step.attempted, name)
		a.settle(index, tool.Refused(err.Error()))
		return nil
	default:
		return fmt.Errorf("creating Job %s for call %s: %w", name, call.ID, err)
	}
	a.step.created[name] = r.Clock()
	return nil
}

// adoptJob makes sure that a Job of our name belongs to the Turn.
func (r *Reconciler) adoptJob(ctx context.Context, turn *v1alpha1.Turn, name string) error {
	job := &batchv1.Job{}
	if err := r.Live.Get(ctx, types.NamespacedName{Namespace: turn.Namespace, Name: name}, job); err != nil {
		return fmt.Errorf("reading Job %s, which exists already: %w", name, err)
	}
	if !metav1.IsControlledBy(job, turn) {
		return fmt.Errorf("the Job %s exists already and does not belong to the Turn", name)
	}
	return nil
}

// openGates records the pods of AtMostOnce calls, one write for all that are there, and only then lets them start. A pod that is not
// recorded stays gated for ever.
func (r *Reconciler) openGates(ctx context.Context, a *actScope) (flow, error) {
	if recorded, flow, err := r.recordPods(ctx, a); recorded || err != nil {
		return flow, err
	}
	for _, call := range a.calls() {
		if call.PodUID == "" || call.State.Settled() || a.step.opened[call.PodUID] {
			continue
		}
		_, job := a.job(call)
		if job == nil {
			continue
		}
		pod := tool.SelectPod(a.pods[string(job.UID)], job, call)
		if pod == nil || !gated(pod) {
			continue
		}
		if err := r.openGate(ctx, pod); err != nil {
			return stop, err
		}
		a.step.opened[pod.UID] = true
	}
	return proceed, nil
}

// recordPods writes the UIDs of gated pods into the status. It waits a moment for the pods of Jobs that were made together.
func (r *Reconciler) recordPods(ctx context.Context, a *actScope) (bool, flow, error) {
	found, missing := map[int]types.UID{}, 0
	for i, call := range a.calls() {
		if call.Executor != v1alpha1.ExecutorJob || call.SideEffect != v1alpha1.AtMostOnce || call.PodUID != "" || call.State.Settled() {
			continue
		}
		name, job := a.job(call)
		switch {
		case job == nil && a.step.created[name].IsZero():
			continue
		case job == nil:
			missing++
			continue
		}
		if pod := tool.SelectPod(a.pods[string(job.UID)], job, call); pod != nil && gated(pod) && pod.DeletionTimestamp.IsZero() {
			found[i] = pod.UID
		} else if pod == nil {
			missing++
		}
	}
	if len(found) == 0 {
		return false, proceed, nil
	}
	now := r.Clock()
	if a.step.gatedSince.IsZero() {
		a.step.gatedSince = now
	}
	if until := a.step.gatedSince.Add(gatherPods); missing > 0 && now.Before(until) {
		a.deadline(until)
		return false, proceed, nil
	}
	a.step.gatedSince = time.Time{}
	for i, uid := range found {
		a.turn.Status.ToolCalls[i].PodUID = uid
	}
	flow, err := r.write(ctx, a.scope, writePods)
	return true, flow, err
}

// gated says that the pod waits for us.
func gated(pod *corev1.Pod) bool {
	for _, gate := range pod.Spec.SchedulingGates {
		if gate.Name == v1alpha1.SchedulingGateStart {
			return true
		}
	}
	return false
}

// openGate lets the pod start. The patch holds for this very pod only.
func (r *Reconciler) openGate(ctx context.Context, pod *corev1.Pod) error {
	err := r.Client.Patch(ctx, pod.DeepCopy(), client.RawPatch(types.MergePatchType, tool.ReleasePatch(pod, r.Clock())))
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) || apierrors.IsInvalid(err) {
		// The pod is gone, or its gate is open already. What became of it will be observed.
		return nil
	}
	if err != nil {
		return fmt.Errorf("opening the gate of pod %s: %w", pod.Name, err)
	}
	return nil
}

// stopTools ends what still runs of a step that is closed, and says whether nothing does any more. Containers that have ended by themselves
// cost no call. A step that goes on waits for nothing: what it leaves behind has no say any more.
func (r *Reconciler) stopTools(ctx context.Context, s *scope, step *stepMemory) (bool, error) {
	pods, err := r.pods(ctx, r.Client, s.turn, s.plan().Step)
	if err != nil {
		return false, err
	}
	jobs, err := r.jobs(ctx, s.turn, s.plan().Step)
	if err != nil {
		return false, err
	}
	if !anyAlive(jobs, pods) && !anyUnseen(jobs, step) {
		return true, nil
	}
	if step.stopping.IsZero() {
		if err := r.deleteJobs(ctx, s.turn); err != nil {
			return false, err
		}
		step.stopping = r.Clock()
	}
	if step.closed.Transition.Plan.Phase != v1alpha1.PlanComplete {
		return true, nil
	}
	// What the Turn's end promises is that nothing runs any more, so that the cache is not good enough.
	if pods, err = r.pods(ctx, r.Live, s.turn, everyStep); err != nil {
		return false, err
	}
	until := step.stopping.Add(stopLimit)
	if !anyPodAlive(pods) || !r.Clock().Before(until) {
		return true, nil
	}
	s.deadline(until)
	return false, nil
}

// anyAlive says that a Job could still run something.
func anyAlive(jobs map[string]*batchv1.Job, pods map[string][]*corev1.Pod) bool {
	for _, job := range jobs {
		if len(pods[string(job.UID)]) == 0 && !jobEnded(job) {
			return true
		}
	}
	return anyPodAlive(pods)
}

// anyUnseen says that a Job which this process has asked for is not in the cache: it may be on its way.
func anyUnseen(jobs map[string]*batchv1.Job, step *stepMemory) bool {
	for name := range step.attempted {
		if jobs[name] == nil {
			return true
		}
	}
	return false
}

func anyPodAlive(pods map[string][]*corev1.Pod) bool {
	for _, of := range pods {
		for _, pod := range of {
			if pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed && !toolEnded(pod) {
				return true
			}
		}
	}
	return false
}

// toolEnded says that the tool's container has ended, which the pod's phase tells a little later.
func toolEnded(pod *corev1.Pod) bool {
	for _, status := range pod.Status.ContainerStatuses {
		if status.Name == v1alpha1.ToolContainerName {
			return status.State.Terminated != nil
		}
	}
	return false
}

func jobEnded(job *batchv1.Job) bool {
	for _, c := range job.Status.Conditions {
		if (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue {
			return true
		}
	}
	return false
}

// deleteJobs deletes the Turn's Jobs and, in the background, their pods.
func (r *Reconciler) deleteJobs(ctx context.Context, turn *v1alpha1.Turn) error {
	err := r.Client.DeleteAllOf(ctx, &batchv1.Job{}, client.InNamespace(turn.Namespace),
		client.MatchingLabels{v1alpha1.LabelTurnUID: string(turn.UID)}, client.PropagationPolicy(metav1.DeletePropagationBackground))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting the Turn's Jobs: %w", err)
	}
	return nil
}
