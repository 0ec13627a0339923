package capstantest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/tool/result"
)

// The behaviour of scheduler and kubelet.

// nodeName is the node that all pods run on. The Node itself is never read.
const nodeName = "capstantest"

var (
	// errStopped ends a container whose pod is to end: the launcher still reports.
	errStopped = errors.New("the pod is being deleted")
	// errGone ends a container whose pod is gone: there is nothing left to report to.
	errGone = errors.New("the pod is gone")
)

// nodeLogs are the logs of containers by the UIDs of their pods, whose content is []byte. They are on a node, and stay
// there when the kit ends whose manager has died.
var nodeLogs sync.Map

// container is a tool's container that runs.
type container struct {
	job     types.NamespacedName
	fault   Fault
	started metav1.Time
	ctx     context.Context //nolint:containedctx // It is the life of the container.
	stop    context.CancelCauseFunc
}

// advance takes a pod one step further: to a node, and to the start of its container.
func (p *player) advance(ctx context.Context, job *batchv1.Job, pod *corev1.Pod, call Call) error {
	if !metav1.IsControlledBy(pod, job) || len(pod.Spec.SchedulingGates) > 0 {
		return nil
	}
	fault := p.faultOf(call)
	if pod.Status.Phase == corev1.PodRunning {
		p.resume(job, pod, call, fault)
		return nil
	}
	if pod.Spec.NodeName == "" {
		switch fault {
		case PodDeletedBeforeStart:
			return p.client.Delete(ctx, pod)
		case Unschedulable:
			return p.patch(ctx, pod, func() {
				p.setPodCondition(
					pod,
					corev1.PodScheduled,
					corev1.ConditionFalse,
					corev1.PodReasonUnschedulable,
					"0/1 nodes are available: 1 Insufficient memory.",
				)
			})
		default: // The others come later.
		}
		if err := p.bind(ctx, pod); err != nil {
			return err
		}
	}
	switch fault {
	case ImagePullBackOff:
		return p.waits(
			ctx,
			pod,
			"ImagePullBackOff",
			fmt.Sprintf("Back-off pulling image %q: ErrImagePull: not found", call.Image),
		)
	case NeverStarts:
		return p.waits(ctx, pod, "ContainerCreating", "")
	case StartError:
		return p.ends(ctx, pod, ending{
			exit:         128,
			reason:       "StartError",
			message:      "failed to create containerd task: failed to create shim task",
			neverStarted: true,
		})
	default:
		return p.startContainer(ctx, job, pod, call, fault)
	}
}

// bind puts a pod on the node.
func (p *player) bind(ctx context.Context, pod *corev1.Pod) error {
	binding := &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		Target:     corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: nodeName},
	}
	if err := p.client.SubResource("binding").Create(ctx, pod, binding); err != nil {
		return fmt.Errorf("binding pod %s: %w", pod.Name, err)
	}
	return p.client.Get(ctx, client.ObjectKeyFromObject(pod), pod)
}

// startContainer starts the tool.
func (p *player) startContainer(ctx context.Context, job *batchv1.Job, pod *corev1.Pod, call Call, fault Fault) error {
	c, ours := p.claim(job, pod.UID, fault)
	if !ours {
		return nil
	}
	err := p.patch(ctx, pod, func() {
		pod.Status.Phase, pod.Status.StartTime = corev1.PodRunning, &c.started
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{
			p.status(pod, corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: c.started}}),
		}
		p.setPodCondition(pod, corev1.PodInitialized, corev1.ConditionTrue, "", "")
		p.setPodCondition(pod, corev1.ContainersReady, corev1.ConditionTrue, "", "")
		p.setPodCondition(pod, corev1.PodReady, corev1.ConditionTrue, "", "")
	})
	if err != nil {
		p.disown(pod.UID)
		return fmt.Errorf("starting pod %s: %w", pod.Name, err)
	}
	p.mu.Lock()
	p.starts[call.Namespace+"/"+call.Turn+"/"+call.ID]++
	p.mu.Unlock()
	go p.runContainer(c, job.DeepCopy(), pod.DeepCopy(), call)
	return nil
}

// resume continues a container that another kit has started and left behind when it ended. It is the same container: it
// was started once.
func (p *player) resume(job *batchv1.Job, pod *corev1.Pod, call Call, fault Fault) {
	c, ours := p.claim(job, pod.UID, fault)
	if !ours {
		return
	}
	for _, status := range pod.Status.ContainerStatuses {
		if running := status.State.Running; running != nil {
			c.started = running.StartedAt
		}
	}
	go p.runContainer(c, job.DeepCopy(), pod.DeepCopy(), call)
}

// runContainer runs the tool until it ends or is ended, and writes its outcome.
func (p *player) runContainer(c *container, job *batchv1.Job, pod *corev1.Pod, call Call) {
	defer c.stop(nil)
	ctx := context.Background()
	injected := map[Fault]func() error{
		PodDeleted: func() error { return p.client.Delete(ctx, pod.DeepCopy()) },
		Evicted: func() error {
			eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}
			return p.client.SubResource("eviction").Create(ctx, pod.DeepCopy(), eviction)
		},
		JobDeleted: func() error {
			return p.client.Delete(ctx, job.DeepCopy(), client.PropagationPolicy(metav1.DeletePropagationBackground))
		},
		NodeSilent: func() error { return p.silence(ctx, pod.DeepCopy()) },
	}[c.fault]
	if injected != nil {
		// A failure here is obsolete: the pod is gone already.
		_ = injected()
	}
	shown := outputOf(pod.UID)
	call.Stderr = shown
	end, ok := p.endingOf(c, job, call)
	if !ok {
		return
	}
	shown.end(end.log)
	if end.log != nil {
		nodeLogs.Store(pod.UID, end.log)
	}
	current := &corev1.Pod{}
	if p.client.Get(ctx, client.ObjectKeyFromObject(pod), current) != nil || current.UID != pod.UID || over(current) {
		return
	}
	end.started = c.started
	// A failure here is obsolete as well.
	_ = p.ends(ctx, current, end)
}

// endingOf returns the end of a container. There is none if the container is not observed any more, or if the node does
// not report it.
func (p *player) endingOf(c *container, job *batchv1.Job, call Call) (ending, bool) {
	switch c.fault {
	case OOMKilled:
		return ending{exit: 137, reason: "OOMKilled"}, true
	case Killed:
		return ending{exit: 137, reason: "Error"}, true
	case TimedOut:
		return timedOut(), true
	case NodeLost:
		return ending{lost: true}, true
	default:
		return p.await(c, job, call)
	}
}

// await waits until the tool ends, its time is over, or the container is stopped.
func (p *player) await(c *container, job *batchv1.Job, call Call) (ending, bool) {
	timeout := timeoutOf(job)
	done := make(chan ending, 1)
	toolCtx, stopTool := context.WithCancel(c.ctx)
	defer stopTool()
	if c.fault == "" || c.fault == OutputLost {
		call.Context = toolCtx
		go func() { done <- p.runWithFiles(job, call) }()
	}
	deadline := make(chan struct{})
	if timeout > 0 {
		go func() {
			if p.clock.Reach(toolCtx, c.started.Add(timeout)) {
				close(deadline)
			}
		}()
	}
	select {
	case end := <-done:
		if c.fault == OutputLost {
			end = ending{exit: end.exit, reason: end.reason}
		}
		return end, c.ctx.Err() == nil
	case <-deadline:
		return timedOut(), c.fault != NodeSilent
	case <-c.ctx.Done():
		stopped := reportOf(result.Report{Outcome: result.Terminated, Exit: result.ExitTerminated, Started: true})
		return stopped, errors.Is(context.Cause(c.ctx), errStopped) && c.fault != NodeSilent
	}
}

// terminate ends a pod that was deleted.
func (p *player) terminate(ctx context.Context, pod *corev1.Pod, call Call) error {
	running := p.containerOf(pod.UID)
	switch {
	case running != nil:
		running.stop(errStopped)
		return nil
	case pod.Spec.NodeName == "":
		return p.patch(ctx, pod, func() { pod.Status.Phase = corev1.PodFailed })
	case pod.Status.Phase == corev1.PodRunning:
		// Another kit has started it, and its process may be gone.
		if p.faultOf(call) == NodeSilent {
			return nil
		}
		return p.ends(
			ctx,
			pod,
			reportOf(result.Report{Outcome: result.Terminated, Exit: result.ExitTerminated, Started: true}),
		)
	default:
		return p.ends(ctx, pod, ending{
			exit:      137,
			reason:    "ContainerStatusUnknown",
			message:   "The container could not be located when the pod was deleted.",
			neverSeen: true,
		})
	}
}

// silence is a node that has stopped responding: its pods are deleted and do not report their end.
func (p *player) silence(ctx context.Context, pod *corev1.Pod) error {
	err := p.patch(ctx, pod, func() {
		p.setPodCondition(pod, corev1.PodReady, corev1.ConditionFalse, "", "")
		p.setPodCondition(
			pod,
			corev1.DisruptionTarget,
			corev1.ConditionTrue,
			"DeletionByTaintManager",
			"Taint manager: deleting due to NoExecute taint",
		)
	})
	if err != nil {
		return err
	}
	return p.client.Delete(ctx, pod)
}

// claim returns true once for each pod, for the start of its container.
func (p *player) claim(job *batchv1.Job, uid types.UID, fault Fault) (*container, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, ok := p.containers[uid]; ok {
		return nil, false
	}
	ctx, stop := context.WithCancelCause(context.Background())
	c := &container{
		job: client.ObjectKeyFromObject(
			job,
		),
		fault:   fault,
		started: metav1.NewTime(p.clock.Now()).Rfc3339Copy(),
		ctx:     ctx,
		stop:    stop,
	}
	p.containers[uid] = c
	return c, true
}

// disown takes a claim back: the container was not started.
func (p *player) disown(uid types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.containers, uid)
}

// stopContainers ends the containers of a Job whose pod is gone.
func (p *player) stopContainers(job types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.containers {
		if c.job == job {
			c.stop(errGone)
		}
	}
}

func (p *player) containerOf(uid types.UID) *container {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.containers[uid]
}

// runWithFiles is the end of a tool that has ended by itself. It gets the files of its Job, and returns those that it
// has created or changed.
func (p *player) runWithFiles(job *batchv1.Job, call Call) ending {
	settings := settingsOf(job)
	var inputs *result.Files
	if text, shares := job.Spec.Template.Annotations[v1alpha1.AnnotationFiles]; shares {
		var err error
		if inputs, err = result.DecodeInputs(text); err != nil {
			return reportOf(result.Report{
				Outcome: result.StartError, Exit: result.ExitLauncher, Stderr: err.Error(),
			})
		}
		call.Files = inputs.Contents()
	}
	stdout, stderr, exit := p.run(call)
	report := result.ReportOf(stdout, stderr, exit)
	var files *result.Files
	if inputs != nil {
		var outputs []string
		// The manager writes a list of paths.
		_ = json.Unmarshal([]byte(settings[result.EnvOutputs]), &outputs)
		files = inputs.Returned(call.Files, outputs)
	}
	return reportOf(report.WithFiles(files, stdout, settings[result.EnvKeepOutput] != ""))
}

// settingsOf are the variables of the container of a Job.
func settingsOf(job *batchv1.Job) map[string]string {
	settings := map[string]string{}
	for _, v := range job.Spec.Template.Spec.Containers[0].Env {
		settings[v.Name] = v.Value
	}
	return settings
}

func timedOut() ending {
	return reportOf(result.Report{Outcome: result.TimedOut, Exit: result.ExitTimeout, Started: true})
}

// reportOf is the end of a container whose launcher has reported.
func reportOf(report result.Report) ending {
	message, log := report.Encode(result.NewNonce())
	end := ending{exit: int32(report.Exit), reason: "Completed", message: string(message), log: log}
	if report.Exit != 0 {
		end.reason = "Error"
	}
	return end
}
