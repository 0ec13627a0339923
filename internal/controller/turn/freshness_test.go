package turn

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/tool/result"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

// The watches of Turns and pods keep no common order. A new leader whose Turns are late must not close a step with a
// version of the Turn that does not name the pod which ran.
func TestANewLeaderWhoseTurnsAreLateNamesThePodThatRan(t *testing.T) {
	w := newWorld(t)
	w.begin(builder.JobTool("pay", v1alpha1.SideEffectAtMostOnce).Obj())
	first := w.manager(0)
	first.withoutCluster("the Job", func() bool { return len(w.jobs()) == 1 })
	late := w.turn()
	w.makePod(w.jobOf("pay"))
	first.withoutCluster("an open gate", func() bool { return !gated(w.podOf(w.jobOf("pay"))) })
	pod := w.podOf(w.jobOf("pay"))
	w.runs(pod)
	w.ends(pod, result.Report{Outcome: result.Exited, Started: true, Result: "paid"})

	second, isLate := w.manager(0), true
	second.Client = interceptor.NewClient(second.Client.(client.WithWatch), interceptor.Funcs{
		Get: func(
			ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, o ...client.GetOption,
		) error {
			if turn, isTurn := object.(*v1alpha1.Turn); isTurn && isLate {
				late.DeepCopyInto(turn)
				return nil
			}
			return c.Get(ctx, key, object, o...)
		},
	})
	for range 3 {
		if _, err := second.pass(); err != nil {
			t.Fatal(err)
		}
	}
	isLate = false
	second.until("the end of the call", w.shows("pay", v1alpha1.ToolCallStateSucceeded))
	if got := w.call("pay").PodUID; got != pod.UID {
		t.Errorf("the call is recorded as run by pod %q, want %q", got, pod.UID)
	}
}

// A gate that a user has removed leaves no record to wait for.
func TestAPodThatAUserLetGoIsNotWaitedFor(t *testing.T) {
	w := newWorld(t)
	w.begin(builder.JobTool("pay", v1alpha1.SideEffectAtMostOnce).Obj())
	m := w.manager(0)
	m.withoutCluster("the Job", func() bool { return len(w.jobs()) == 1 })
	pod := w.makePod(w.jobOf("pay"))
	w.change(pod, func() { pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{} })
	m.until("the end of the call", w.shows("pay", v1alpha1.ToolCallStateSucceeded))
}
