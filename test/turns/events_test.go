package turns_test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

var _ = Describe("Events", func() {
	It("ask for results of clients and for approvals, and report failures, each once", func(ctx context.Context) {
		pay := guarded(builder.JobTool("pay", v1alpha1.SideEffectPure).Obj())
		namespace := newNamespace(
			ctx,
			builder.Script(
				"done",
				[]v1alpha1.SimulatedToolCall{withArguments("ask-ann", `{"pin": 1234}`)},
				builder.Calls("pay"),
			),
			builder.ClientTool("ask-ann").Obj(),
			pay,
		)
		create(ctx, builder.Session("demo").In(namespace).Obj())
		create(ctx, builder.Turn("demo-1").In(namespace).Obj())
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.WaitForTools("ask-ann"))
		Eventually(eventsIn(ctx, namespace)).Should(Equal([]string{"demo-1 Normal ClientTools once"}))
		create(ctx, builder.ToolResult("ann", "1-0").In(namespace).Result("yes").Obj())
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.WaitForApproval("pay"))
		events := []string{"demo-1 Normal Approval once", "demo-1 Normal ClientTools once"}
		Eventually(eventsIn(ctx, namespace)).Should(Equal(events))
		Expect(kit.Approve(ctx, namespace, "demo-1", "pay")).To(Succeed())
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
		Consistently(eventsIn(ctx, namespace)).WithTimeout(500 * time.Millisecond).Should(Equal(events))

		failing := newNamespace(
			ctx,
			v1alpha1.Simulation{
				Response: &v1alpha1.SimulatedResponse{
					Type: v1alpha1.SimulatedResponseTypeError, Code: v1alpha1.ErrorCodeProviderMisconfigured, Text: "no key",
				},
			},
		)
		create(ctx, builder.Session("demo").In(failing).Obj())
		create(ctx, builder.Turn("demo-1").In(failing).Obj())
		Eventually(kit.Turn(ctx, failing, "demo-1")).Should(capstantest.HaveFailed("ProviderMisconfigured"))
		Eventually(eventsIn(ctx, failing)).Should(Equal([]string{"demo-1 Warning ProviderMisconfigured once"}))
	})
})
