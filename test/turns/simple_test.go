package turns_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
)

var _ = Describe("A Turn without tools", func() {
	It("succeeds with the model's answer and costs five writes", func(ctx context.Context) {
		namespace := newNamespace(ctx, v1alpha1.Simulation{Response: fixed("Hello to you too.")})
		create(ctx, newSession(namespace, "demo"))
		Eventually(phaseOf(ctx, namespace, "demo")).Should(Equal(v1alpha1.SessionPhaseStarted))
		before := len(requests.in(namespace))

		create(ctx, newTurn(namespace, "demo", "demo-1", "Hello"))
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
		Eventually(phaseOf(ctx, namespace, "demo")).Should(Equal(v1alpha1.SessionPhaseIdle))

		turn, err := kit.Turn(ctx, namespace, "demo-1")()
		Expect(err).NotTo(HaveOccurred())
		Expect(turn.Status.Output).To(Equal("Hello to you too."))
		Expect(turn.Status.Plan.StopReason).To(Equal(v1alpha1.StopReasonEndTurn))
		Expect(requests.in(namespace)[before:]).To(Equal([]string{
			"PATCH sessions/status", "PATCH turns/status", "POST journalentries", "PATCH turns/status", "PATCH sessions/status",
		}))
	})
})
