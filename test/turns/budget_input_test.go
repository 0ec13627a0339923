package turns_test

import (
	"context"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
	"github.com/capstan-dev/capstan/internal/testing/builder"
	sites "github.com/capstan-dev/capstan/internal/testing/site"
)

// The phase changes in the middle of the step, which one status write shows at once.
var _ = Describe("The write budget of a question of a tool", func() {
	DescribeTable("is", func(ctx context.Context, class v1alpha1.SideEffect, want ...[]string) {
		s := newSite(sites.MCPHandler(sites.Stateless, sites.Asking("find")).ServeHTTP)
		server := serverAt(s, v1alpha1.MCPToolRule{Name: "find", SideEffect: class})
		namespace := newNamespace(ctx, builder.Script("done", builder.Calls(findTool)))
		server.Namespace = namespace
		session := builder.Session("demo").In(namespace).Obj()
		session.Spec.MCPServers = []v1alpha1.LocalReference{{Name: server.Name}}
		create(ctx, server, session)
		Eventually(phaseOf(ctx, namespace, "demo")).Should(Equal(v1alpha1.SessionPhaseStarted))
		before := len(requests.in(namespace))
		create(ctx, builder.Turn("demo-1").In(namespace).Obj())
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.WaitForInput(findTool))
		Eventually(phaseOf(ctx, namespace, "demo")).Should(Equal(v1alpha1.SessionPhaseWaitingForToolResults))
		waiting := requests.in(namespace)
		Consistently(
			func() []string { return requests.in(namespace) },
		).WithTimeout(2*time.Second).
			Should(Equal(waiting), "a Turn that waits costs writes")
		Expect(kit.AnswerInput(ctx, namespace, "demo-1", findTool, large())).To(Succeed())
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
		Eventually(phaseOf(ctx, namespace, "demo")).Should(Equal(v1alpha1.SessionPhaseIdle))
		Consistently(func() []string {
			counted, _ := requests.budgeted(namespace)
			return counted[before:]
		}).WithTimeout(300 * time.Millisecond).Should(ConsistOf(slices.Concat(want...)))
		_, progress := requests.budgeted(namespace)
		Expect(len(phases(progress))).To(BeNumerically("<=", 2), "the wait begins, and ends")
		Expect(progress).To(HaveLen(len(phases(progress))))
	},
		Entry("1 entry for it, 1 for the answer, 1 to accept that, and 2 on the Session",
			v1alpha1.SideEffectIdempotent,
			beginning,
			[]string{turnWrite, entryWrite, turnWrite, entryWrite},
			times(2, entryWrite),
			[]string{acceptWrite},
			times(2, sessionWrite),
			ending,
		),
		Entry("2 claims and 1 outcome more if the call is AtMostOnce",
			v1alpha1.SideEffectAtMostOnce,
			beginning,
			[]string{turnWrite, entryWrite, turnWrite, entryWrite},
			times(2, entryWrite),
			[]string{acceptWrite},
			times(2, sessionWrite),
			times(3, entryWrite),
			ending,
		),
	)
})
