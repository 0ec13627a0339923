package turns_test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
)

var _ = Describe("A Turn on a Harness that has a parent", func() {
	// inherits makes the namespace's Harness a child of a new one, which comes back.
	inherits := func(ctx context.Context, namespace string) *v1alpha1.Harness {
		GinkgoHelper()
		parent := &v1alpha1.Harness{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "parent"}}
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
			"problem":    `Harness "` + parent + `", the parent of Harness "base", does not exist. Create it, or change spec.parentRef of Harness "base".`,
		}
	}

	It("runs with all layers, the root first", func(ctx context.Context) {
		namespace := newNamespace(ctx, v1alpha1.Simulation{Response: fixed("done")})
		inherits(ctx, namespace)
		startTurn(ctx, namespace)
		Expect(prompts.of(ctx, namespace, "demo-1")).To(ConsistOf(HaveField("System", HavePrefix("Be brief.\n\nBe kind."))))
	})

	It("ends before the next model call when the parent is gone", func(ctx context.Context) {
		namespace := newNamespace(
			ctx,
			calling("never", []v1alpha1.SimulatedToolCall{call("work")}),
			jobTool("work", v1alpha1.SideEffectPure),
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
		"starts no further tool of a step when the parent is gone, and tells what the first one gave",
		func(ctx context.Context) {
			namespace := newNamespace(
				ctx,
				calling("never", []v1alpha1.SimulatedToolCall{call("work"), call("work")}),
				jobTool("work", v1alpha1.SideEffectPure),
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
			).To(HaveExactElements(HaveField("State", v1alpha1.ToolCallStateSucceeded), HaveField("State", Not(Equal(v1alpha1.ToolCallStateSucceeded)))))
			Expect(kit.Starts(namespace, "demo-1", "1-1")).To(BeZero())
		},
	)

	It("waits before it begins until the parent is there", func(ctx context.Context) {
		namespace := newNamespace(ctx, v1alpha1.Simulation{Response: fixed("done")})
		parent := inherits(ctx, namespace)
		Expect(kit.Client.Delete(ctx, parent)).To(Succeed())
		create(ctx, newSession(namespace, "demo"))
		create(ctx, newTurn(namespace, "demo", "demo-1", "Hello"))
		Consistently(turnPhase(ctx, namespace, "demo-1")).WithTimeout(time.Second).Should(Equal(v1alpha1.TurnPhaseQueued))
		create(ctx, &v1alpha1.Harness{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "parent"}})
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
	})
})

// startTurn makes the Session demo and its first Turn.
func startTurn(ctx context.Context, namespace string) {
	GinkgoHelper()
	create(ctx, newSession(namespace, "demo"))
	create(ctx, newTurn(namespace, "demo", "demo-1", "Hello"))
}
