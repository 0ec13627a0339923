package turns_test

import (
	"context"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

var _ = Describe("A Turn without tools", func() {
	It("succeeds with the model's answer and costs four writes", func(ctx context.Context) {
		namespace := newNamespace(ctx, builder.Script("Hello to you too."))
		create(ctx, builder.Session("demo").In(namespace).Obj())
		Eventually(phaseOf(ctx, namespace, "demo")).Should(Equal(v1alpha1.SessionPhaseStarted))
		before := len(requests.in(namespace))

		create(ctx, builder.Turn("demo-1").In(namespace).Obj())
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
		Eventually(phaseOf(ctx, namespace, "demo")).Should(Equal(v1alpha1.SessionPhaseIdle))

		turn, err := kit.Turn(ctx, namespace, "demo-1")()
		Expect(err).NotTo(HaveOccurred())
		Expect(turn.Status.Output).To(Equal("Hello to you too."))
		Expect(turn.Status.Plan.StopReason).To(Equal(v1alpha1.StopReasonEndTurn))
		Expect(requests.in(namespace)[before:]).To(Equal([]string{
			"PATCH sessions/status", "POST journalentries", "PATCH turns/status", "PATCH sessions/status",
		}))
	})

	It("reads itself once and the end of the journal twice, besides reads of the cache", func(ctx context.Context) {
		namespace := newNamespace(ctx, builder.Script("Hello to you too."))
		startedSession(ctx, namespace)
		run := func(name string) map[string]int {
			GinkgoHelper()
			create(ctx, builder.Turn(name).In(namespace).Obj())
			Eventually(kit.Turn(ctx, namespace, name)).Should(capstantest.HaveSucceeded())
			Eventually(phaseOf(ctx, namespace, "demo")).Should(Equal(v1alpha1.SessionPhaseIdle))
			return requests.reads(namespace)
		}
		first := run("demo-1")
		second := run("demo-2")
		for resource, reads := range map[string]int{"turns": 1, "journalentries": 2} {
			Expect(second[resource]-first[resource]).To(BeNumerically("<=", reads), resource)
		}
	})

	It("costs one write more, for its plan, when the model takes longer than a second", func(ctx context.Context) {
		script := builder.Script("Hello to you too.")
		script.Latency = seconds(2)
		namespace := newNamespace(ctx, script)
		before := startedSession(ctx, namespace)
		create(ctx, builder.Turn("demo-1").In(namespace).Obj())
		Eventually(turnPhase(ctx, namespace, "demo-1")).Should(Equal(v1alpha1.TurnPhaseReason))
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
		expectCost(ctx, namespace, before, slices.Concat(beginning, ending))
		Expect(requests.latePlans(namespace)).To(Equal(1))
	})
})
