package kit_test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
)

// guarded is a worker whose calls need approval.
func guarded() *v1alpha1.Tool {
	tool := worker(once)
	tool.Spec.Policy = v1alpha1.ToolPolicyRequiresApproval
	return tool
}

var _ = Describe("A call that needs approval", func() {
	It("is approved by the kit, which sets the name of the approver", func(ctx context.Context) {
		namespace := begin(ctx, guarded())
		Eventually(turn(ctx, namespace)).Should(capstantest.WaitForApproval("work"))
		Expect(turn(ctx, namespace)()).NotTo(capstantest.WaitForTools("work"), "no client is asked")
		Expect(
			kit.Answer(ctx, namespace, "demo-1", "work", "done"),
		).To(MatchError(ContainSubstring("no call of work waits for a result")))
		Expect(kit.Approve(ctx, namespace, "demo-1", "work")).To(Succeed())
		Eventually(turn(ctx, namespace)).Should(capstantest.HaveSucceeded())
		Expect(kit.Starts(namespace, "demo-1", "1-0")).To(Equal(1))
		Expect(
			kit.Approve(ctx, namespace, "demo-1", "work"),
		).To(MatchError(ContainSubstring("no call of work waits for approval")))
	})

	It("is rejected by the kit, and the model reads so", func(ctx context.Context) {
		namespace := begin(ctx, guarded())
		Eventually(turn(ctx, namespace)).Should(capstantest.WaitForApproval("work"))
		Expect(kit.RejectFor(ctx, namespace, "demo-1", "work", "It is too dear.")).To(Succeed())
		Eventually(turn(ctx, namespace)).Should(capstantest.HaveSucceeded())
		Expect(kit.ToolResultText(ctx, namespace, "demo-1", "1-0")()).To(And(
			HavePrefix("The tool was not executed: its approval was rejected."), HaveSuffix("It is too dear."),
		))
		Expect(kit.Starts(namespace, "demo-1", "1-0")).To(BeZero())
	})

	It("is not executed after the clock has passed its time limit, and no reconcile runs before", func(
		ctx context.Context,
	) {
		namespace := begin(ctx, guarded())
		Eventually(turn(ctx, namespace)).Should(capstantest.WaitForApproval("work"))
		quiet(namespace)
		clock.Advance(23 * time.Hour)
		Consistently(turn(ctx, namespace)).WithTimeout(time.Second).Should(capstantest.WaitForApproval("work"))
		clock.Advance(time.Hour)
		Eventually(turn(ctx, namespace)).Should(capstantest.HaveSucceeded())
		Expect(
			turn(ctx, namespace)(),
		).To(capstantest.HaveToolCall("work", v1alpha1.ToolCallStateNotExecuted, v1alpha1.ToolCallReasonApprovalTimeout))
		Expect(kit.Starts(namespace, "demo-1", "1-0")).To(BeZero())
	})
})
