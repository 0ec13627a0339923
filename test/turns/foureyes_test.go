package turns_test

import (
	"context"
	"net/http"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

// Rules: CLIENT-04.
var _ = Describe("A Turn that another user has steered", func() {
	It("names that user, and so does an approval under four eyes", func(ctx context.Context) {
		s, open := newSite(responds("paid")), make(chan struct{})
		release := sync.OnceFunc(func() { close(open) })
		gate := newSite(func(http.ResponseWriter, *http.Request) { <-open })
		DeferCleanup(release)
		pay := s.tool("ask", v1alpha1.SideEffectAtMostOnce)
		pay.Spec.Policy = v1alpha1.ToolPolicyRequiresApproval
		namespace := newNamespace(ctx, builder.Script("Told: {{tool:ask}}", builder.Calls("hold"), builder.Calls("ask")),
			gate.tool("hold", v1alpha1.SideEffectPure), pay)
		create(ctx, builder.Session("demo").In(namespace).Obj())
		create(ctx, by("ann", namespace, "demo-1"))
		Eventually(gate.requests).ShouldNot(BeEmpty())
		steer := newSteer(namespace, "demo-2", "Pay me.")
		steer.Spec.SubmittedBy = "bob"
		create(ctx, steer)
		Consistently(kit.Turn(ctx, namespace, "demo-2")).WithTimeout(seconds(1).Duration).
			Should(HaveField("Status.Phase", v1alpha1.TurnPhaseQueued))
		release()
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.WaitForApproval("ask"))
		turn := &v1alpha1.Turn{}
		Expect(kit.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "demo-1"}, turn)).To(Succeed())
		Expect(turn.Status.SteeredBy).To(Equal([]string{"bob"}))
		call := turn.Status.ToolCalls[0].ID

		hides := capstantest.Decision(turn, call, v1alpha1.DecisionApprove, "bob")
		hides.Name, hides.Spec.TurnSteeredBy = "hides", nil
		create(ctx, hides)
		Eventually(accepted(ctx, namespace, "hides")).Should(Equal("False TurnSubmitterMismatch"))
		Expect(s.requests()).To(BeEmpty())
		names := capstantest.Decision(turn, call, v1alpha1.DecisionApprove, "carl")
		create(ctx, names)
		finished(ctx, namespace, "demo-1")
		Expect(s.requests()).To(HaveLen(1))
	})
})
