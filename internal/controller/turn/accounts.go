package turn

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/act"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
	"github.com/capstan-dev/capstan/internal/runtime/tool/jobspec"
	"github.com/capstan-dev/capstan/internal/runtime/tool/jobstatus"
)

// +kubebuilder:rbac:groups="",resources=serviceaccounts,verbs=create

const (
	// missingPodGrace is how long a Job may be without a pod before its ServiceAccount is assumed to be missing.
	missingPodGrace = 5 * time.Second
	// renewInterval is the minimum time between two requests for the ServiceAccount of a namespace.
	renewInterval = time.Minute
)

// accounts holds, by namespace, when this process last ensured the ServiceAccount of tool pods. Workers that need it at
// the same time share a request.
type accounts struct {
	mu       sync.Mutex
	seen     map[string]time.Time
	creating singleflight.Group
}

// last returns zero for a namespace that this process has not handled.
func (s *accounts) last(namespace string) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen[namespace]
}

func (s *accounts) note(namespace string, at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen == nil {
		s.seen = map[string]time.Time{}
	}
	s.seen[namespace] = at
}

// accountWait is the wait of a step for a ServiceAccount that the API server refuses: its start, the attempts, the time
// of the next one, and the cause.
type accountWait struct {
	since, until time.Time
	failures     int
	refused      error
}

// provideAccount creates the ServiceAccount of tool pods before the first Job of a namespace. It returns the outcome of
// a call that must not start, and whether the Job may be created now. An existing account is used as it is, so that a
// namespace can add pull secrets to it.
func (r *Reconciler) provideAccount(
	ctx context.Context, a *actScope, index int, job *batchv1.Job,
) (*tool.Outcome, bool, error) {
	seen := r.accounts.last(job.Namespace)
	if !usesToolAccount(job) || !seen.IsZero() {
		a.clearAccountWait(index)
		return nil, true, nil
	}
	now, wait := r.Clock(), &a.step.account
	if now.Before(wait.until) {
		return a.awaitAccount(index, now), false, nil
	}
	err := r.createAccount(ctx, job.Namespace, seen)
	switch {
	case err == nil:
		a.clearAccountWait(index)
		return nil, true, nil
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return nil, false, nil
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err):
		wait.refuse(err, now)
		return a.awaitAccount(index, now), false, nil
	default:
		return nil, false, fmt.Errorf("creating ServiceAccount %s: %w", v1alpha1.ToolServiceAccount, err)
	}
}

// renewAccount creates the account again for a Job that has had no pod for a while: the account may have been deleted,
// or the whole namespace deleted and created again. Without the account the API server rejects the Job's pods until the
// start timeout.
func (r *Reconciler) renewAccount(ctx context.Context, a *actScope, job *batchv1.Job, since time.Time) {
	if !usesToolAccount(job) {
		return
	}
	seen := r.accounts.last(job.Namespace)
	now, due := r.Clock(), since.Add(missingPodGrace)
	if again := seen.Add(renewInterval); again.After(due) {
		due = again
	}
	if now.Before(due) {
		a.deadline(due)
		return
	}
	if err := r.createAccount(ctx, job.Namespace, seen); err != nil {
		// The call ends with the error of the Job controller.
		r.accounts.note(job.Namespace, now)
		ctrl.LoggerFrom(ctx).Error(err, "Failed to create the ServiceAccount of tool pods for a Job without a pod",
			"job", job.Name)
	}
}

// createAccount creates the account, unless another worker has done so since seen. It succeeds if the account exists.
func (r *Reconciler) createAccount(ctx context.Context, namespace string, seen time.Time) error {
	_, err, _ := r.accounts.creating.Do(namespace, func() (any, error) {
		if !r.accounts.last(namespace).Equal(seen) {
			return nil, nil
		}
		if err := r.Client.Create(ctx, jobspec.ServiceAccount(namespace)); client.IgnoreAlreadyExists(err) != nil {
			return nil, err
		}
		r.accounts.note(namespace, r.Clock())
		return nil, nil
	})
	return err
}

// usesToolAccount reports whether the pod of a Job runs as the account that the manager creates. Jobs of an earlier
// version run as default.
func usesToolAccount(job *batchv1.Job) bool {
	return job.Spec.Template.Spec.ServiceAccountName == v1alpha1.ToolServiceAccount
}

func (w *accountWait) refuse(err error, now time.Time) {
	if w.failures == 0 {
		w.since = now
	}
	w.failures++
	w.until = now.Add(pauses.After(w.failures))
	w.refused = err
}

// awaitAccount shows in the status of a call that it waits for the account. It returns the outcome of the call once the
// account has been refused for as long as its pod may take to start.
func (a *actScope) awaitAccount(index int, now time.Time) *tool.Outcome {
	call, wait := &a.turn.Status.ToolCalls[index], &a.step.account
	why := "the ServiceAccount of its pod was not accepted: " + wait.refused.Error()
	start, _ := jobspec.Timeouts(*call, a.toolSpec(*call))
	if !now.Before(wait.since.Add(start)) {
		refused := jobstatus.Refused(why)
		return &refused
	}
	a.deadline(wait.until)
	act.Describe(call, tool.Outcome{
		State: v1alpha1.ToolCallStatePending, Reason: v1alpha1.ToolCallReasonServiceAccountRefused,
		Error: "Retrying: " + why + ".",
	})
	return nil
}

// clearAccountWait removes such a wait from a call.
func (a *actScope) clearAccountWait(index int) {
	if call := &a.turn.Status.ToolCalls[index]; call.Reason == v1alpha1.ToolCallReasonServiceAccountRefused {
		call.Reason, call.Preview = "", ""
	}
}
