package turn

import (
	"context"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/internal/runtime/tool"
	"github.com/capstan-dev/capstan/internal/runtime/tool/jobstatus"
)

// explainPodFailure returns the outcome of a call whose Job got no pod, with the cause from the Job controller's
// Events. Without an Event the outcome stays unchanged.
func (r *Reconciler) explainPodFailure(ctx context.Context, job *batchv1.Job, outcome tool.Outcome) tool.Outcome {
	if why := PodFailure(ctx, r.Live, job); why != "" {
		return jobstatus.Refused(why)
	}
	return outcome
}

// PodFailure reads from the Job controller's Events why a Job has no pod, as there is no other source. It is empty
// without an Event.
func PodFailure(ctx context.Context, live client.Reader, job *batchv1.Job) string {
	var events corev1.EventList
	err := live.List(ctx, &events, client.InNamespace(job.Namespace),
		client.MatchingFields{"involvedObject.uid": string(job.UID), "reason": "FailedCreate"})
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Failed to list the Events of a Job without a pod", "job", job.Name)
		return ""
	}
	var newest *corev1.Event
	for i := range events.Items {
		if e := &events.Items[i]; newest == nil || newest.LastTimestamp.Before(&e.LastTimestamp) {
			newest = e
		}
	}
	if newest == nil {
		return ""
	}
	return newest.Message
}
