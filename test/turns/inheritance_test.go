package turns_test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

var _ = Describe("A Turn on a Harness that has a parent", func() {
	// inherits makes the namespace's Harness a child of a new one, which comes back.
	inherits := func(ctx context.Context, namespace string) *v1alpha1.Harness {
		GinkgoHelper()
		parent := builder.Harness("parent").In(namespace).Obj()
		parent.Spec.SystemPrompt = "Be brief."
		create(ctx, parent)
		patch := `{"spec":{"parentRef":{"name":"parent"},"systemPrompt":"Be kind.","toolConcurrency":"Sequential"}}`
		Expect(
			kit.Client.Patch(ctx, harnessOf(namespace), client.RawPatch(types.MergePatchType, []byte(patch))),
		).To(Succeed())
		return parent
	}
	blockedBy := func(parent string) map[string]string {
		return map[string]string{
			"dependency": "harness",
			"state":      "incomplete",
			"problem": `Harness "` + parent + `", the parent of Harness "base", does not exist. Create it, ` +
				`or change spec.parentRef of Harness "base".`,
		}
	}

	It("runs with all layers, the root first", func(ctx context.Context) {
		namespace := newNamespace(ctx, builder.Script("done"))
		inherits(ctx, namespace)
		startTurn(ctx, namespace)
		Expect(prompts.of(ctx, namespace, "demo-1")).To(ConsistOf(HaveField("System", HavePrefix("Be brief.\n\nBe kind."))))
	})

	It("ends before the next model call when the parent was deleted", func(ctx context.Context) {
		namespace := newNamespace(
			ctx,
			builder.Script("never", builder.Calls("work")),
			builder.JobTool("work", v1alpha1.SideEffectPure).Obj(),
		)
		parent := inherits(ctx, namespace)
		started, proceed := blocking(namespace)
		startTurn(ctx, namespace)
		Eventually(started).Should(Receive())
		Expect(kit.Client.Delete(ctx, parent)).To(Succeed())
		close(proceed)
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveFailed("DependencyUnavailable"))
		turn, err := kit.Turn(ctx, namespace, "demo-1")()
		Expect(err).NotTo(HaveOccurred())
		Expect(turn.Status.Error.Fields).To(Equal(blockedBy("parent")))
		Expect(turn.Status.ToolCalls[0].State).To(Equal(v1alpha1.ToolCallStateSucceeded))
		Expect(prompts.count(turn.UID)).To(Equal(1))
	})

	It(
		"starts no further tool of a step when the parent is deleted, and reports the first result",
		func(ctx context.Context) {
			namespace := newNamespace(
				ctx,
				builder.Script("never", builder.Calls("work", "work")),
				builder.JobTool("work", v1alpha1.SideEffectPure).Obj(),
			)
			parent := inherits(ctx, namespace)
			started, proceed := blocking(namespace)
			startTurn(ctx, namespace)
			Eventually(started).Should(Receive())
			Expect(kit.Client.Delete(ctx, parent)).To(Succeed())
			Eventually(
				func() error { return kit.Client.Get(ctx, client.ObjectKeyFromObject(parent), &v1alpha1.Harness{}) },
			).ShouldNot(Succeed())
			close(proceed)
			Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveFailed("DependencyUnavailable"))
			turn, err := kit.Turn(ctx, namespace, "demo-1")()
			Expect(err).NotTo(HaveOccurred())
			Expect(turn.Status.Error.Fields).To(Equal(blockedBy("parent")))
			Expect(
				turn.Status.ToolCalls,
			).To(
				HaveExactElements(
					HaveField("State", v1alpha1.ToolCallStateSucceeded),
					HaveField("State", Not(Equal(v1alpha1.ToolCallStateSucceeded))),
				),
			)
			Expect(kit.Starts(namespace, "demo-1", "1-1")).To(BeZero())
		},
	)

	It("waits before it begins until the parent is there", func(ctx context.Context) {
		namespace := newNamespace(ctx, builder.Script("done"))
		parent := inherits(ctx, namespace)
		Expect(kit.Client.Delete(ctx, parent)).To(Succeed())
		create(ctx, builder.Session("demo").In(namespace).Obj())
		create(ctx, builder.Turn("demo-1").In(namespace).Obj())
		Consistently(turnPhase(ctx, namespace, "demo-1")).WithTimeout(time.Second).Should(Equal(v1alpha1.TurnPhaseQueued))
		create(ctx, builder.Harness("parent").In(namespace).Obj())
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
	})
})

// startTurn makes the Session demo and its first Turn.
func startTurn(ctx context.Context, namespace string) {
	GinkgoHelper()
	create(ctx, builder.Session("demo").In(namespace).Obj())
	create(ctx, builder.Turn("demo-1").In(namespace).Obj())
}
