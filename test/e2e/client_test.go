//go:build e2e

package e2e_test

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

var _ = Describe("Client tools", func() {
	It(
		"make a Turn wait for results, accept them one by one, and refuse an invalid one with a reason",
		SpecTimeout(specLimit),
		func(ctx SpecContext) {
			namespace := newStage(
				ctx,
				builder.Script("Ann said {{tool:ask-ann}}, Bob said {{tool:ask-bob}}, it has {{tool:word-count}} words.", calls{
					call(
						"ask-ann",
						arguments{"question": "Yes or no?"},
					),
					call("ask-bob", nil),
					call("word-count", arguments{"text": "yes no"}),
				}),
				builder.ClientTool("ask-ann").
					Obj(),
				builder.ClientTool("ask-bob").Obj(),
				toolbox("word-count", "word-count", v1alpha1.SideEffectPure),
			)
			ask(ctx, namespace, "demo-1")
			kubectl(
				ctx,
				"wait",
				"--namespace",
				namespace,
				"--for=condition=WaitingForToolResults",
				"turn/demo-1",
				"--timeout=60s",
			)
			waiting := read(ctx, namespace, "demo-1")
			Expect(waiting).To(capstantest.WaitForTools("ask-ann", "ask-bob"))
			condition := meta.FindStatusCondition(waiting.Status.Conditions, v1alpha1.ConditionWaitingForToolResults)
			Expect(condition.Reason).To(Equal(v1alpha1.ReasonClientTools))
			Expect(condition.Message).To(ContainSubstring("1-0 (ask-ann), 1-1 (ask-bob)"))

			create(ctx, builder.ToolResult("bob", "1-1").In(namespace).Result("no").Obj())
			Eventually(ctx, acceptance(namespace, "bob")).Should(HavePrefix("True Accepted: "))
			Eventually(ctx, turn(namespace, "demo-1")).Should(capstantest.WaitForTools("ask-ann"))

			create(ctx, builder.ToolResult("wrong", "9-9").In(namespace).Result("?").Obj())
			Eventually(
				ctx,
				acceptance(namespace, "wrong"),
			).Should(And(HavePrefix("False UnknownCall: "), ContainSubstring("9-9"), ContainSubstring("1-0 (ask-ann)")))
			create(ctx, builder.ToolResult("server", "1-2").In(namespace).Result("?").Obj())
			Eventually(ctx, acceptance(namespace, "server")).Should(HavePrefix("False NotAClientTool: "))
			Expect(read(ctx, namespace, "demo-1")).To(capstantest.WaitForTools("ask-ann"), "a wrong result changes nothing")

			create(ctx, builder.ToolResult("ann", "1-0").In(namespace).Result("yes").Obj())
			answer := succeeded(ctx, namespace, "demo-1")
			Expect(answer.Status.Output).To(Equal("Ann said yes, Bob said no, it has 2 words."))
			Eventually(ctx, acceptance(namespace, "ann")).Should(HavePrefix("True Accepted: "))
		},
	)

	It(
		"are abandoned for a message with delivery Steer, and not for one with delivery Queue",
		SpecTimeout(specLimit),
		func(ctx SpecContext) {
			namespace := newStage(
				ctx,
				builder.Script("{{input}}: {{tool:ask-ann}}", calls{call("ask-ann", nil)}),
				builder.ClientTool("ask-ann").Obj(),
			)
			ask(ctx, namespace, "demo-1")
			kubectl(
				ctx,
				"wait",
				"--namespace",
				namespace,
				"--for=condition=WaitingForToolResults",
				"turn/demo-1",
				"--timeout=60s",
			)
			ask(ctx, namespace, "demo-2")
			Consistently(ctx, turn(namespace, "demo-1")).WithTimeout(time.Second).Should(capstantest.WaitForTools("ask-ann"))

			steer := builder.Turn("demo-3").In(namespace).Input("Never mind Ann").Obj()
			steer.Spec.Delivery = v1alpha1.DeliverySteer
			create(ctx, steer)
			Expect(
				succeeded(ctx, namespace, "demo-1").Status.Output,
			).To(Equal("Never mind Ann: Cancelled: user sent a new message"))
			kubectl(ctx, "wait", "--namespace", namespace, "--for=condition=Finished", "turn/demo-3", "--timeout=60s")
			Expect(read(ctx, namespace, "demo-3")).To(capstantest.HaveSteered("demo-1"))
			Eventually(ctx, turn(namespace, "demo-2")).Should(capstantest.WaitForTools("ask-ann"))
		},
	)
})

// acceptance returns a function that reads the Accepted condition of a ToolResult.
func acceptance(namespace, name string) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		result := &v1alpha1.ToolResult{}
		err := api.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, result)
		condition := meta.FindStatusCondition(result.Status.Conditions, v1alpha1.ConditionAccepted)
		if condition == nil {
			return "", err
		}
		return fmt.Sprintf("%s %s: %s", condition.Status, condition.Reason, condition.Message), err
	}
}
