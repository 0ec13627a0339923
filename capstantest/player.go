package capstantest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest/job"
	"github.com/capstan-dev/capstan/internal/controller/wake"
	"github.com/capstan-dev/capstan/internal/runtime/tool/result"
)

// Call is a tool call that runs as a Job.
type Call = job.Call

// JobRunner returns the result of a tool call: the tool's stdout and stderr, and its exit code. It may take its time.
// The same function serves package inprocess.
type JobRunner = job.Runner

// player stands in for Job controller, scheduler, kubelet and garbage collector.
type player struct {
	client client.Client
	run    JobRunner
	clock  *Clock
	wakes  *wake.Source

	mu         sync.Mutex
	containers map[types.UID]*container
	starts     map[string]int
	injections []*injection
}

func newPlayer(c client.Client, run JobRunner, clock *Clock) *player {
	if run == nil {
		run = func(Call) (string, string, int) { return "", "", 0 }
	}
	return &player{
		client: c, run: run, clock: clock, wakes: &wake.Source{},
		containers: map[types.UID]*container{}, starts: map[string]int{},
	}
}

func (p *player) setup(mgr ctrl.Manager) error {
	ours := builder.WithPredicates(
		predicate.NewPredicateFuncs(func(o client.Object) bool { return idOf(o.GetLabels()) != "" }),
	)
	err := ctrl.NewControllerManagedBy(mgr).Named("job-player").For(&batchv1.Job{}, ours).Owns(&corev1.Pod{}, ours).
		WatchesRawSource(p.wakes).
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

// enqueueJobs looks at every Job again, because other faults apply to them.
func (p *player) enqueueJobs() {
	var jobs batchv1.JobList
	ours := client.MatchingLabels{v1alpha1.LabelManagedBy: v1alpha1.ManagedByCapstan}
	if err := p.client.List(context.Background(), &jobs, ours); err != nil {
		return // The API server is gone, and everything with it.
	}
	for i := range jobs.Items {
		p.wakes.Wake(client.ObjectKeyFromObject(&jobs.Items[i]))
	}
}

// reconcile handles one Job as the cluster would.
func (p *player) reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	job := &batchv1.Job{}
	err := p.client.Get(ctx, req.NamespacedName, job)
	if client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, err
	}
	if err != nil || !job.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, ignoreConflict(p.collect(ctx, req.NamespacedName))
	}
	pod := &corev1.Pod{}
	err = p.client.Get(ctx, podName(req.NamespacedName), pod)
	if client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, err
	}
	result, err := p.play(ctx, job, pod, err == nil)
	return result, ignoreConflict(err)
}

// play takes the next step with a Job and its pod, if it has one.
func (p *player) play(ctx context.Context, job *batchv1.Job, pod *corev1.Pod, exists bool) (ctrl.Result, error) {
	call := callOf(job)
	switch {
	case exists && over(pod):
		return p.account(ctx, job, pod)
	case exists && !pod.DeletionTimestamp.IsZero():
		return ctrl.Result{}, p.terminate(ctx, pod, call)
	case finished(job):
		return ctrl.Result{}, nil
	case p.faultOf(call) == JobSuspended && !exists && !suspended(job):
		return ctrl.Result{}, p.suspend(ctx, job, true)
	case p.faultOf(call) != JobSuspended && job.Annotations[suspendedByKit] != "" && suspended(job):
		return ctrl.Result{}, p.suspend(ctx, job, false)
	case suspended(job):
		return ctrl.Result{}, p.deleteSuspendedPod(ctx, job, pod, exists)
	case !exists && job.Status.Active > 0:
		p.stopContainers(client.ObjectKeyFromObject(job))
		return ctrl.Result{}, p.endJob(ctx, job, false)
	case !exists:
		return ctrl.Result{}, p.createPod(ctx, job, p.faultOf(call) == PodRefused)
	default:
		return ctrl.Result{}, p.advance(ctx, job, pod, call)
	}
}

// callOf reads the call off its Job, as the launcher would.
func callOf(job *batchv1.Job) Call {
	template := job.Spec.Template
	if len(template.Spec.Containers) == 0 {
		return Call{Namespace: job.Namespace}
	}
	container := template.Spec.Containers[0]
	env := map[string]string{}
	for _, v := range container.Env {
		env[v.Name] = v.Value
	}
	attempt, _ := strconv.Atoi(template.Labels[v1alpha1.LabelAttempt])
	command := slices.Concat(container.Command, container.Args)
	if at := slices.Index(command, "--"); at >= 0 {
		command = command[at+1:]
	}
	return Call{
		Namespace: job.Namespace,
		Turn:      env[result.EnvTurn],
		Session:   env[result.EnvSession],
		Tool:      env[result.EnvTool],
		ID:        idOf(template.Labels),
		Attempt:   attempt,
		Image:     container.Image,
		Command:   command,
		Arguments: template.Annotations[v1alpha1.AnnotationArguments],

		IdempotencyKey: env[result.EnvIdempotencyKey],
		Locale:         env[result.EnvLocale],
	}
}

// idOf returns the id of the call, or of the background task, of a Job or a pod; empty for others.
func idOf(labels map[string]string) string {
	return cmp.Or(labels[v1alpha1.LabelCall], labels[v1alpha1.LabelTask])
}

// timeoutOf returns the timeout in the launcher's configuration; 0 for none.
func timeoutOf(job *batchv1.Job) time.Duration {
	for _, container := range job.Spec.Template.Spec.Containers {
		for _, v := range container.Env {
			if timeout, err := time.ParseDuration(v.Value); v.Name == result.EnvTimeout && err == nil {
				return timeout
			}
		}
	}
	return 0
}

// ToolLog implements the controllers' reader of container logs.
func (p *player) ToolLog(_ context.Context, pod *corev1.Pod) (io.ReadCloser, error) {
	stored, _ := nodeLogs.Load(pod.UID)
	log, ok := stored.([]byte)
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

func ignoreConflict(err error) error {
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
