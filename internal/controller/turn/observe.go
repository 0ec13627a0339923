package turn

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller/executor"
	"github.com/capstan-dev/capstan/internal/runtime/act"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
	"github.com/capstan-dev/capstan/internal/runtime/tool/jobspec"
	"github.com/capstan-dev/capstan/internal/runtime/tool/jobstatus"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

// ReadCloser is the log of a container.
type ReadCloser = io.ReadCloser

const (
	// progressInterval is the minimum time between two writes that only show progress.
	progressInterval = time.Second
	// cacheLag is how long the cache may take to show a new Job before it is read past the cache.
	cacheLag = 5 * time.Second
)

// observe determines the state of one call that a process carries out. A call that cannot be observed is not started.
func (r *Reconciler) observe(ctx context.Context, a *actScope, index int) (flow, error) {
	call := a.calls()[index]
	var flow flow
	var err error
	switch outcome, done := a.step.known.Outcome(call.ID); {
	case done:
		act.Describe(&a.turn.Status.ToolCalls[index], outcome)
		a.showPod(index)
		return proceed, nil
	case call.Executor == v1alpha1.ToolExecutorJob:
		flow, err = r.observeJob(ctx, a, index)
	case call.Executor == v1alpha1.ToolExecutorAgent:
		err = r.observeSubAgent(ctx, a, index)
	default:
		flow, err = r.observeRequest(ctx, a, index)
	}
	if err != nil {
		a.round.SetUnobserved(index)
		return proceed, fmt.Errorf("call %s: %w", call.ID, err)
	}
	return flow, nil
}

// observeJob determines the state of one call that runs as a Job.
func (r *Reconciler) observeJob(ctx context.Context, a *actScope, index int) (flow, error) {
	call := a.calls()[index]
	name, job := a.job(call)
	if job == nil {
		return proceed, r.observeMissing(ctx, a, index, name)
	}
	a.step.job(name).seen = true
	if !jobspec.Matches(job, a.turn.UID, call) {
		return r.failDeterminism(ctx, a, call, name)
	}
	pod, err := r.podOf(ctx, a, call, job)
	if err != nil {
		return stop, err
	}
	if behind, err := r.lacksRecord(ctx, a.scope, call, pod); err != nil || behind {
		return stop, err
	}
	start, run := jobspec.Timeouts(call, a.toolSpec(call))
	seen := jobstatus.Observe(job, pod, call, start, run, r.Clock())
	if pod == nil && seen.Phase == jobstatus.PhaseDone {
		// The watches of Jobs and pods have no common order: a call must not end because only the cache lacks its pod.
		if pod, err = r.livePod(ctx, a, call, job); err != nil {
			return stop, err
		}
		seen = jobstatus.Observe(job, pod, call, start, run, r.Clock())
	}
	a.deadline(seen.Deadline)
	if seen.StartFailure != nil {
		a.step.known.Row(call.ID).StartFailure = seen.StartFailure
	}
	if seen.Stop && pod != nil {
		if err := r.stopPod(ctx, pod); err != nil {
			return stop, err
		}
	}
	if pod == nil && seen.Phase == jobstatus.PhasePending && seen.Outcome.Reason == v1alpha1.ToolCallReasonStarting {
		r.renewAccount(ctx, a, job, seen.Deadline.Add(-start))
	}
	if pod != nil {
		a.clearRefusal(index, name)
	}
	if seen.Phase != jobstatus.PhaseDone {
		shown := &a.turn.Status.ToolCalls[index]
		if shown.State != seen.Outcome.State || shown.Reason != seen.Outcome.Reason {
			shown.PodName = podName(pod)
		}
		shown.State, shown.Reason = seen.Outcome.State, seen.Outcome.Reason
		if pod == nil && shown.Reason == v1alpha1.ToolCallReasonStarting {
			r.explainMissingPod(ctx, a, index, job, seen.Deadline.Add(-start))
		}
		return proceed, nil
	}
	if pod != nil {
		a.turn.Status.ToolCalls[index].PodName = podName(pod)
	}
	outcome := tool.NeededConnection(a.toolSpec(call), seen.Outcome, turnstate.Waits(a.turnState()))
	if outcome.Asked != nil {
		return r.ask(ctx, a, index, *outcome.Asked)
	}
	if !r.Activities.Known(a.afterKey(call)) {
		outcome = a.step.known.ExplainDeletion(call.ID, outcome)
		if outcome.NeedsLog {
			var done bool
			var err error
			if outcome, done, err = r.readLog(a, call, pod, outcome); err != nil || !done {
				a.turn.Status.ToolCalls[index].State = v1alpha1.ToolCallStateRunning
				return proceed, err
			}
		}
		if outcome.Reason == v1alpha1.ToolCallReasonNoPod {
			outcome = r.explainPodFailure(ctx, job, outcome)
		}
	}
	return proceed, r.concludeObserved(ctx, a, index, outcome)
}

// maxPodName is enough for the pods that the Job controller creates for tool Jobs: 25 characters of the Job's name, and
// 6 more.
const maxPodName = 32

// podName returns the name of a call's pod for status; empty for none. A foreign pod with the same labels may have a
// longer name.
func podName(pod *corev1.Pod) string {
	if pod == nil || len(pod.Name) > maxPodName {
		return ""
	}
	return pod.Name
}

// conclude treats the end of an attempt as the end of its call, unless the call may be retried.
func (r *Reconciler) conclude(a *actScope, index int, outcome tool.Outcome) {
	call, known := a.calls()[index], a.step.known.Done(a.calls()[index].ID)
	if outcome, ended := a.round.EndAttempt(index, outcome, r.Clock()); ended && !known && call.Attempt > 0 {
		countCall(call.Executor, outcome)
	}
}

// podOf returns the pod that counts for a call. A recorded pod that the cache does not have is read live: the watches
// of Turns and pods have no common order, and a pod that seems gone may be the one that runs.
func (r *Reconciler) podOf(
	ctx context.Context,
	a *actScope,
	call v1alpha1.ToolCall,
	job *batchv1.Job,
) (*corev1.Pod, error) {
	pod := jobstatus.SelectPod(a.pods[string(job.UID)], job, call)
	if call.PodUID == "" || (pod != nil && pod.UID == call.PodUID) {
		return pod, nil
	}
	return r.livePod(ctx, a, call, job)
}

// livePod returns the pod that counts for a call, read past the cache.
func (r *Reconciler) livePod(
	ctx context.Context, a *actScope, call v1alpha1.ToolCall, job *batchv1.Job,
) (*corev1.Pod, error) {
	live, err := r.livePods(ctx, a.turn, a.plan().Step)
	if err != nil {
		return nil, err
	}
	return jobstatus.SelectPod(live[string(job.UID)], job, call), nil
}

// observeMissing decides about a call whose Job the cache does not have. A Job that has not been created yet is not
// handled here. A Job that was there, according to this process or to status, is gone only if a live read proves it:
// that ends the attempt.
func (r *Reconciler) observeMissing(ctx context.Context, a *actScope, index int, name string) error {
	call := a.calls()[index]
	requested := a.step.job(name)
	ours := !requested.created.IsZero()
	shown := &a.turn.Status.ToolCalls[index]
	if !ours && a.step.known.RecallRepeatable(shown) {
		return nil
	}
	if call.PodUID == "" && !ours && !requested.seen && !act.HadJob(call) {
		return nil
	}
	if lag := requested.created.Add(cacheLag); ours && !requested.seen && r.Clock().Before(lag) {
		a.deadline(lag)
		return nil
	}
	job, err := r.liveJob(ctx, a.turn, name)
	if err == nil {
		if !ours && metav1.IsControlledBy(job, a.turn) {
			requested.adopt(r.Clock())
		}
		a.deadline(r.Clock().Add(cacheLag))
		return nil
	}
	if !apierrors.IsNotFound(err) {
		return fmt.Errorf("reading Job %s past the cache: %w", name, err)
	}
	if a.step.known.RecallSettled(shown) {
		return nil
	}
	return r.concludeObserved(ctx, a, index, jobstatus.Observe(nil, nil, call, 0, 0, r.Clock()).Outcome)
}

// logLost reports whether the output of a call is lost, after an error of reading its log.
func (m *stepMemory) logLost(call string, err error) bool {
	return m.known.Row(call).LogLost(errors.Is(err, jobstatus.ErrResultLost) || apierrors.IsNotFound(err))
}

// logBytes is the memory of a log with files: the log, the files in base64, and the files themselves.
const logBytes = 6 << 20

// readOutcome is an outcome whose result was read from a log. Its memory counts until a pass takes it.
type readOutcome tool.Outcome

// Bytes implements executor.Sized.
func (o readOutcome) Bytes() int64 { return act.TextBytes(tool.Outcome(o)) }

// toolOutput is a response that was read from a journal. Its memory counts until a pass takes it.
type toolOutput string

// Bytes implements executor.Sized.
func (o toolOutput) Bytes() int64 { return int64(len(o)) }

// readLog fetches a result that did not fit into the termination message, and stores the files of the tool, as an
// activity: the call is not settled before they are in the Session.
func (r *Reconciler) readLog(
	a *actScope,
	call v1alpha1.ToolCall,
	pod *corev1.Pod,
	outcome tool.Outcome,
) (tool.Outcome, bool, error) {
	key := executor.Key{Turn: a.turn.UID, Step: a.plan().Step, Call: call.ID, Attempt: call.Attempt}
	pod = pod.DeepCopy()
	turn, config, need := a.turnState(), a.config, a.need()
	if outcome.HasFiles {
		need.Bytes = logBytes
	}
	value, done, err := r.do(a.scope, a.step, key, need, func(ctx context.Context) (any, error) {
		log, err := r.Logs.ToolLog(ctx, pod)
		if err != nil {
			return nil, fmt.Errorf("reading the log of pod %s: %w", pod.Name, err)
		}
		defer func() { _ = log.Close() }()
		text, files, err := jobstatus.ReadResult(log, jobstatus.TerminationMessage(pod))
		if err != nil {
			return nil, err
		}
		read := outcome
		read.Result, read.NeedsLog, read.HasFiles = &text, false, false
		if files != nil && len(files.Output) > 0 {
			read.Output = &tool.Output{Content: files.Output, Total: jobstatus.StdoutBytes(pod)}
		}
		read, err = r.Steps.StoreFiles(ctx, turn, config, call, read, files)
		return readOutcome(read), err
	})
	if err != nil && a.step.logLost(call.ID, err) {
		return jobstatus.LostOutput(call, outcome), true, nil
	}
	if err != nil || !done {
		return outcome, false, err
	}
	read, ok := value.(readOutcome)
	if !ok {
		return outcome, false, fmt.Errorf("unexpected result of call %s: %T", call.ID, value)
	}
	return tool.Outcome(read), true, nil
}

// stopPod deletes a pod whose container must not continue. Its Job stays, so that the last state of the pod can still
// be observed.
func (r *Reconciler) stopPod(ctx context.Context, pod *corev1.Pod) error {
	if !pod.DeletionTimestamp.IsZero() {
		return nil
	}
	if err := r.Client.Delete(
		ctx,
		pod.DeepCopy(),
		client.Preconditions{UID: &pod.UID},
	); client.IgnoreNotFound(err) != nil &&
		!apierrors.IsConflict(err) {
		return fmt.Errorf("deleting pod %s: %w", pod.Name, err)
	}
	return nil
}

// failDeterminism ends the Turn: a Job with the call's name differs from the plan (DUR-05).
func (r *Reconciler) failDeterminism(
	ctx context.Context,
	a *actScope,
	call v1alpha1.ToolCall,
	job string,
) (flow, error) {
	violation := turnstate.DeterminismViolation(call, job)
	a.step.violation = &violation
	return r.endViolation(ctx, a)
}

// endViolation ends the Turn because of the violation that its step has found, once its calls are withdrawn.
func (r *Reconciler) endViolation(ctx context.Context, a *actScope) (flow, error) {
	if flow := a.withdraw(); flow != proceed {
		return flow, nil
	}
	known, err := r.known(ctx, a.scope)
	if err != nil {
		return stop, err
	}
	closed, err := r.Steps.Fail(ctx, a.turnState(), *a.step.violation, known)
	if err != nil {
		return stop, err
	}
	a.step.closed = closed
	return again, nil
}

// nowSeconds returns the current time with the resolution of conditions.
func nowSeconds(now time.Time) metav1.Time {
	return metav1.NewTime(now.Truncate(time.Second))
}
