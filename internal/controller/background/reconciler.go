package background

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller/fieldindex"
	"github.com/capstan-dev/capstan/internal/controller/policies"
	"github.com/capstan-dev/capstan/internal/controller/turn"
	"github.com/capstan-dev/capstan/internal/controller/wake"
	"github.com/capstan-dev/capstan/internal/runtime/background"
	"github.com/capstan-dev/capstan/internal/runtime/record"
	"github.com/capstan-dev/capstan/internal/runtime/tool/jobspec"
)

// DefaultMaxPerNamespace is the number of background tasks of a namespace.
const DefaultMaxPerNamespace = 100

// Reconciler runs the background tasks of Sessions.
type Reconciler struct {
	// Client reads from the cache and writes.
	Client client.Client
	// Live reads past the cache.
	Live client.Reader
	// Records has the tasks.
	Records record.Store
	// Logs reads the logs of tool containers.
	Logs turn.LogReader
	// Launcher is added to tool pods.
	Launcher jobspec.Launcher
	// Policies verifies that the admission policies of the installation are in force. Nil: they are assumed to be.
	Policies *policies.Verifier
	// Clock returns the current time.
	Clock func() time.Time
	// Retention is how long a Job that has ended is kept.
	Retention time.Duration
	// MaxPerNamespace is the number of tasks of a namespace whose ends are yet to be delivered.
	MaxPerNamespace int32
	// Wakes enqueues Sessions here, and SessionWakes at their own reconciler.
	Wakes, SessionWakes *wake.Source

	unread unread
	hidden hidden
}

// +kubebuilder:rbac:groups=capstan.dev,resources=sessions;tools,verbs=get;list;watch
// +kubebuilder:rbac:groups=capstan.dev,resources=sessions/status,verbs=patch
// +kubebuilder:rbac:groups=capstan.dev,resources=turns,verbs=create;get
// +kubebuilder:rbac:groups=capstan.dev,resources=records,verbs=get;create;update;delete
// +kubebuilder:rbac:groups=batch,resources=jobs,verbs=get;list;watch;create;delete
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch;patch;delete
// +kubebuilder:rbac:groups="",resources=pods/log,verbs=get
// +kubebuilder:rbac:groups="",resources=serviceaccounts,verbs=create
// +kubebuilder:rbac:groups=networking.k8s.io,resources=networkpolicies,verbs=list;create

// scope is the data of one pass.
type scope struct {
	session *v1alpha1.Session
	of      background.Session
	tasks   *background.Tasks
	requeue time.Duration
}

// Reconcile brings the background tasks of one Session up to date.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	session := &v1alpha1.Session{}
	if err := r.Client.Get(ctx, req.NamespacedName, session); err != nil {
		if apierrors.IsNotFound(err) {
			r.hidden.forget(req.NamespacedName)
		}
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !session.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}
	of := background.Session{Namespace: session.Namespace, Name: session.Name, UID: session.UID}
	s := &scope{session: session, of: of, tasks: r.tasks(of)}
	var jobs batchv1.JobList
	if err := r.Client.List(ctx, &jobs, client.InNamespace(session.Namespace),
		client.MatchingFields{fieldindex.TaskOwner: string(session.UID)}); err != nil {
		return ctrl.Result{}, fmt.Errorf("listing the Jobs of background tasks: %w", err)
	}
	var active map[string]bool
	var err error
	if len(session.Status.BackgroundTasks) > 0 || anyUnfinished(jobs.Items) {
		active, err = r.advanceAll(ctx, s)
	}
	failed := []error{err}
	for i := range jobs.Items {
		// Without the records nothing is known of a Job.
		if err == nil && !active[jobs.Items[i].Labels[v1alpha1.LabelTask]] {
			failed = append(failed, r.retire(ctx, s, &jobs.Items[i]))
		}
	}
	if err := errors.Join(failed...); err != nil && !errors.Is(err, errSessionGone) {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: s.requeue}, nil
}

// advanceAll advances the tasks of a Session, and hides those that are delivered then. It returns those that are not.
func (r *Reconciler) advanceAll(ctx context.Context, s *scope) (map[string]bool, error) {
	tasks, err := s.tasks.List(ctx, true)
	if err != nil {
		return nil, err
	}
	recorded := map[string]bool{}
	for i := range tasks {
		recorded[tasks[i].ID] = true
	}
	shown := map[string]bool{}
	var over []string
	var failed []error
	for _, announced := range s.session.Status.BackgroundTasks {
		shown[announced.ID] = true
		if recorded[announced.ID] {
			continue
		}
		t, err := r.settle(ctx, s, announced)
		switch {
		case err != nil:
			failed = append(failed, err)
		case t == nil:
		case t.Active():
			tasks = append(tasks, *t)
		default:
			over = append(over, t.ID)
		}
	}
	active := map[string]bool{}
	for i := range tasks {
		id := tasks[i].ID
		delivered, err := r.advance(ctx, s, &tasks[i])
		if err != nil {
			failed = append(failed, fmt.Errorf("background task %s: %w", id, err))
		}
		switch {
		case !delivered:
			active[id] = true
		case shown[id]:
			over = append(over, id)
		}
	}
	if len(over) > 0 {
		r.hidden.add(s.of, over...)
		r.SessionWakes.Wake(client.ObjectKeyFromObject(s.session))
	}
	return active, errors.Join(failed...)
}

// settle returns a task that the status shows and that was not among the active ones; nil while its call may still
// record it. After that the task is withdrawn, so that it does not start at a time at which nothing waits for it. The
// status that shows the task is no older than the admission of its Turn: a Turn that is not active there has ended.
func (r *Reconciler) settle(
	ctx context.Context, s *scope, announced v1alpha1.BackgroundTask,
) (*background.Task, error) {
	t, err := s.tasks.Get(ctx, announced.ID)
	if err != nil || t != nil {
		return t, err
	}
	if active := s.session.Status.ActiveTurn; active != nil && active.Name == announced.Turn {
		return nil, nil
	}
	return s.tasks.Withdraw(ctx, announced, background.NeverRecorded())
}

// look makes the pass be repeated at a time; zero for never.
func (s *scope) look(at, now time.Time) {
	if at.IsZero() {
		return
	}
	if wait := max(at.Sub(now), time.Millisecond); s.requeue == 0 || wait < s.requeue {
		s.requeue = wait
	}
}

func anyUnfinished(jobs []batchv1.Job) bool {
	for i := range jobs {
		if finishedAt(&jobs[i]).IsZero() {
			return true
		}
	}
	return false
}

// finishedAt is when a Job has ended; zero if it has not.
func finishedAt(job *batchv1.Job) time.Time {
	for _, c := range job.Status.Conditions {
		if (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue {
			return c.LastTransitionTime.Time
		}
	}
	return time.Time{}
}

// retire deletes the Job of a task whose end was delivered: at once if it still could run a container, and otherwise
// after the retention time.
func (r *Reconciler) retire(ctx context.Context, s *scope, job *batchv1.Job) error {
	if !job.DeletionTimestamp.IsZero() {
		return nil
	}
	now, ended := r.Clock(), finishedAt(job)
	if ended.IsZero() {
		pods, err := r.podsOf(ctx, job)
		if err != nil || !turn.CanRun(job, pods) {
			// Its end is about to be shown in its status, which wakes the Session.
			return err
		}
		return r.deleteJob(ctx, job)
	}
	if now.Before(ended.Add(r.Retention)) {
		s.look(ended.Add(r.Retention), now)
		return nil
	}
	return r.deleteJob(ctx, job)
}

// podsOf returns the pods of the Job of a task.
func (r *Reconciler) podsOf(ctx context.Context, job *batchv1.Job) ([]*corev1.Pod, error) {
	var list corev1.PodList
	err := r.Client.List(ctx, &list, client.InNamespace(job.Namespace),
		client.MatchingFields{fieldindex.TaskID: job.Labels[v1alpha1.LabelTask]})
	if err != nil {
		return nil, fmt.Errorf("listing the pods of Job %s: %w", job.Name, err)
	}
	pods := make([]*corev1.Pod, 0, len(list.Items))
	for i := range list.Items {
		pods = append(pods, &list.Items[i])
	}
	return pods, nil
}

// deleteJob deletes a Job and, in the background, its pods.
func (r *Reconciler) deleteJob(ctx context.Context, job *batchv1.Job) error {
	err := r.Client.Delete(ctx, job.DeepCopy(), client.Preconditions{UID: &job.UID},
		client.PropagationPolicy(metav1.DeletePropagationBackground))
	if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
		return fmt.Errorf("deleting Job %s: %w", job.Name, err)
	}
	return nil
}

// unread counts by pod how often the result of a task could not be found in its log.
type unread struct {
	mu    sync.Mutex
	times map[string]int
}

// lost reports whether a result counts as lost: the log of a container that has just ended may lag behind once.
func (u *unread) lost(pod *corev1.Pod) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.times == nil {
		u.times = map[string]int{}
	}
	u.times[string(pod.UID)]++
	return u.times[string(pod.UID)] > 1
}

// forget drops what is known of a pod.
func (u *unread) forget(pod *corev1.Pod) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.times, string(pod.UID))
}
