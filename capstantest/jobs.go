package capstantest

import (
	"context"
	"fmt"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The behaviour of the Job controller.

const (
	// suspendedByKit marks a Job that a fault has suspended.
	suspendedByKit = "capstantest.capstan.dev/suspended"
	// accountingPeriod is how long the Job controller takes to release an ended pod: its finalizer keeps the pod until
	// then.
	accountingPeriod = time.Second
)

// createPod creates the Job's only pod, or fails to because of a fault.
func (p *player) createPod(ctx context.Context, job *batchv1.Job, refused bool) error {
	base := job.DeepCopy()
	if job.Status.StartTime == nil {
		job.Status.StartTime = ptr.To(p.present())
	}
	if refused {
		if err := p.client.Status().Patch(ctx, job, client.MergeFrom(base)); err != nil {
			return err
		}
		return p.explain(ctx, job)
	}
	key := podName(client.ObjectKeyFromObject(job))
	pod := &corev1.Pod{ObjectMeta: *job.Spec.Template.ObjectMeta.DeepCopy(), Spec: *job.Spec.Template.Spec.DeepCopy()}
	pod.Namespace, pod.Name = key.Namespace, key.Name
	pod.Finalizers = []string{batchv1.JobTrackingFinalizer}
	pod.OwnerReferences = []metav1.OwnerReference{
		*metav1.NewControllerRef(job, batchv1.SchemeGroupVersion.WithKind("Job")),
	}
	if err := p.client.Create(ctx, pod); client.IgnoreAlreadyExists(err) != nil {
		return fmt.Errorf("creating the pod of Job %s: %w", job.Name, err)
	}
	job.Status.Active, job.Status.Ready = 1, ptr.To(int32(0))
	return p.client.Status().Patch(ctx, job, client.MergeFrom(base))
}

// explain records an Event if a quota refuses the Job's pod: the Job's status does not show it.
func (p *player) explain(ctx context.Context, job *batchv1.Job) error {
	now := p.present()
	event := &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: job.Namespace, Name: job.Name + ".refused"},
		InvolvedObject: corev1.ObjectReference{
			APIVersion: batchv1.SchemeGroupVersion.String(), Kind: "Job", Namespace: job.Namespace, Name: job.Name, UID: job.UID,
		},
		Type:   corev1.EventTypeWarning,
		Reason: "FailedCreate",
		Source: corev1.EventSource{Component: "job-controller"},
		Count:  1,
		Message: fmt.Sprintf(
			"Error creating: pods %q is forbidden: exceeded quota: capstantest, requested: pods=1, used: pods=0, "+
				"limited: pods=0",
			podName(client.ObjectKeyFromObject(job)).Name,
		),
		FirstTimestamp: now,
		LastTimestamp:  now,
	}
	if err := p.client.Create(ctx, event); client.IgnoreAlreadyExists(err) != nil {
		return fmt.Errorf("recording the Event about the missing pod of Job %s: %w", job.Name, err)
	}
	return nil
}

// account counts a pod that has ended in the status of its Job, and removes the pod's finalizer.
func (p *player) account(ctx context.Context, job *batchv1.Job, pod *corev1.Pod) (ctrl.Result, error) {
	stopped := suspended(job) && pod.Status.Phase == corev1.PodFailed
	if !finished(job) && !stopped {
		if err := p.endJob(ctx, job, pod.Status.Phase == corev1.PodSucceeded); err != nil {
			return ctrl.Result{}, err
		}
		if !pod.DeletionTimestamp.IsZero() {
			return ctrl.Result{RequeueAfter: accountingPeriod}, nil
		}
	}
	return ctrl.Result{}, p.removeFinalizer(ctx, pod)
}

// removeFinalizer takes the Job controller's finalizer off a pod.
func (p *player) removeFinalizer(ctx context.Context, pod *corev1.Pod) error {
	if !slices.Contains(pod.Finalizers, batchv1.JobTrackingFinalizer) {
		return nil
	}
	base := pod.DeepCopy()
	pod.Finalizers = slices.DeleteFunc(pod.Finalizers, func(f string) bool { return f == batchv1.JobTrackingFinalizer })
	return p.client.Patch(ctx, pod, client.MergeFrom(base))
}

// endJob marks the Job as complete, or failed.
func (p *player) endJob(ctx context.Context, job *batchv1.Job, succeeded bool) error {
	base := job.DeepCopy()
	now := p.present()
	job.Status.Active, job.Status.Ready = 0, ptr.To(int32(0))
	if succeeded {
		job.Status.Succeeded, job.Status.CompletionTime = 1, &now
		p.setJobCondition(
			job,
			batchv1.JobSuccessCriteriaMet,
			corev1.ConditionTrue,
			"CompletionsReached",
			"Reached expected number of succeeded pods",
		)
		p.setJobCondition(
			job,
			batchv1.JobComplete,
			corev1.ConditionTrue,
			"CompletionsReached",
			"Reached expected number of succeeded pods",
		)
	} else {
		job.Status.Failed = 1
		p.setJobCondition(
			job,
			batchv1.JobFailureTarget,
			corev1.ConditionTrue,
			batchv1.JobReasonBackoffLimitExceeded,
			"Job has reached the specified backoff limit",
		)
		p.setJobCondition(
			job,
			batchv1.JobFailed,
			corev1.ConditionTrue,
			batchv1.JobReasonBackoffLimitExceeded,
			"Job has reached the specified backoff limit",
		)
	}
	return p.client.Status().Patch(ctx, job, client.MergeFrom(base))
}

// suspend suspends a Job, or resumes it, as a queue for Jobs does.
func (p *player) suspend(ctx context.Context, job *batchv1.Job, suspend bool) error {
	base := job.DeepCopy()
	job.Spec.Suspend = &suspend
	if job.Annotations == nil {
		job.Annotations = map[string]string{}
	}
	job.Annotations[suspendedByKit] = "true"
	if !suspend {
		delete(job.Annotations, suspendedByKit)
	}
	if err := p.client.Patch(ctx, job, client.MergeFrom(base)); err != nil {
		return fmt.Errorf("suspending or resuming Job %s: %w", job.Name, err)
	}
	if suspend {
		return nil
	}
	base = job.DeepCopy()
	job.Status.StartTime = ptr.To(p.present())
	p.setJobCondition(job, batchv1.JobSuspended, corev1.ConditionFalse, "JobResumed", "Job resumed")
	return p.client.Status().Patch(ctx, job, client.MergeFrom(base))
}

// deleteSuspendedPod deletes the pod of a suspended Job, as the Job controller does.
func (p *player) deleteSuspendedPod(ctx context.Context, job *batchv1.Job, pod *corev1.Pod, exists bool) error {
	if exists {
		return p.client.Delete(ctx, pod)
	}
	base := job.DeepCopy()
	job.Status.Active, job.Status.Ready, job.Status.StartTime = 0, nil, nil
	p.setJobCondition(job, batchv1.JobSuspended, corev1.ConditionTrue, "JobSuspended", "Job suspended")
	return p.client.Status().Patch(ctx, job, client.MergeFrom(base))
}

// setJobCondition sets a condition of a Job.
func (p *player) setJobCondition(
	job *batchv1.Job,
	kind batchv1.JobConditionType,
	value corev1.ConditionStatus,
	reason, message string,
) {
	now := p.present()
	condition := batchv1.JobCondition{
		Type:               kind,
		Status:             value,
		Reason:             reason,
		Message:            message,
		LastTransitionTime: now,
		LastProbeTime:      now,
	}
	for i, known := range job.Status.Conditions {
		if known.Type == kind {
			if known.Status != value {
				job.Status.Conditions[i] = condition
			}
			return
		}
	}
	job.Status.Conditions = append(job.Status.Conditions, condition)
}

// collect deletes the pod of a deleted Job, as the garbage collector does.
func (p *player) collect(ctx context.Context, job types.NamespacedName) error {
	p.stopContainers(job)
	pod := &corev1.Pod{}
	if err := p.client.Get(ctx, podName(job), pod); err != nil {
		return client.IgnoreNotFound(err)
	}
	if err := p.client.Delete(ctx, pod, client.GracePeriodSeconds(0)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting pod %s: %w", pod.Name, err)
	}
	return p.removeFinalizer(ctx, pod)
}

// present is the time as a status carries it.
func (p *player) present() metav1.Time {
	return metav1.NewTime(p.clock.Now())
}

func suspended(job *batchv1.Job) bool {
	return job.Spec.Suspend != nil && *job.Spec.Suspend
}

func finished(job *batchv1.Job) bool {
	for _, c := range job.Status.Conditions {
		if (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue {
			return true
		}
	}
	return false
}
