package agents

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
)

// owner is the field manager of applied Turns.
const owner client.FieldOwner = "shop"

var _ = Describe("The support agent", func() {
	It("pays back once, when the customer confirms", func(ctx context.Context) {
		namespace := ask(ctx, "I want my money back.")

		Eventually(kit.Turn(ctx, namespace, "question")).Should(capstantest.WaitForTools("ask-customer"))
		Expect(kit.Starts(namespace, "question", "3-0")).To(BeZero())
		Expect(kit.Answer(ctx, namespace, "question", "ask-customer", "Yes, it leaks.")).To(Succeed())

		Eventually(kit.Turn(ctx, namespace, "question")).Should(capstantest.HaveSucceeded())
		turn, err := kit.Turn(ctx, namespace, "question")()
		Expect(err).NotTo(HaveOccurred())
		Expect(turn.Status.Output).To(Equal("Order: 1815, a teapot, 40 euros Refund: paid"))
		Expect(kit.Starts(namespace, "question", "3-0")).To(Equal(1))
	})

	It("does not pay again when the outcome of the payment is unknown", func(ctx context.Context) {
		DeferCleanup(kit.Inject(capstantest.Evicted, capstantest.ForTool("refund")))
		namespace := ask(ctx, "I want my money back.")
		Eventually(kit.Turn(ctx, namespace, "question")).Should(capstantest.WaitForTools("ask-customer"))
		Expect(kit.Answer(ctx, namespace, "question", "ask-customer", "Yes.")).To(Succeed())

		Eventually(kit.Turn(ctx, namespace, "question")).Should(capstantest.HaveSucceeded())
		Expect(kit.Turn(ctx, namespace, "question")()).To(
			capstantest.HaveToolCall("refund", v1alpha1.ToolCallStateUnknown, v1alpha1.ToolCallReasonDisruption))
		Expect(kit.ToolResultText(ctx, namespace, "question", "3-0")()).To(ContainSubstring("It was not run again."))
		Expect(kit.Starts(namespace, "question", "3-0")).To(Equal(1))
	})

	It("looks an order up again after an eviction", func(ctx context.Context) {
		DeferCleanup(kit.Inject(capstantest.Evicted, capstantest.ForTool("find-order"), capstantest.OnAttempt(1)))
		namespace := ask(ctx, "Where is my teapot?")

		Eventually(capstantest.WithoutPauses(clock, kit.Turn(ctx, namespace, "question"))).Should(capstantest.HaveSucceeded())
		Expect(kit.ToolResultText(ctx, namespace, "question", "1-0")()).To(Equal("1815, a teapot, 40 euros"))
		Expect(kit.Starts(namespace, "question", "1-0")).To(Equal(2))
	})

	It("reports to the model when a tool hangs", func(ctx context.Context) {
		DeferCleanup(kit.Inject(capstantest.Hangs, capstantest.ForTool("find-order")))
		namespace := ask(ctx, "Where is my teapot?")
		Eventually(
			kit.Turn(ctx, namespace, "question"),
		).Should(capstantest.HaveToolCall("find-order", v1alpha1.ToolCallStateRunning))

		clock.Advance(30 * time.Second) // the timeout of find-order

		Eventually(kit.Turn(ctx, namespace, "question")).Should(capstantest.HaveSucceeded())
		Expect(kit.ToolResultText(ctx, namespace, "question", "1-0")()).To(ContainSubstring("stopped after 30s"))
	})
})
