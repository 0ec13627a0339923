package turns_test

import (
	"context"
	"fmt"
	"slices"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

var _ = Describe("A Session with the capability compaction", func() {
	// Rules: LLM-08.
	It("keeps the prompts of a long conversation short, for one entry and one write of status each time",
		func(ctx context.Context) {
			const turns = 24
			namespace := newNamespace(ctx, builder.Script(strings.Repeat("The code word is heron. ", 30)))
			session := builder.Session("demo").In(namespace).Obj()
			session.Spec.Capabilities = []v1alpha1.CapabilityReference{{
				Builtin: "compaction", Config: &v1alpha1.JSON{Raw: []byte(`{"threshold":1500,"keepMessages":4}`)},
			}}
			create(ctx, session)
			Eventually(phaseOf(ctx, namespace, "demo")).Should(Equal(v1alpha1.SessionPhaseStarted))
			before := len(requests.in(namespace))
			compactions := 0
			for i := range turns {
				name := fmt.Sprintf("demo-%d", i+1)
				create(ctx, builder.Turn(name).In(namespace).Obj())
				Eventually(kit.Turn(ctx, namespace, name)).Should(capstantest.HaveSucceeded())
				turn, err := kit.Turn(ctx, namespace, name)()
				Expect(err).NotTo(HaveOccurred())
				compactions += int(turn.Status.Summary.Compactions)
				// At most the calls for a summary and for the response.
				Expect(turn.Status.Summary.Usage.InputTokens).To(BeNumerically("<", 2*2500), name)
			}
			Eventually(phaseOf(ctx, namespace, "demo")).Should(Equal(v1alpha1.SessionPhaseIdle))
			Expect(compactions).To(BeNumerically(">=", 2))
			Expect(compactions).To(BeNumerically("<", turns/2))
			after := requests.in(namespace)[before:]
			count := func(request string) (n int) {
				for _, r := range after {
					if r == request {
						n++
					}
				}
				return n
			}
			checkpoints := (turns + compactions) / 64
			Expect(count("POST journalentries")).To(Equal(turns + compactions + checkpoints))
			Expect(count("PATCH turns/status")).To(BeNumerically("<=", turns+compactions))
			Expect(slices.Contains(after, "PUT turns/status")).To(BeFalse())

			found := &v1alpha1.Session{}
			Expect(kit.Client.Get(ctx, types.NamespacedName{Namespace: namespace, Name: "demo"}, found)).To(Succeed())
			Expect(found.Status.Journal.ConversationBytes).To(And(
				BeNumerically(">", 0), BeNumerically("<", found.Status.Journal.Bytes/2)))
		})
})
