package capstantest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/tool/result"
)

// Call is a tool call that runs as a Job.
type Call struct {
	// Namespace of the Turn.
	Namespace string
	// Turn and Session are names.
	Turn, Session string
	// ID of the call, and which Attempt of it this is.
	ID      string
	Attempt int
	// Image and Command of the Tool.
	Image   string
	Command []string
	// Arguments as the tool gets them, byte for byte.
	Arguments string
	// Context ends when the pod is deleted.
	Context context.Context
}

// JobRunner says what a tool call gives: what the tool writes to stdout and stderr, and its exit code. It may take its time.
type JobRunner func(call Call) (stdout, stderr string, exit int)

// player stands in for Job controller and kubelet.
type player struct {
	client client.Client
	run    JobRunner

	mu      sync.Mutex
	running map[types.UID]context.CancelFunc
	logs    map[types.UID][]byte
	starts  map[string]int
}

func newPlayer(c client.Client, run JobRunner) *player {
	if run == nil {
		run = func(Call) (string, string, int) { return "", "", 0 }
	}
	return &player{client: c, run: run, running: map[types.UID]context.CancelFunc{}, logs: map[types.UID][]byte{}, starts: map[string]int{}}
}

func (p *player) setup(mgr ctrl.Manager) error {
	err := ctrl.NewControllerManagedBy(mgr).Named("job-player").For(&batchv1.Job{}).Owns(&corev1.Pod{}).
		WithOptions(controller.Options{MaxConcurrentReconciles: 8}).
		Complete(reconcileFunc(p.reconcile))
	if err != nil {
		return fmt.Errorf("setting up the player of Jobs: %w", err)
	}
	return nil
}

type reconcileFunc func(context.Context, ctrl.Request) (ctrl.Result, error)

// Reconcile implements reconcile.Reconciler.
func (f reconcileFunc) Reconcile(ctx context.Context, r ctrl.Request) (ctrl.Result, error) {
	return f(ctx, r)
}

// reconcile does for one Job what Job controller and kubelet would do.
func (p *player) reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	job := &batchv1.Job{}
	err := p.client.Get(ctx, req.NamespacedName, job)
	if client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, err
	}
	if err != nil || !job.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, p.collect(ctx, req.NamespacedName)
	}
	if job.Spec.Suspend != nil && *job.Spec.Suspend {
		return ctrl.Result{}, nil
	}
	pod := &corev1.Pod{}
	err = p.client.Get(ctx, podName(req.NamespacedName), pod)
	if apierrors.IsNotFound(err) {
		if finished(job) || job.Status.Active > 0 {
			return ctrl.Result{}, nil
		}
		return ctrl.Result{}, p.createPod(ctx, job)
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, ignoreConflict(p.advance(ctx, job, pod))
}

// createPod makes the Job's one pod.
func (p *player) createPod(ctx context.Context, job *batchv1.Job) error {
	key := podName(client.ObjectKeyFromObject(job))
	pod := &corev1.Pod{ObjectMeta: *job.Spec.Template.ObjectMeta.DeepCopy(), Spec: *job.Spec.Template.Spec.DeepCopy()}
	pod.Namespace, pod.Name = key.Namespace, key.Name
	pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(job, batchv1.SchemeGroupVersion.WithKind("Job"))}
	if err := p.client.Create(ctx, pod); client.IgnoreAlreadyExists(err) != nil {
		return fmt.Errorf("creating the pod of Job %s: %w", job.Name, err)
	}
	base := job.DeepCopy()
	job.Status.Active, job.Status.Ready = 1, ptr(int32(0))
	job.Status.StartTime = ptr(metav1.Now())
	return ignoreConflict(p.client.Status().Patch(ctx, job, client.MergeFrom(base)))
}

// advance runs the pod's tool once nothing holds the pod back.
func (p *player) advance(ctx context.Context, job *batchv1.Job, pod *corev1.Pod) error {
	if !metav1.IsControlledBy(pod, job) || len(pod.Spec.SchedulingGates) > 0 || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return nil
	}
	runCtx, ours := p.claim(pod.UID)
	if !ours {
		return nil
	}
	base := pod.DeepCopy()
	started := metav1.Now()
	pod.Status.Phase = corev1.PodRunning
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: v1alpha1.ToolContainerName, Image: pod.Spec.Containers[0].Image, ImageID: "sha256:0", ContainerID: "test://" + string(pod.UID),
		Started: ptr(true), State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: started}},
	}}
	if err := p.client.Status().Patch(ctx, pod, client.MergeFrom(base)); err != nil {
		p.release(pod.UID)
		return fmt.Errorf("starting pod %s: %w", pod.Name, err)
	}
	call := p.callOf(runCtx, job, pod)
	go p.finish(runCtx, job.DeepCopy(), pod.DeepCopy(), call, started)
	return nil
}

// finish runs the tool and reports its end as launcher, kubelet and Job controller would.
func (p *player) finish(ctx context.Context, job *batchv1.Job, pod *corev1.Pod, call Call, started metav1.Time) {
	stdout, stderr, exit := p.run(call)
	if ctx.Err() != nil {
		return
	}
	text, cut := result.Cut([]byte(stdout), int64(len(stdout)))
	message, frame := result.Report{
		Outcome: result.Exited, Exit: exit, Started: true, Result: text, Cut: cut, StdoutBytes: int64(len(stdout)), Stderr: result.Tail(stderr, 4<<10),
	}.Encode(result.NewNonce())
	p.mu.Lock()
	p.logs[pod.UID] = frame
	p.mu.Unlock()

	ended := metav1.Now()
	base := pod.DeepCopy()
	pod.Status.Phase = corev1.PodSucceeded
	if exit != 0 {
		pod.Status.Phase = corev1.PodFailed
	}
	pod.Status.ContainerStatuses[0].Started = ptr(false)
	pod.Status.ContainerStatuses[0].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		ExitCode: int32(exit), Message: string(message), StartedAt: started, FinishedAt: ended, ContainerID: "test://" + string(pod.UID),
	}}
	if err := p.client.Status().Patch(ctx, pod, client.MergeFrom(base)); err != nil {
		return
	}
	_ = p.endJob(ctx, job, exit)
}

// endJob says that the Job is complete, or failed.
func (p *player) endJob(ctx context.Context, job *batchv1.Job, exit int) error {
	if err := p.client.Get(ctx, client.ObjectKeyFromObject(job), job); err != nil {
		return err
	}
	base := job.DeepCopy()
	now := metav1.Now()
	job.Status.Active = 0
	add := func(kind batchv1.JobConditionType, reason string) {
		job.Status.Conditions = append(job.Status.Conditions, batchv1.JobCondition{
			Type: kind, Status: corev1.ConditionTrue, Reason: reason, LastTransitionTime: now, LastProbeTime: now,
		})
	}
	if exit == 0 {
		job.Status.Succeeded, job.Status.CompletionTime = 1, &now
		add(batchv1.JobSuccessCriteriaMet, "CompletionsReached")
		add(batchv1.JobComplete, "CompletionsReached")
	} else {
		job.Status.Failed = 1
		add(batchv1.JobFailureTarget, "BackoffLimitExceeded")
		add(batchv1.JobFailed, "BackoffLimitExceeded")
	}
	return p.client.Status().Patch(ctx, job, client.MergeFrom(base))
}

// collect does what the garbage collector does for a Job that is gone: its pod ends and goes.
func (p *player) collect(ctx context.Context, job types.NamespacedName) error {
	pod := &corev1.Pod{}
	if err := p.client.Get(ctx, podName(job), pod); err != nil {
		return client.IgnoreNotFound(err)
	}
	p.release(pod.UID)
	return client.IgnoreNotFound(p.client.Delete(ctx, pod, client.GracePeriodSeconds(0)))
}

// claim says once for each pod that it is to be run.
func (p *player) claim(uid types.UID) (context.Context, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, ok := p.running[uid]; ok {
		return nil, false
	}
	ctx, cancel := context.WithCancel(context.Background())
	p.running[uid] = cancel
	return ctx, true
}

func (p *player) release(uid types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if cancel, ok := p.running[uid]; ok {
		cancel()
	}
}

// callOf reads the call off its pod, as the launcher would.
func (p *player) callOf(ctx context.Context, job *batchv1.Job, pod *corev1.Pod) Call {
	container := pod.Spec.Containers[0]
	env := map[string]string{}
	for _, v := range container.Env {
		env[v.Name] = v.Value
	}
	attempt, _ := strconv.Atoi(pod.Labels[v1alpha1.LabelAttempt])
	command := append(append([]string{}, container.Command...), container.Args...)
	for i, word := range command {
		if word == "--" {
			command = command[i+1:]
			break
		}
	}
	call := Call{
		Namespace: job.Namespace,
		Turn:      env["CAPSTAN_TURN"],
		Session:   env["CAPSTAN_SESSION"],
		ID:        pod.Labels[v1alpha1.LabelCall],
		Attempt:   attempt,
		Image:     container.Image,
		Command:   command,
		Arguments: pod.Annotations[v1alpha1.AnnotationArguments],
		Context:   ctx,
	}
	p.mu.Lock()
	p.starts[call.Namespace+"/"+call.Turn+"/"+call.ID]++
	p.mu.Unlock()
	return call
}

// ToolLog implements the controllers' reader of container logs.
func (p *player) ToolLog(_ context.Context, pod *corev1.Pod) (io.ReadCloser, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	log, ok := p.logs[pod.UID]
	if !ok {
		return nil, errors.New("the pod has no log")
	}
	return io.NopCloser(bytes.NewReader(log)), nil
}

// Starts is how often the container of a tool call was started.
func (k *Kit) Starts(namespace, turn, call string) int {
	k.player.mu.Lock()
	defer k.player.mu.Unlock()
	return k.player.starts[namespace+"/"+turn+"/"+call]
}

func podName(job types.NamespacedName) types.NamespacedName {
	return types.NamespacedName{Namespace: job.Namespace, Name: job.Name + "-pod"}
}

func finished(job *batchv1.Job) bool {
	for _, c := range job.Status.Conditions {
		if (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue {
			return true
		}
	}
	return false
}

func ignoreConflict(err error) error {
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
