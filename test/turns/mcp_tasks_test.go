package turns_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
	"github.com/capstan-dev/capstan/internal/testing/builder"
	sites "github.com/capstan-dev/capstan/internal/testing/site"
)

// taskTurn plays a Turn whose call becomes a task.
func taskTurn(ctx context.Context) played {
	GinkgoHelper()
	s := sites.NewTasks(GinkgoTB())
	namespace := newNamespace(ctx, builder.Script("done", builder.Calls("mcp_search__echo")))
	server := &v1alpha1.MCPServer{
		ObjectMeta: metav1.ObjectMeta{Name: "search", Namespace: namespace}, Spec: v1alpha1.MCPServerSpec{URL: s.URL},
	}
	create(ctx, server)
	conditions := func() []metav1.Condition { return server.Status.Conditions }
	Eventually(readyOf(ctx, namespace, "search", server, conditions)).Should(HavePrefix(v1alpha1.ReasonReady))
	session := builder.Session("demo").In(namespace).Obj()
	session.Spec.MCPServers = []v1alpha1.LocalReference{{Name: "search"}}
	create(ctx, session)
	Eventually(phaseOf(ctx, namespace, "demo")).Should(Equal(v1alpha1.SessionPhaseStarted))
	p := played{namespace: namespace, before: len(requests.in(namespace))}
	create(ctx, builder.Turn("demo-1").In(namespace).Obj())
	Eventually(func() int {
		_, asked, _ := s.Counts()
		return asked
	}).Should(BeNumerically(">", 1))
	s.End(`"status":"completed","result":{"content":[{"type":"text","text":"done"}]}`)
	Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
	return p
}

var _ = Describe("A call of an MCPServer that becomes a task", Serial, Ordered, func() {
	another := onOwnServer(capstantest.Options{EgressAllow: loopback, EgressRoots: testRoots()})

	// calling starts a Turn whose call has become a task.
	calling := func(ctx context.Context, s *sites.Tasks) string {
		GinkgoHelper()
		namespace := newNamespace(ctx, builder.Script("Told: {{tool:mcp_search__echo}}", builder.Calls("mcp_search__echo")))
		session := builder.Session("demo").In(namespace).Obj()
		session.Spec.MCPServers = []v1alpha1.LocalReference{{Name: "search"}}
		create(ctx, session, builder.Turn("demo-1").In(namespace).Input("Go").Obj(), &v1alpha1.MCPServer{
			ObjectMeta: metav1.ObjectMeta{Name: "search", Namespace: namespace},
			Spec:       v1alpha1.MCPServerSpec{URL: s.URL},
		})
		return namespace
	}
	asked := func(s *sites.Tasks) func() int {
		return func() int {
			_, asked, _ := s.Counts()
			return asked
		}
	}

	// Rules: DUR-01, MCP-02.
	It("outlives two managers", func(ctx context.Context) {
		s := sites.NewTasks(GinkgoTB())
		kit = another()
		namespace := calling(ctx, s)
		for range 2 {
			before := asked(s)()
			Eventually(asked(s)).Should(BeNumerically(">", before))
			Expect(kit.Stop()).To(Succeed())
			kit = another()
		}
		s.End(`"status":"completed","result":{"content":[{"type":"text","text":"done"}]}`)
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
		turn, err := kit.Turn(ctx, namespace, "demo-1")()
		Expect(err).NotTo(HaveOccurred())
		Expect(turn.Status.Output).To(Equal("Told: done"))
		made, _, cancelled := s.Counts()
		Expect([]int{made, cancelled}).To(Equal([]int{1, 0}))
	})

	// Rules: MCP-02.
	It("is cancelled with its Turn", func(ctx context.Context) {
		s := sites.NewTasks(GinkgoTB())
		kit = another()
		namespace := calling(ctx, s)
		Eventually(asked(s)).Should(BeNumerically(">", 0))
		turn, err := kit.Turn(ctx, namespace, "demo-1")()
		Expect(err).NotTo(HaveOccurred())
		change(ctx, turn, `{"spec":{"desiredState":"Cancelled"}}`)
		Eventually(func() int {
			_, _, cancelled := s.Counts()
			return cancelled
		}).Should(Equal(1))
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(HaveField("Status.Phase", v1alpha1.TurnPhaseCancelled))
	})
})
