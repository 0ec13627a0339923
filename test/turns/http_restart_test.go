package turns_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

var _ = Describe("HTTP tools of a manager that ends, or has a rival", Serial, Ordered, func() {
	log := &requestLog{}
	another := onOwnServer(
		capstantest.Options{Transport: log.wrap, EgressAllow: loopback, EgressRoots: testRoots(), NoJobPlayer: true},
	)

	DescribeTable(
		"that it ended in the middle of",
		func(
			ctx context.Context, class v1alpha1.SideEffect, state v1alpha1.ToolCallState, reason string, asked int, text string,
		) {
			var n atomic.Int32
			arrived := make(chan struct{})
			s := newSite(func(w http.ResponseWriter, r *http.Request) {
				if n.Add(1) > 1 {
					responds("the second time")(w, r)
					return
				}
				close(arrived)
				untilGone(w, r)
			})
			kit = another()
			namespace := asking(ctx, s.tool("ask", class), "{}")
			Eventually(arrived).Should(BeClosed())
			Expect(kit.Stop()).To(Succeed())
			turn, err := kit.Turn(ctx, namespace, "demo-1")()
			Expect(err).NotTo(HaveOccurred())
			Expect(turn.Status.Phase).To(Equal(v1alpha1.TurnPhaseAct), "the Turn stays where it is")

			kit = another()
			turn = answered(ctx, namespace)
			Expect(turn).To(capstantest.HaveToolCall("ask", state, reason))
			Expect(turn.Status.ToolCalls[0].Attempt).To(BeEquivalentTo(1))
			Expect(turn.Status.Output).To(ContainSubstring(text))
			Expect(s.requests()).To(HaveLen(asked))
			Expect(s.keys()).To(HaveLen(1), "every start of a call has one key")
		},
		Entry(
			"are started again when they are Pure",
			v1alpha1.SideEffectPure,
			v1alpha1.ToolCallStateSucceeded,
			v1alpha1.ToolCallReasonCompleted,
			2,
			"the second time",
		),
		Entry(
			"are started again when they are Idempotent",
			v1alpha1.SideEffectIdempotent,
			v1alpha1.ToolCallStateSucceeded,
			v1alpha1.ToolCallReasonCompleted,
			2,
			"the second time",
		),
		Entry(
			"are never started again when they are AtMostOnce",
			v1alpha1.SideEffectAtMostOnce,
			v1alpha1.ToolCallStateUnknown,
			v1alpha1.ToolCallReasonManagerLost,
			1,
			"the manager was restarted or replaced",
		),
	)

	DescribeTable(
		"that it ended behind one of, while a client is waited for, are not sent again",
		func(ctx context.Context, class v1alpha1.SideEffect) {
			s := newSite(responds("clear"))
			kit = another()
			namespace := newNamespace(
				ctx,
				builder.Script("Told: {{tool:look}}", builder.Calls("look", "human")),
				s.tool("look", class),
				builder.ClientTool("human").Obj(),
			)
			create(ctx, builder.Session("demo").In(namespace).Obj())
			create(ctx, builder.Turn("demo-1").In(namespace).Obj())
			Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.WaitForTools("human"))
			Eventually(
				kit.Turn(ctx, namespace, "demo-1"),
			).Should(capstantest.HaveToolCall("look", v1alpha1.ToolCallStateSucceeded, v1alpha1.ToolCallReasonCompleted))
			Eventually(func() bool {
				return slices.ContainsFunc(journalOf(ctx, namespace), func(entry journal.Entry) bool {
					return entry.Settled != nil || len(entry.Outcomes) > 0
				})
			}).Should(BeTrue(), "the journal has the result")
			Expect(kit.Stop()).To(Succeed())

			kit = another()
			create(ctx, builder.ToolResult("ann", "1-1").In(namespace).Result("yes").Obj())
			turn := answered(ctx, namespace)
			Expect(turn).To(capstantest.HaveToolCall("look", v1alpha1.ToolCallStateSucceeded, v1alpha1.ToolCallReasonCompleted))
			Expect(turn.Status.Output).To(Equal("Told: clear"))
			Expect(s.requests()).To(HaveLen(1))
			Expect(s.keys()).To(HaveLen(1), "every start of a call has one key")
		},
		Entry("when they are Pure", v1alpha1.SideEffectPure),
		Entry("when they are AtMostOnce", v1alpha1.SideEffectAtMostOnce),
	)

	// Rules: DUR-01.
	It("start an AtMostOnce call once, whichever manager leads", func(ctx context.Context) {
		s := newSite(responds("paid"))
		kit = another()
		another()
		const turns = 12
		namespaces := make([]string, 0, turns)
		for range turns {
			namespaces = append(namespaces, asking(ctx, s.tool("pay", v1alpha1.SideEffectAtMostOnce), "{}"))
		}
		for _, namespace := range namespaces {
			turn := answered(ctx, namespace)
			Expect(
				turn.Status.ToolCalls[0].State,
			).To(BeElementOf(v1alpha1.ToolCallStateSucceeded, v1alpha1.ToolCallStateUnknown))
			claims := 0
			for _, entry := range journalOf(ctx, namespace) {
				if entry.Claimed != nil {
					claims++
				}
			}
			Expect(claims).To(Equal(1))
		}
		for key, times := range s.keys() {
			Expect(times).To(Equal(1), fmt.Sprintf("the call with the key %s was started %d times", key, times))
		}
		Expect(s.keys()).To(HaveLen(turns))
	})
})
