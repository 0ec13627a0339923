//go:build e2e

package e2e_test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

// cancelLimit is how long after the patch a cancelled Turn has ended and none of its pods is there.
const cancelLimit = 5 * time.Second

var _ = Describe("Cancelling a Turn", func() {
	DescribeTable("while its tool runs deletes the pods and ends the Turn within 5 s",
		func(ctx SpecContext, class v1alpha1.SideEffect) {
			namespace := newStage(ctx,
				builder.Script("never", calls{call("nap", arguments{"seconds": 300})}),
				toolbox("nap", "sleep", class))
			asked := ask(ctx, namespace, "demo-1")
			Eventually(ctx, func(ctx context.Context) (bool, error) {
				pods, err := allPods(ctx, namespace)
				if err != nil || len(pods) != 1 {
					return false, err
				}
				status := toolStatus(&pods[0])
				return status != nil && status.State.Running != nil, nil
			}).Should(BeTrue())

			cancel(ctx, asked)
			patched := time.Now()
			var finished, gone time.Duration
			Eventually(ctx, func(ctx context.Context) (bool, error) {
				pods, err := allPods(ctx, namespace)
				if err != nil {
					return false, err
				}
				if gone == 0 && len(pods) == 0 {
					gone = time.Since(patched)
				}
				now, err := turn(namespace, "demo-1")(ctx)
				if err != nil {
					return false, err
				}
				if over, err := capstantest.HaveFailed(v1alpha1.ReasonCancelled).Match(now); err != nil || !over {
					return false, err
				}
				if finished == 0 {
					finished = time.Since(patched)
				}
				return gone > 0, nil
			}).WithPolling(promptly).Should(BeTrue())
			show("Succeeded=False after", finished.Round(time.Millisecond).String())
			show("no pod after", gone.Round(time.Millisecond).String())
			Expect(max(finished, gone)).To(BeNumerically("<", cancelLimit))
			Expect(read(ctx, namespace, "demo-1").Status.Phase).To(Equal(v1alpha1.TurnPhaseCancelled))
		},
		Entry("(Pure)", v1alpha1.SideEffectPure, SpecTimeout(specLimit)),
		Entry("(AtMostOnce)", v1alpha1.SideEffectAtMostOnce, SpecTimeout(specLimit)),
	)
})

// cancel asks for the cancellation of a Turn.
func cancel(ctx context.Context, turn *v1alpha1.Turn) {
	GinkgoHelper()
	patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"desiredState":"Cancelled"}}`))
	Expect(api.Patch(ctx, turn, patch)).To(Succeed())
}

func allPods(ctx context.Context, namespace string) ([]corev1.Pod, error) {
	var pods corev1.PodList
	err := api.List(ctx, &pods, client.InNamespace(namespace))
	return pods.Items, err
}
