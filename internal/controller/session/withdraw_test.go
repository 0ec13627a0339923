package session

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

func callPod(name, call string, gated bool) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Labels: map[string]string{
		v1alpha1.LabelTurnUID: "turn-uid", v1alpha1.LabelStep: "2", v1alpha1.LabelCall: call,
	}}}
	if gated {
		pod.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: v1alpha1.SchedulingGateStart}}
	}
	return pod
}

func TestACallOfADeletedTurnIsWithdrawnByDeletingItsGatedPods(t *testing.T) {
	opens := func(ctx context.Context, c client.WithWatch, o client.Object) error {
		pod := &corev1.Pod{}
		if err := c.Get(ctx, client.ObjectKeyFromObject(o), pod); err != nil {
			return err
		}
		pod.Spec.SchedulingGates = nil
		return c.Update(ctx, pod)
	}
	for name, test := range map[string]struct {
		pods []client.Object
		// meanwhile runs before the deletion of a pod arrives.
		meanwhile func(context.Context, client.WithWatch, client.Object) error
		want      bool
		left      int
		fails     bool
	}{
		"there is none": {},
		"it is gated":   {pods: []client.Object{callPod("a", "1-0", true)}, want: true},
		"both are gated": {
			pods: []client.Object{callPod("a", "1-0", true), callPod("b", "1-0", true)}, want: true,
		},
		"it was let go": {pods: []client.Object{callPod("a", "1-0", false)}, left: 1},
		"one of two was let go": {
			pods: []client.Object{callPod("a", "1-0", true), callPod("b", "1-0", false)}, left: 2,
		},
		"another call's":                {pods: []client.Object{callPod("a", "1-1", true)}, left: 1},
		"it is let go at the same time": {pods: []client.Object{callPod("a", "1-0", true)}, meanwhile: opens, left: 1},
		"it goes at the same time": {pods: []client.Object{callPod("a", "1-0", true)}, meanwhile: func(
			ctx context.Context, c client.WithWatch, o client.Object,
		) error {
			return c.Delete(ctx, callPod(o.GetName(), "1-0", true))
		}},
		"the API server fails": {pods: []client.Object{callPod("a", "1-0", true)}, left: 1, fails: true, meanwhile: func(
			context.Context, client.WithWatch, client.Object,
		) error {
			return errors.New("unavailable")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			live := fake.NewClientBuilder().WithObjects(test.pods...).Build()
			r := &Reconciler{Live: live, Client: interceptor.NewClient(live, interceptor.Funcs{
				Delete: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.DeleteOption) error {
					if test.meanwhile != nil {
						if err := test.meanwhile(ctx, c, o); err != nil {
							return err
						}
					}
					return c.Delete(ctx, o, options...)
				},
			})}
			turn, call := v1alpha1.JournalTurn{Name: "demo-1", UID: "turn-uid"}, v1alpha1.ToolCall{ID: "1-0"}
			got, err := r.withdraw("ns")(t.Context(), turn, 2, call)
			if got != test.want || (err != nil) != test.fails {
				t.Errorf("withdrawn: %v, %v; want %v", got, err, test.want)
			}
			var left corev1.PodList
			if err := live.List(t.Context(), &left); err != nil || len(left.Items) != test.left {
				t.Errorf("%d pods are left, want %d (%v)", len(left.Items), test.left, err)
			}
		})
	}
}
