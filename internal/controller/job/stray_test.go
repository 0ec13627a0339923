package job

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/condition"
)

// ofStep makes a Job that of step 2 of the Turn u1.
func ofStep(j *batchv1.Job) {
	j.Labels[v1alpha1.LabelStep] = "2"
	j.OwnerReferences = []metav1.OwnerReference{{Kind: "Turn", Name: "demo-1", UID: "u1", Controller: new(true)}}
}

func deleting(j *batchv1.Job) {
	j.DeletionTimestamp, j.Finalizers = &metav1.Time{Time: created}, []string{"example.org/held"}
}

// inStep is the Turn with an open step.
func inStep(step int32) *v1alpha1.Turn {
	turn := &v1alpha1.Turn{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "demo-1", UID: "u1"}}
	turn.Status.Plan = &v1alpha1.TurnPlan{Step: step, Phase: v1alpha1.PlanPhaseReason}
	return turn
}

// podIn is a pod of the Job in a phase.
func podIn(phase corev1.PodPhase) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: "tool-1-x", Labels: map[string]string{v1alpha1.LabelTurnUID: "u1"},
		OwnerReferences: []metav1.OwnerReference{{Kind: "Job", Name: "tool-1", UID: "j1", Controller: new(true)}},
	}}
	pod.Status.Phase = phase
	return pod
}

func TestAJobOfAClosedStepThatCanStillRunGoes(t *testing.T) {
	over := inStep(3)
	condition.Set(
		&over.Status.Conditions,
		1,
		metav1.NewTime(created),
		v1alpha1.ConditionFinished,
		metav1.ConditionTrue,
		"Done",
		"",
	)
	another := inStep(3)
	another.UID = "u2"
	for name, test := range map[string]struct {
		turn *v1alpha1.Turn
		job  *batchv1.Job
		// live is the Job in the API server, if that is another version.
		live    *batchv1.Job
		pod     *corev1.Pod
		deleted bool
	}{
		"it has no pod":               {turn: inStep(3), deleted: true},
		"its pod waits":               {turn: inStep(3), pod: podIn(corev1.PodPending), deleted: true},
		"its pod runs":                {turn: inStep(9), pod: podIn(corev1.PodRunning), deleted: true},
		"its pod has ended":           {turn: inStep(3), pod: podIn(corev1.PodFailed)},
		"it has ended without a pod":  {turn: inStep(3), job: orphan(ofStep, ended(batchv1.JobFailed, 0))},
		"its step is open":            {turn: inStep(2)},
		"the cache lags":              {turn: inStep(1)},
		"its Turn has not begun":      {turn: &v1alpha1.Turn{ObjectMeta: inStep(1).ObjectMeta}},
		"its Turn has ended":          {turn: over},
		"its Turn was deleted":        {turn: another},
		"it goes already":             {turn: inStep(3), job: orphan(ofStep, deleting)},
		"it goes, and the cache lags": {turn: inStep(3), live: orphan(ofStep, deleting)},
		"it is not the manager's": {
			turn: inStep(3), job: orphan(ofStep, func(j *batchv1.Job) { delete(j.Labels, v1alpha1.LabelManagedBy) }),
		},
		"it belongs to another object": {
			turn: inStep(3), job: orphan(ofStep, func(j *batchv1.Job) { j.OwnerReferences[0].UID = "u2" }),
		},
		"its step is no number": {
			turn: inStep(3), job: orphan(ofStep, func(j *batchv1.Job) { j.Labels[v1alpha1.LabelStep] = "last" }),
		},
	} {
		t.Run(name, func(t *testing.T) {
			job := test.job
			if job == nil {
				job = orphan(ofStep)
			}
			objects, writes := []client.Object{test.turn, job}, 0
			if test.pod != nil {
				objects = append(objects, test.pod)
			}
			r := reconciler(t, settled, &writes, objects...)
			r.Live = r.Client
			if test.live != nil {
				r.Live = reconciler(t, settled, &writes, test.live).Client
			}
			key := types.NamespacedName{Namespace: "ns", Name: job.Name}
			woken := r.strays(t.Context(), job)
			if want := test.deleted || test.live != nil; (len(woken) == 1 && woken[0].NamespacedName == key) != want {
				t.Errorf("woken: %v, want %v", woken, want)
			}
			if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: key}); err != nil {
				t.Fatal(err)
			}
			err := r.Client.Get(t.Context(), key, &batchv1.Job{})
			if deleted := apierrors.IsNotFound(err); deleted != test.deleted || (writes > 0) != test.deleted {
				t.Errorf("deleted: %v after %d writes, want %v", deleted, writes, test.deleted)
			}
		})
	}
}
