package job

import (
	"context"
	"errors"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller/fieldindex"
)

var created = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

const retention = 10 * time.Minute

// orphan is a Job that its Turn was deleted without.
func orphan(changes ...func(*batchv1.Job)) *batchv1.Job {
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: "tool-1", UID: "j1", CreationTimestamp: metav1.NewTime(created),
		Labels: map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedByCapstan, v1alpha1.LabelTurnUID: "u1"},
	}}
	for _, change := range changes {
		change(job)
	}
	return job
}

// ended gives a Job a condition of its end, so long after its creation.
func ended(kind batchv1.JobConditionType, after time.Duration) func(*batchv1.Job) {
	return func(j *batchv1.Job) {
		j.Status.Conditions = []batchv1.JobCondition{
			{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(created.Add(after))},
		}
	}
}

// reconciler works on the objects, and counts requests other than reads from the cache.
func reconciler(t *testing.T, age time.Duration, writes *int, objects ...client.Object) *Reconciler {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(
		v1alpha1.AddToScheme(scheme),
		batchv1.AddToScheme(scheme),
		corev1.AddToScheme(scheme),
	); err != nil {
		t.Fatal(err)
	}
	builder := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			*writes++
			return c.Delete(ctx, o, opts...)
		},
	})
	for _, index := range fieldindex.All() {
		builder = builder.WithIndex(index.Object, index.Field, index.Values)
	}
	return &Reconciler{Client: builder.Build(), Clock: func() time.Time { return created.Add(age) }, Retention: retention}
}

func TestAnOrphanedJobGoesWhenItsTimeIsOver(t *testing.T) {
	there := &v1alpha1.Turn{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "demo-1", UID: "u1"}}
	another := &v1alpha1.Turn{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "demo-1", UID: "u2"}}
	owned := func(j *batchv1.Job) {
		j.OwnerReferences = []metav1.OwnerReference{{Kind: "Turn", Name: "demo-1", UID: "u1", Controller: ptr.To(true)}}
	}
	for name, test := range map[string]struct {
		job     *batchv1.Job
		turn    *v1alpha1.Turn
		age     time.Duration
		deleted bool
		again   time.Duration
	}{
		"it runs":             {job: orphan(), age: settled, deleted: true},
		"it runs, and is new": {job: orphan(), age: settled - time.Second, again: time.Second},
		"it has ended": {
			job: orphan(ended(batchv1.JobComplete, time.Hour)), age: time.Hour + retention, deleted: true,
		},
		"it has failed a while ago": {
			job: orphan(ended(batchv1.JobFailed, time.Hour)), age: time.Hour + time.Minute, again: retention - time.Minute,
		},
		"its Turn is there":         {job: orphan(), turn: there, age: time.Hour, again: retention},
		"another Turn has the name": {job: orphan(), turn: another, age: time.Hour, deleted: true},
		"its Turn owns it":          {job: orphan(owned), age: time.Hour},
		"it belongs to no tool call": {
			job: orphan(func(j *batchv1.Job) { delete(j.Labels, v1alpha1.LabelTurnUID) }), age: time.Hour,
		},
		"it is not the manager's, by a label": {
			job: orphan(func(j *batchv1.Job) { j.Labels[v1alpha1.LabelManagedBy] = "helm" }), age: time.Hour,
		},
		"it goes already, and a finalizer stays": {job: orphan(func(j *batchv1.Job) {
			j.DeletionTimestamp, j.Finalizers = &metav1.Time{Time: created}, []string{"example.org/held"}
		}), age: time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			objects, writes := []client.Object{test.job}, 0
			if test.turn != nil {
				objects = append(objects, test.turn)
			}
			r := reconciler(t, test.age, &writes, objects...)
			result, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(test.job)})
			if err != nil || result.RequeueAfter != test.again {
				t.Errorf("looked at again after %v, error %v; want %v", result.RequeueAfter, err, test.again)
			}
			err = r.Client.Get(t.Context(), client.ObjectKeyFromObject(test.job), &batchv1.Job{})
			if apierrors.IsNotFound(err) != test.deleted || (writes > 0) != test.deleted {
				t.Errorf("deleted: %v after %d writes, want %v", apierrors.IsNotFound(err), writes, test.deleted)
			}
		})
	}
}
