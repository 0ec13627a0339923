package turns_test

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

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
		page, err := os.ReadFile(root + "/docs/observability.md")
		Expect(err).NotTo(HaveOccurred())
		command := regexp.MustCompile(`kubectl (get events .*)\n`).FindSubmatch(page)
		Expect(command).NotTo(BeNil())
		shown := server.Kubectl(ctx, append(strings.Fields(string(command[1])), "--namespace="+namespace)...)
		Expect(shown).To(And(ContainSubstring("turn/demo-1"), Not(ContainSubstring("ClientTools"))))
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

	It("are caused by no Turn that needs no one", func(ctx context.Context) {
		namespace := newNamespace(ctx, builder.Script("done", builder.Calls("work", "work")),
			builder.JobTool("work", v1alpha1.SideEffectAtMostOnce).Obj(), builder.ClientTool("ask-ann").Obj())
		create(ctx, builder.Session("demo").In(namespace).Obj())
		for _, name := range []string{"demo-1", "demo-2"} {
			create(ctx, builder.Turn(name).In(namespace).Obj())
			Eventually(kit.Turn(ctx, namespace, name)).Should(capstantest.HaveSucceeded())
		}
		By("waiting for a later Turn that does cause one")
		script := builder.Model("simulated").In(namespace).Simulated(builder.Script("done", builder.Calls("ask-ann"))).Obj()
		Expect(kit.Client.Patch(ctx, script, client.Merge)).To(Succeed())
		create(ctx, builder.Turn("demo-3").In(namespace).Obj())
		Eventually(eventsIn(ctx, namespace)).ShouldNot(BeEmpty())
		Consistently(eventsIn(ctx, namespace)).WithTimeout(500 * time.Millisecond).
			Should(Equal([]string{"demo-3 Normal ClientTools once"}))
	})

	It("of a tenant whose Turns all fail are bounded, and its neighbour's still come", func(ctx context.Context) {
		const turns, atOnce, pause = 45, 30, 20 * time.Second
		broken := v1alpha1.Simulation{Response: &v1alpha1.SimulatedResponse{
			Type: v1alpha1.SimulatedResponseTypeError, Code: v1alpha1.ErrorCodeProviderMisconfigured, Text: "no key",
		}}
		loud, quiet := newNamespace(ctx, broken), newNamespace(ctx, broken)
		create(ctx, builder.Session("demo").In(loud).Obj(), builder.Session("demo").In(quiet).Obj())
		began, name := time.Now(), ""
		for i := range turns {
			name = fmt.Sprintf("demo-%d", i)
			create(ctx, builder.Turn(name).In(loud).Obj())
		}
		Eventually(kit.Turn(ctx, loud, name)).Should(capstantest.HaveFailed("ProviderMisconfigured"))
		create(ctx, builder.Turn("demo-1").In(quiet).Obj())
		Eventually(eventsIn(ctx, quiet)).Should(Equal([]string{"demo-1 Warning ProviderMisconfigured once"}))
		count := func() int { return len(eventsIn(ctx, loud)()) }
		Eventually(count).Should(BeNumerically(">=", atOnce))
		most := atOnce + int(time.Since(began)/pause) + 1
		Consistently(count).WithTimeout(500 * time.Millisecond).Should(BeNumerically("<=", most))
		Expect(most).To(BeNumerically("<", turns))
	})
})
