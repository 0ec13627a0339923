package turns_test

import (
	"context"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

// slow is a script that responds with so many words, one a second.
func slow(words int) v1alpha1.Simulation {
	return v1alpha1.Simulation{
		Latency:  &metav1.Duration{Duration: time.Duration(words) * time.Second},
		Response: &v1alpha1.SimulatedResponse{Type: v1alpha1.SimulatedResponseTypeLorem, Tokens: new(int32(words))},
	}
}

// recovers sets how partial responses of the Model of a namespace are recovered.
func recovers(ctx context.Context, namespace string, recovery v1alpha1.ModelRecovery) {
	GinkgoHelper()
	m := builder.Model("simulated").In(namespace).Obj()
	patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"recovery":"`+string(recovery)+`"}}`))
	Expect(kit.Client.Patch(ctx, m, patch)).To(Succeed())
}

// kept returns the texts of partial responses in the journals of a namespace.
func kept(ctx context.Context, namespace string) string {
	GinkgoHelper()
	text := ""
	for _, entry := range journalOf(ctx, namespace) {
		if entry.Partial != nil {
			text += entry.Partial.Text
		}
	}
	return text
}

var _ = Describe("An answer that was coming in when the manager died", Serial, Ordered, func() {
	another := onOwnServer(capstantest.Options{Prompts: prompts.note, NoJobPlayer: true})

	BeforeEach(func() { kit = another() })

	// Rules: PART-02.
	It("is the answer where the Model finalizes", func(ctx context.Context) {
		namespace := newNamespace(ctx, slow(60))
		recovers(ctx, namespace, v1alpha1.ModelRecoveryFinalize)
		create(ctx, builder.Session("demo").In(namespace).Obj())
		create(ctx, builder.Turn("demo-1").In(namespace).Obj())
		Eventually(kept).WithArguments(ctx, namespace).Should(HavePrefix("lorem ipsum"))
		Expect(kit.Stop()).To(Succeed())

		kit = another()
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
		turn, err := kit.Turn(ctx, namespace, "demo-1")()
		Expect(err).NotTo(HaveOccurred())
		Expect(turn.Status.Output).To(Equal(kept(ctx, namespace)))
		Expect(turn.Status.Recovered).To(Equal(v1alpha1.TurnRecoveryFinalized))
		recovered := meta.FindStatusCondition(turn.Status.Conditions, v1alpha1.ConditionRecovered)
		Expect(recovered).NotTo(BeNil())
		Expect(recovered.Status).To(Equal(metav1.ConditionTrue))
		Expect(recovered.Reason).To(Equal(v1alpha1.ReasonFinalized))
		Expect(prompts.of(ctx, namespace, "demo-1")).To(HaveLen(1), "the model was called again")
		Expect(turn.Status.Summary.ModelCalls).To(BeEquivalentTo(1))

		By("applying the Turn again, which adopts its outcome")
		Expect(kit.Client.Delete(ctx, turn)).To(Succeed())
		create(ctx, builder.Turn("demo-1").In(namespace).Obj())
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(HaveField("Status.Recovered", v1alpha1.TurnRecoveryFinalized))
	})

	// Rules: PART-02.
	It("is requested again where it does not", func(ctx context.Context) {
		namespace := newNamespace(ctx, slow(8))
		create(ctx, builder.Session("demo").In(namespace).Obj())
		create(ctx, builder.Turn("demo-1").In(namespace).Obj())
		Eventually(func(g Gomega) {
			turn, err := kit.Turn(ctx, namespace, "demo-1")()
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(prompts.count(turn.UID)).To(Equal(1))
		}).Should(Succeed())
		Expect(kit.Stop()).To(Succeed())

		kit = another()
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
		turn, err := kit.Turn(ctx, namespace, "demo-1")()
		Expect(err).NotTo(HaveOccurred())
		Expect(strings.Fields(turn.Status.Output)).To(HaveLen(8))
		Expect(prompts.of(ctx, namespace, "demo-1")).To(HaveLen(2))
		Expect(turn.Status.Recovered).To(BeEmpty())
		Expect(meta.FindStatusCondition(turn.Status.Conditions, v1alpha1.ConditionRecovered)).To(BeNil())
		Expect(kept(ctx, namespace)).To(BeEmpty())
	})
})

var _ = Describe("The write budget of a response that is recorded while it streams", func() {
	It("is an entry every five seconds", func(ctx context.Context) {
		namespace := newNamespace(ctx, slow(13))
		recovers(ctx, namespace, v1alpha1.ModelRecoveryFinalize)
		before := startedSession(ctx, namespace)
		create(ctx, builder.Turn("demo-1").In(namespace).Obj())
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
		expectCost(ctx, namespace, before, slices.Concat(beginning, times(2, entryWrite), ending))
	})
})
