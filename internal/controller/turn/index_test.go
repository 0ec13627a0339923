package turn

import (
	"context"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller/fieldindex"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

// A pass must not scan the Jobs and pods of its namespace.
func TestThePassesReadJobsAndPodsByTheIndexOfTheirTurn(t *testing.T) {
	w := newWorld(t)
	lists := map[string]int{}
	w.hooks = interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			var o client.ListOptions
			o.ApplyOptions(options)
			switch list.(type) {
			case *batchv1.JobList:
				lists["jobs"]++
			case *corev1.PodList:
				lists["pods"]++
			default:
				return c.List(ctx, list, options...)
			}
			if o.FieldSelector == nil {
				t.Errorf("%T are listed without an index", list)
			} else if uid, ok := o.FieldSelector.RequiresExactMatch(fieldindex.TurnUID); !ok || uid != string(w.turn().UID) {
				t.Errorf("%T are listed by %s", list, o.FieldSelector)
			}
			return c.List(ctx, list, options...)
		},
	}
	w.begin(builder.JobTool("work", v1alpha1.SideEffectPure).Obj())
	m := w.manager(0)
	m.until("the end of the Turn", w.finished)
	if lists["jobs"] == 0 || lists["pods"] == 0 {
		t.Errorf("lists: %v", lists)
	}
}

func TestJobsAndPodsAreIndexedByTheirTurn(t *testing.T) {
	ours := metav1.ObjectMeta{Labels: map[string]string{v1alpha1.LabelTurnUID: "u1"}}
	found := 0
	for _, index := range fieldindex.All() {
		if index.Field != fieldindex.TurnUID {
			continue
		}
		labelled, plain := client.Object(&batchv1.Job{ObjectMeta: ours}), client.Object(&batchv1.Job{})
		if _, ok := index.Object.(*corev1.Pod); ok {
			labelled, plain = &corev1.Pod{ObjectMeta: ours}, &corev1.Pod{}
		}
		if got := index.Values(labelled); len(got) != 1 || got[0] != "u1" {
			t.Errorf("%T has the values %v", index.Object, got)
		}
		if got := index.Values(plain); len(got) != 0 {
			t.Errorf("%T of users has the values %v", index.Object, got)
		}
		found++
	}
	if found != 2 {
		t.Errorf("%d indexes by Turn, want those of Jobs and pods", found)
	}
}
