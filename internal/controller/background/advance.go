package background

import (
	"context"
	"errors"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller/fieldindex"
	"github.com/capstan-dev/capstan/internal/controller/turn"
	"github.com/capstan-dev/capstan/internal/runtime/background"
	"github.com/capstan-dev/capstan/internal/runtime/record"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
	"github.com/capstan-dev/capstan/internal/runtime/tool/definition"
	"github.com/capstan-dev/capstan/internal/runtime/tool/jobspec"
	"github.com/capstan-dev/capstan/internal/runtime/tool/jobstatus"
)

// maxActions bounds the actions for one task in one pass. There are at most five: look, record the pod, open the gate,
// end, deliver.
const maxActions = 8

// advance carries out what follows for a task, until it waits or its end is delivered.
func (r *Reconciler) advance(ctx context.Context, s *scope, t *background.Task) (delivered bool, err error) {
	live := false
	for range maxActions {
		seen, err := r.observe(ctx, s, t, live)
		if err != nil {
			return false, err
		}
		action := background.Next(t, seen)
		s.look(action.Until, r.Clock())
		switch action.Do {
		case background.DoWait:
			return false, nil
		case background.DoLook:
			live = true
			continue
		case background.DoCreateJob:
			t, err = r.createJob(ctx, s, t)
		case background.DoRecordPod:
			t, err = s.tasks.RecordPod(ctx, t.ID, action.Pod.UID)
		case background.DoOpenGate:
			return false, r.openGate(ctx, action.Pod)
		case background.DoStop:
			return false, r.stopPod(ctx, action.Pod)
		case background.DoEnd:
			t, err = r.end(ctx, s, t, seen.Job, action)
		case background.DoDeliver:
			err := r.deliver(ctx, s, t, seen)
			return err == nil, err
		}
		if err != nil || t == nil {
			return false, err
		}
	}
	return false, errors.New("it does not come to rest")
}

// observe reads what a decision about a task needs.
func (r *Reconciler) observe(ctx context.Context, s *scope, t *background.Task, live bool) (background.Seen, error) {
	seen := background.Seen{Live: live, Session: s.of.UID, Now: r.Clock()}
	if t.End != nil {
		live = false
	}
	var reader client.Reader = r.Client
	pods := []client.ListOption{client.InNamespace(s.of.Namespace), client.MatchingFields{fieldindex.TaskID: t.ID}}
	if live {
		reader = r.Live
		pods[1] = client.MatchingLabels{v1alpha1.LabelTask: t.ID, v1alpha1.LabelManagedBy: v1alpha1.ManagedByCapstan}
	}
	job := &batchv1.Job{}
	err := reader.Get(ctx, types.NamespacedName{Namespace: s.of.Namespace, Name: background.Name(t.ID)}, job)
	switch {
	case err == nil:
		seen.Job = job
	case client.IgnoreNotFound(err) != nil:
		return seen, fmt.Errorf("reading its Job: %w", err)
	}
	var list corev1.PodList
	if err := reader.List(ctx, &list, pods...); err != nil {
		return seen, fmt.Errorf("listing its pods: %w", err)
	}
	for i := range list.Items {
		seen.Pods = append(seen.Pods, &list.Items[i])
	}
	current, err := r.toolOf(ctx, reader, s, t)
	if err == nil && current != nil {
		seen.Tool = &current.Spec
	}
	return seen, err
}

// toolOf returns the Tool of a task; nil if it is gone or runs differently now.
func (r *Reconciler) toolOf(
	ctx context.Context, reader client.Reader, s *scope, t *background.Task,
) (*v1alpha1.Tool, error) {
	found := &v1alpha1.Tool{}
	err := reader.Get(ctx, types.NamespacedName{Namespace: s.of.Namespace, Name: t.Tool.Name}, found)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading its Tool: %w", err)
	}
	if err != nil || !definition.Of(found).Holds(t.Call()) || !background.Allowed(&found.Spec) {
		return nil, nil
	}
	return found, nil
}

// createJob creates the Job of a task. A refusal ends the task.
func (r *Reconciler) createJob(ctx context.Context, s *scope, t *background.Task) (*background.Task, error) {
	current, err := r.toolOf(ctx, r.Live, s, t)
	if err != nil {
		return nil, err
	}
	if current == nil {
		return s.tasks.End(ctx, t, tool.Changed())
	}
	if turn.Lent(definition.Of(current)) {
		if err := r.Policies.InForce(); err != nil {
			return nil, fmt.Errorf("its Job needs a Secret or a ServiceAccount: %w", err)
		}
	}
	arguments, err := s.tasks.Arguments(ctx, t.ID)
	if err != nil {
		return nil, fmt.Errorf("reading its arguments: %w", err)
	}
	job := r.job(s, t, current, arguments)
	refused, ready, err := turn.CutOff(ctx, r.Client, r.Live, job)
	switch {
	case err != nil || refused == nil && !ready:
		return nil, err
	case refused != nil:
		return s.tasks.End(ctx, t, *refused)
	}
	for _, object := range []client.Object{jobspec.ServiceAccount(s.of.Namespace), job} {
		if object != job && job.Spec.Template.Spec.ServiceAccountName != object.GetName() {
			continue
		}
		if ended, err := r.create(ctx, s, t, object); err != nil || ended != nil {
			return ended, err
		}
	}
	return nil, nil
}

// job returns the Job of a task.
func (r *Reconciler) job(
	s *scope, t *background.Task, current *v1alpha1.Tool, arguments string,
) *batchv1.Job {
	caller := &v1alpha1.Turn{}
	caller.Namespace, caller.Name, caller.UID = s.of.Namespace, t.Turn.Name, t.Turn.UID
	return jobspec.Build(jobspec.Params{
		Turn: caller, Session: s.of.Name, Call: t.Call(), Tool: &current.Spec, ToolName: current.Name,
		Arguments: arguments, Launcher: r.Launcher, Locale: t.Locale, TraceParent: t.TraceParent,
		Task: jobspec.TaskRef{ID: t.ID, Job: background.Name(t.ID), Owner: background.Owner(s.of)},
	})
}

// create creates an object that a task needs. It returns the task if that has ended, because the object was refused.
func (r *Reconciler) create(
	ctx context.Context, s *scope, t *background.Task, object client.Object,
) (*background.Task, error) {
	err := r.Client.Create(ctx, object)
	switch {
	case err == nil, apierrors.IsAlreadyExists(err):
		return nil, nil
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return nil, errSessionGone
	case jobstatus.RefusedForNow(err.Error()):
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err), apierrors.IsBadRequest(err),
		apierrors.IsRequestEntityTooLargeError(err):
		return s.tasks.End(ctx, t, jobstatus.Refused(err.Error()))
	}
	return nil, fmt.Errorf("creating %T %s: %w", object, object.GetName(), err)
}

// openGate lets the recorded pod start. The patch applies only to exactly this pod.
func (r *Reconciler) openGate(ctx context.Context, pod *corev1.Pod) error {
	patch := client.RawPatch(types.MergePatchType, jobspec.ReleasePatch(pod, r.Clock()))
	if err := r.Client.Patch(ctx, pod.DeepCopy(), patch); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("removing the scheduling gate of pod %s: %w", pod.Name, err)
	}
	return nil
}

// stopPod deletes a pod whose container must not continue. Its Job stays, so that the last state of the pod can still
// be observed.
func (r *Reconciler) stopPod(ctx context.Context, pod *corev1.Pod) error {
	err := r.Client.Delete(ctx, pod.DeepCopy(), client.Preconditions{UID: &pod.UID})
	if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
		return fmt.Errorf("deleting pod %s: %w", pod.Name, err)
	}
	return nil
}

// end records the end of a task, with its result.
func (r *Reconciler) end(
	ctx context.Context, s *scope, t *background.Task, job *batchv1.Job, action background.Action,
) (*background.Task, error) {
	outcome := action.Outcome
	if outcome.NeedsLog {
		var err error
		if outcome, err = r.readLog(ctx, t, action.Pod, outcome); err != nil {
			return nil, err
		}
	}
	if outcome.Reason == v1alpha1.ToolCallReasonNoPod && job != nil {
		if why := turn.PodFailure(ctx, r.Live, job); why != "" {
			outcome = jobstatus.Refused(why)
		}
	}
	return s.tasks.End(ctx, t, outcome)
}

// readLog reads a result that did not fit into the termination message.
func (r *Reconciler) readLog(
	ctx context.Context, t *background.Task, pod *corev1.Pod, outcome tool.Outcome,
) (tool.Outcome, error) {
	log, err := r.Logs.ToolLog(ctx, pod)
	var text string
	if err == nil {
		defer func() { _ = log.Close() }()
		text, _, err = jobstatus.ReadResult(log, jobstatus.TerminationMessage(pod))
	}
	switch {
	case err == nil:
		r.unread.forget(pod)
		outcome.Result, outcome.NeedsLog = &text, false
		return outcome, nil
	case (errors.Is(err, jobstatus.ErrResultLost) || apierrors.IsNotFound(err)) && r.unread.lost(pod):
		r.unread.forget(pod)
		return jobstatus.LostOutput(t.Call(), outcome), nil
	default:
		return outcome, fmt.Errorf("reading the log of pod %s: %w", pod.Name, err)
	}
}

// deliver creates the Turn that delivers the end of a task, and records that. The name of the Turn identifies the task:
// a Turn that was deleted before that was recorded is created again, and finds its outcome in the journal.
func (r *Reconciler) deliver(ctx context.Context, s *scope, t *background.Task, seen background.Seen) error {
	if seen.Job != nil && turn.CanRun(seen.Job, seen.Pods) && seen.Job.DeletionTimestamp.IsZero() {
		if err := r.deleteJob(ctx, seen.Job); err != nil {
			return err
		}
	}
	text := ""
	if t.End.State == v1alpha1.ToolCallStateSucceeded {
		var err error
		text, err = s.tasks.Result(ctx, t.ID)
		if err != nil && !errors.Is(err, record.ErrNotFound) {
			return fmt.Errorf("reading its result: %w", err)
		}
	}
	if err := r.createTurn(ctx, s, background.NewTurn(s.of, t, text), t.ID); err != nil {
		return err
	}
	_, err := s.tasks.Deliver(ctx, t.ID)
	return err
}

// createTurn creates the Turn of a task in its Session, which must still exist. Refusals are tried again: a quota may
// be used up for a while.
func (r *Reconciler) createTurn(ctx context.Context, s *scope, own *v1alpha1.Turn, id string) error {
	session := &v1alpha1.Session{}
	err := r.Live.Get(ctx, client.ObjectKeyFromObject(s.session), session)
	if apierrors.IsNotFound(err) || err == nil && (session.UID != s.of.UID || !session.DeletionTimestamp.IsZero()) {
		return errSessionGone
	}
	if err != nil {
		return fmt.Errorf("reading the Session past the cache: %w", err)
	}
	err = r.Client.Create(ctx, own)
	switch {
	case err == nil:
		return nil
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return errSessionGone
	case !apierrors.IsAlreadyExists(err):
		return fmt.Errorf("creating Turn %s: %w", own.Name, err)
	}
	existing := &v1alpha1.Turn{}
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(own), existing); err != nil {
		return fmt.Errorf("reading the existing Turn %s: %w", own.Name, err)
	}
	if !background.Delivers(existing, s.of, id) {
		ctrl.LoggerFrom(ctx).Info("Another Turn has the name of the one that delivers the end of a background task",
			"turn", own.Name, "task", id)
	}
	return nil
}
