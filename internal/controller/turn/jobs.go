package turn

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/act"
	"github.com/capstan-dev/capstan/internal/runtime/step"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
	"github.com/capstan-dev/capstan/internal/runtime/tool/executors"
	"github.com/capstan-dev/capstan/internal/runtime/tool/jobspec"
	"github.com/capstan-dev/capstan/internal/runtime/tool/jobstatus"
)

const (
	// gatherPods is how long the first gated pod of a step waits for the others, so that one write records them all.
	gatherPods = 500 * time.Millisecond
	// stopLimit is how long the end of a Turn waits for its containers; a lost node must not block it forever.
	stopLimit = time.Minute
	// requestLimit is how long a request without a response may still take effect: an API server's own limit for
	// requests.
	requestLimit = time.Minute
)

// start creates the Jobs of calls that may start now, and begins those that this process carries out itself.
func (r *Reconciler) start(ctx context.Context, a *actScope, indexes []int) (flow, error) {
	if mayStart, err := r.mayStart(ctx, a.scope); err != nil || !mayStart {
		return proceed, err
	}
	var failed []error
	for _, index := range indexes {
		call := a.calls()[index]
		if executors.InProcess(call.Executor) {
			if !r.callAwaitsPolicies(a, index) && !r.refusedByLimit(ctx, a, index) {
				failed = append(failed, r.startRequest(ctx, a, index))
			}
			continue
		}
		if call.Executor == v1alpha1.ToolExecutorAgent {
			if r.refusedByLimit(ctx, a, index) {
				continue
			}
			failed = append(failed, r.startSubAgent(ctx, a, index))
			continue
		}
		name, job := a.job(call)
		if job != nil || !a.step.job(name).created.IsZero() {
			continue
		}
		if r.callAwaitsPolicies(a, index) || r.refusedByLimit(ctx, a, index) {
			continue
		}
		flow, err := r.startJob(ctx, a, index, name)
		if err != nil {
			failed = append(failed, err)
		} else if flow != proceed {
			return flow, nil
		}
	}
	return proceed, errors.Join(failed...)
}

// startJob creates the Job of one call, whose intent is in the status. An existing Job is from before a crash, or from
// a second process: its name identifies the call.
func (r *Reconciler) startJob(ctx context.Context, a *actScope, index int, name string) (flow, error) {
	call := a.calls()[index]
	planned, err := step.Planned(ctx, a.config, call)
	if err != nil {
		return proceed, err
	}
	definition := planned.Object()
	if definition == nil {
		return proceed, r.deny(ctx, a, index, name, tool.Changed())
	}
	// The program of a capability connects to the API server only.
	capability := planned.BuiltinCapability()
	if capability == "" && !a.config.Effective.Network.Binds(definition.Name, &definition.Spec) {
		return proceed, r.deny(ctx, a, index, name, jobspec.Unenforceable())
	}
	if err := r.planned(ctx, a.scope); err != nil {
		return proceed, err
	}
	files, refused, ready, err := r.inputs(a, call, definition.Spec.Job)
	switch {
	case err != nil || !ready:
		return proceed, err
	case refused != nil:
		return proceed, r.deny(ctx, a, index, name, *refused)
	}
	job := jobspec.Build(jobspec.Params{
		Turn:      a.turn,
		Session:   a.session.Name,
		Step:      a.plan().Step,
		Call:      call,
		Tool:      &definition.Spec,
		ToolName:  definition.Name,
		Arguments: a.step.known.Plan(call.ID).Arguments,
		Files:     files,
		Outputs:   step.Outputs(definition.Spec.Job),
		Launcher:  r.Launcher,
		Locale:    a.plan().Locale,

		Capability:  capability,
		KeepsOutput: r.Steps.KeepsOutputs(a.config),
		TraceParent: a.turnState().TraceParent(call.ID),
	})
	refused, ready, err = CutOff(ctx, r.Client, r.Live, job)
	if err == nil && ready {
		refused, ready, err = r.provideAccount(ctx, a, index, job)
	}
	switch {
	case err != nil:
		return proceed, err
	case refused != nil:
		return proceed, r.deny(ctx, a, index, name, *refused)
	case !ready:
		return proceed, nil
	}
	return r.createJob(ctx, a, index, job)
}

// createJob requests the Job of one call. A definite rejection revokes the record of the request, unless the outcome of
// an earlier one is unknown.
func (r *Reconciler) createJob(ctx context.Context, a *actScope, index int, job *batchv1.Job) (flow, error) {
	call, name := a.calls()[index], job.Name
	requested := a.step.job(name)
	requested.requested = true
	err := r.Client.Create(ctx, job)
	switch {
	case err == nil:
		requested.created = r.Clock()
		return proceed, nil
	case apierrors.IsAlreadyExists(err):
		existing, err := r.liveJob(ctx, a.turn, name)
		if err != nil {
			return proceed, fmt.Errorf("reading the existing Job %s: %w", name, err)
		}
		if !metav1.IsControlledBy(existing, a.turn) {
			return r.failDeterminism(ctx, a, call, name)
		}
		requested.created = r.Clock()
		return proceed, nil
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		requested.clearRequest()
		return proceed, nil
	case jobstatus.RefusedForNow(err.Error()):
		requested.clearRequest()
	case apierrors.IsForbidden(err),
		apierrors.IsInvalid(err),
		apierrors.IsBadRequest(err),
		apierrors.IsRequestEntityTooLargeError(err):
		requested.clearRequest()
		return proceed, r.deny(ctx, a, index, name, jobstatus.Refused(err.Error()))
	default:
		requested.responseLostAt = r.Clock()
	}
	return proceed, fmt.Errorf("creating Job %s for call %s: %w", name, call.ID, err)
}

// clearRequest records that the API server rejected the request for a Job.
func (m *jobMemory) clearRequest() {
	if m.responseLostAt.IsZero() {
		m.requested = false
	}
}

// deny ends a call as not executed, unless a Job of it exists that the cache does not show yet: one of an earlier
// process, or of a request whose response was lost. Such a Job counts. As long as such a request of this process may
// still be on its way, only a call with a withdrawal ends. The requests of an earlier process are unknown: after them
// only a call with a withdrawal ends as not executed.
func (r *Reconciler) deny(ctx context.Context, a *actScope, index int, name string, outcome tool.Outcome) error {
	job, err := r.liveJob(ctx, a.turn, name)
	switch {
	case err == nil && metav1.IsControlledBy(job, a.turn):
		a.step.job(name).adopt(r.Clock())
		return nil
	case client.IgnoreNotFound(err) != nil:
		return fmt.Errorf("checking for Job %s of a call that was not executed: %w", name, err)
	}
	if sent := a.step.job(name).responseLostAt; !sent.IsZero() && !act.Withdrawable(a.calls()[index]) {
		if until := sent.Add(requestLimit); r.Clock().Before(until) {
			a.deadline(until)
			return nil
		}
	}
	if call := a.calls()[index]; !act.Withdrawable(call) && a.step.known.Row(call.ID).IntendedAttempt != call.Attempt {
		outcome = tool.PerhapsStarted(outcome)
	}
	a.settle(index, outcome)
	return nil
}

// adopt makes a Job that exists count as created by this process.
func (m *jobMemory) adopt(now time.Time) {
	m.requested, m.created = true, now
}

// liveJob reads a Job past the cache.
func (r *Reconciler) liveJob(ctx context.Context, turn *v1alpha1.Turn, name string) (*batchv1.Job, error) {
	job := &batchv1.Job{}
	err := r.Live.Get(ctx, types.NamespacedName{Namespace: turn.Namespace, Name: name}, job)
	return job, err
}

// openGates records the pods of AtMostOnce calls and the sub-agents, with one write for all that exist, and only then
// lets them start. A pod that is not recorded stays gated forever. A blocked Turn records none: a recorded pod counts
// as started.
func (r *Reconciler) openGates(ctx context.Context, a *actScope, record bool) (flow, error) {
	if record {
		agents, pods := r.recordSubAgents(a), r.recordPods(a)
		if agents {
			// The write also shows that the Turn waits, if it has nothing else to do.
			r.show(a, a.round.Waits())
		}
		if agents || pods {
			return writeThenRepeat(writePods), nil
		}
	}
	failed := []error{r.createSubAgents(ctx, a)}
	for _, call := range a.calls() {
		if !act.RecordedPod(call) || a.step.opened[call.PodUID] {
			continue
		}
		_, job := a.job(call)
		if job == nil {
			continue
		}
		pod := jobstatus.SelectPod(a.pods[string(job.UID)], job, call)
		if pod == nil || !gated(pod) {
			continue
		}
		if err := r.openGate(ctx, pod); err != nil {
			failed = append(failed, err)
			continue
		}
		a.step.opened[pod.UID] = true
	}
	return proceed, errors.Join(failed...)
}

// recordPods sets the UIDs of gated pods in the status, and reports whether there are any. It waits a moment for the
// pods of Jobs that were created together.
func (r *Reconciler) recordPods(a *actScope) bool {
	found, missing := map[int]*corev1.Pod{}, 0
	for i, call := range a.calls() {
		if !act.RecordsPod(call) {
			continue
		}
		name, job := a.job(call)
		switch {
		case job == nil && a.step.job(name).created.IsZero():
			continue
		case job == nil:
			missing++
			continue
		}
		if pod := jobstatus.SelectPod(
			a.pods[string(job.UID)],
			job,
			call,
		); pod != nil && gated(pod) &&
			pod.DeletionTimestamp.IsZero() {
			found[i] = pod
		} else if pod == nil {
			missing++
		}
	}
	if len(found) == 0 {
		return false
	}
	now := r.Clock()
	if a.step.gatedSince.IsZero() {
		a.step.gatedSince = now
	}
	if until := a.step.gatedSince.Add(gatherPods); missing > 0 && now.Before(until) {
		a.deadline(until)
		return false
	}
	a.step.gatedSince = time.Time{}
	for i, pod := range found {
		call := &a.turn.Status.ToolCalls[i]
		call.PodUID, call.PodName = pod.UID, podName(pod)
	}
	return true
}

// gated reports whether the pod still has the scheduling gate.
func gated(pod *corev1.Pod) bool {
	for _, gate := range pod.Spec.SchedulingGates {
		if gate.Name == v1alpha1.SchedulingGateStart {
			return true
		}
	}
	return false
}

// openGate lets the pod start. The patch applies only to exactly this pod.
func (r *Reconciler) openGate(ctx context.Context, pod *corev1.Pod) error {
	err := r.Client.Patch(ctx, pod.DeepCopy(), client.RawPatch(types.MergePatchType, jobspec.ReleasePatch(pod, r.Clock())))
	if client.IgnoreNotFound(err) != nil {
		// Also a conflict, or a gate of another controller that the cache still shows, keeps the pod from starting.
		return fmt.Errorf("removing the scheduling gate of pod %s: %w", pod.Name, err)
	}
	return nil
}

// stopTools stops the running tools of a closed step, and reports whether all have stopped. Containers that have ended
// by themselves cost no request. If the Turn continues, it does not wait: tools of a closed step cannot affect it any
// more.
func (r *Reconciler) stopTools(ctx context.Context, s *scope, step *stepMemory) (bool, error) {
	pods, err := r.pods(ctx, s.turn, s.plan().Step)
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
		if err := r.deleteRunning(ctx, s, step, jobs, pods); err != nil {
			return false, err
		}
		step.stopping = r.Clock()
	}
	if step.closed.Transition.Plan.Phase != v1alpha1.PlanPhaseComplete {
		return true, nil
	}
	// The end of the Turn guarantees that nothing runs any more, which the cache cannot prove.
	if pods, err = r.livePods(ctx, s.turn, everyStep); err != nil {
		return false, err
	}
	until := step.stopping.Add(stopLimit)
	if !anyPodAlive(pods) || !r.Clock().Before(until) {
		return true, nil
	}
	s.deadline(until)
	return false, nil
}

// anyAlive reports whether a Job could still run a container.
func anyAlive(jobs map[string]*batchv1.Job, pods map[string][]*corev1.Pod) bool {
	for _, job := range jobs {
		if alive(job, pods) {
			return true
		}
	}
	return anyPodAlive(pods)
}

// alive reports whether one Job could still run a container.
func alive(job *batchv1.Job, pods map[string][]*corev1.Pod) bool {
	return CanRun(job, pods[string(job.UID)])
}

// CanRun reports whether a Job could still run a container, according to its status and the pods that it controls.
func CanRun(job *batchv1.Job, pods []*corev1.Pod) bool {
	if len(pods) == 0 {
		return !jobEnded(job)
	}
	return slices.ContainsFunc(pods, podAlive)
}

// anyUnseen reports whether a Job that this process has requested is not in the cache: it may still be created.
func anyUnseen(jobs map[string]*batchv1.Job, step *stepMemory) bool {
	for name, requested := range step.jobs {
		if requested.requested && jobs[name] == nil {
			return true
		}
	}
	return false
}

func anyPodAlive(pods map[string][]*corev1.Pod) bool {
	for _, of := range pods {
		if slices.ContainsFunc(of, podAlive) {
			return true
		}
	}
	return false
}

func podAlive(pod *corev1.Pod) bool {
	return pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed && !toolEnded(pod)
}

// toolEnded reports whether the tool's container has ended, which the pod's phase shows a little later.
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
	return r.deleteJobsOf(ctx, turn, ofStep(turn, everyStep))
}

func (r *Reconciler) deleteJobsOf(ctx context.Context, turn *v1alpha1.Turn, selected client.DeleteAllOfOption) error {
	err := r.Client.DeleteAllOf(ctx, &batchv1.Job{}, client.InNamespace(turn.Namespace), selected,
		client.PropagationPolicy(metav1.DeletePropagationBackground))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting the Turn's Jobs: %w", err)
	}
	return nil
}

// deleteRunning deletes the Jobs of the open step that could still run, and those that may still be created. The others
// keep their pods and logs, and later steps, which another leader may have begun, are not touched.
func (r *Reconciler) deleteRunning(
	ctx context.Context, s *scope, step *stepMemory, jobs map[string]*batchv1.Job, pods map[string][]*corev1.Pod,
) error {
	running := runningCalls(jobs, pods)
	number := strconv.Itoa(int(s.plan().Step))
	for _, call := range s.turn.Status.ToolCalls {
		for attempt := range call.Attempt {
			name := jobspec.Name(s.turn.UID, s.plan().Step, call.ID, attempt+1)
			if step.job(name).requested && jobs[name] == nil && !slices.Contains(running[number], call.ID) {
				running[number] = append(running[number], call.ID)
			}
		}
	}
	return r.deleteCalls(ctx, s.turn, running)
}

// runningCalls returns the calls whose Jobs could still run a container, by the label of their step.
func runningCalls(jobs map[string]*batchv1.Job, pods map[string][]*corev1.Pod) map[string][]string {
	running := map[string][]string{}
	for _, job := range jobs {
		if step := job.Labels[v1alpha1.LabelStep]; alive(job, pods) && job.DeletionTimestamp.IsZero() {
			running[step] = append(running[step], job.Labels[v1alpha1.LabelCall])
		}
	}
	return running
}

// deleteCalls deletes the Jobs of calls, one request for each step.
func (r *Reconciler) deleteCalls(ctx context.Context, turn *v1alpha1.Turn, calls map[string][]string) error {
	for step, ids := range calls {
		call, err := labels.NewRequirement(v1alpha1.LabelCall, selection.In, ids)
		if err != nil {
			return fmt.Errorf("selecting the Jobs of calls: %w", err)
		}
		selected := labels.SelectorFromSet(labels.Set{
			v1alpha1.LabelTurnUID: string(turn.UID),
			v1alpha1.LabelStep:    step,
		}).Add(*call)
		if err := r.deleteJobsOf(ctx, turn, client.MatchingLabelsSelector{Selector: selected}); err != nil {
			return err
		}
	}
	return nil
}
