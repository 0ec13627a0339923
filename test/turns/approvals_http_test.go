package turns_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
)

var _ = Describe("A request that needs approval", func() {
	DescribeTable(
		"is sent once it is approved, and its outcome counts besides the approval",
		func(ctx context.Context, class v1alpha1.SideEffect, kept int) {
			s := newSite(responds("paid"))
			namespace := asking(ctx, guarded(s.tool("pay", class)), `{"euros": 40}`)
			Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.WaitForApproval("pay"))
			Expect(s.requests()).To(BeEmpty())
			create(ctx, decision(ctx, namespace, "yes", "demo-1", "1-0", v1alpha1.DecisionApprove))
			Expect(answered(ctx, namespace).Status.Output).To(Equal("Told: paid"))
			Expect(s.requests()).To(HaveLen(1))
			Eventually(accepted(ctx, namespace, "yes")).Should(Equal("True Accepted"))
			settled, taken := 0, 0
			for _, entry := range journalOf(ctx, namespace) {
				if entry.Settled != nil {
					settled++
				}
				taken += len(entry.Parts)
			}
			Expect([]int{settled, taken}).To(Equal([]int{kept, kept}), "the approval, and the outcome of the claimed request")
		},
		Entry("Pure", v1alpha1.SideEffectPure, 1),
		Entry("AtMostOnce", v1alpha1.SideEffectAtMostOnce, 2),
	)

	It(
		"is never sent after a rejection, after the Turn is cancelled, and after a steering message",
		func(ctx context.Context) {
			for name, decide := range map[string]func(namespace string){
				"rejected": func(namespace string) {
					create(ctx, decision(ctx, namespace, "no", "demo-1", "1-0", v1alpha1.DecisionReject))
					Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
					Expect(kit.Turn(ctx, namespace, "demo-1")()).To(
						capstantest.HaveToolCall("pay", v1alpha1.ToolCallStateNotExecuted, "Rejected"),
					)
				},
				"cancelled": func(namespace string) {
					turn, err := kit.Turn(ctx, namespace, "demo-1")()
					Expect(err).NotTo(HaveOccurred())
					changed := turn.DeepCopy()
					changed.Spec.DesiredState = v1alpha1.DesiredStateCancelled
					Expect(kit.Client.Patch(ctx, changed, client.MergeFrom(turn))).To(Succeed())
					Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveFailed(v1alpha1.ReasonCancelled))
					Expect(kit.Turn(ctx, namespace, "demo-1")()).To(
						capstantest.HaveToolCall("pay", v1alpha1.ToolCallStateNotExecuted, "TurnEnded"),
					)
				},
				"a message": func(namespace string) {
					create(ctx, newSteer(namespace, "demo-2", "Do not pay."))
					Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
					Expect(kit.Turn(ctx, namespace, "demo-1")()).To(And(
						capstantest.HaveToolCall("pay", v1alpha1.ToolCallStateNotExecuted, "Steered"),
						HaveField("Status.Output", ContainSubstring("the user sent a new message before it was approved"))))
					Eventually(kit.Turn(ctx, namespace, "demo-2")).Should(capstantest.HaveSteered("demo-1"))
				},
			} {
				By(name)
				s := newSite(responds("paid"))
				namespace := asking(ctx, guarded(s.tool("pay", v1alpha1.SideEffectAtMostOnce)), `{"euros": 40}`)
				Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.WaitForApproval("pay"))
				decide(namespace)
				Expect(s.requests()).To(BeEmpty())
			}
		},
	)
})
