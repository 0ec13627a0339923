//go:build e2e

package e2e_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// sessionManifest is the Session of the Turns below.
const sessionManifest = `
apiVersion: capstan.dev/v1alpha1
kind: Session
metadata: {name: demo}
spec: {harnessRef: {name: base}}
---
`

// layersManifest is what that Session needs, with a model that takes its time.
func layersManifest(latency time.Duration) string {
	return fmt.Sprintf(`
apiVersion: capstan.dev/v1alpha1
kind: Model
metadata: {name: simulated, annotations: {capstan.dev/is-default-model: "true"}}
spec:
  provider: Simulated
  simulation:
    response: {type: Echo}
    latency: %s
---
apiVersion: capstan.dev/v1alpha1
kind: Harness
metadata: {name: base}
---
`, latency)
}

// turnsManifest is one Turn for each number, in that order.
func turnsManifest(numbers []int) string {
	var b strings.Builder
	for _, n := range numbers {
		fmt.Fprintf(
			&b,
			"apiVersion: capstan.dev/v1alpha1\nkind: Turn\nmetadata: {name: demo-%d}\nspec: {sessionRef: {name: demo}, input: "+
				"message %d}\n---\n",
			n,
			n,
		)
	}
	return b.String()
}

var _ = Describe("Ten Turns of one Session in one file", func() {
	natural := []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}
	mixed := []int{10, 3, 1, 7, 2, 9, 4, 8, 6, 5}

	It("that lists them in order run in that order", SpecTimeout(specLimit), func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		apply(ctx, namespace, layersManifest(0)+sessionManifest+turnsManifest(natural))
		Expect(finished(ctx, namespace)).To(Equal(natural))
	})

	It(
		"that lists them in any order run in natural order if they have the same creation time",
		SpecTimeout(specLimit),
		func(ctx SpecContext) {
			namespace := appliedTogether(ctx, layersManifest(0)+turnsManifest(mixed)+sessionManifest)
			Expect(finished(ctx, namespace)).To(Equal(natural))
		},
	)

	It(
		"that begins with the Session run in natural order after the first one",
		SpecTimeout(specLimit),
		func(ctx SpecContext) {
			// The first Turn begins before kubectl has made the others, and takes longer than that. It is not stopped for
			// one that should have come first, had it been there.
			namespace := appliedTogether(ctx, layersManifest(time.Second)+sessionManifest+turnsManifest(mixed))
			order := finished(ctx, namespace)
			show("order", fmt.Sprint(order))
			Expect(slices.IsSorted(order[1:])).To(BeTrue(), "the order was %v", order)
		},
	)
})

var _ = Describe("A Session with several missing references", func() {
	It("names all of them in one condition", SpecTimeout(specLimit), func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		apply(ctx, namespace, `
apiVersion: capstan.dev/v1alpha1
kind: Session
metadata: {name: demo}
spec: {harnessRef: {name: later}, agentRef: {name: helper}, modelRef: {name: large}, tools: [{name: pay}]}
`)
		session := &v1alpha1.Session{}
		Eventually(ctx, func() (*metav1.Condition, error) {
			err := api.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "demo"}, session)
			return meta.FindStatusCondition(session.Status.Conditions, v1alpha1.ConditionReady), err
		}).Should(HaveValue(And(
			HaveField("Status", metav1.ConditionFalse),
			HaveField("Reason", v1alpha1.ReasonHarnessNotFound),
			HaveField(
				"Message",
				And(ContainSubstring(`Harness "later" does not exist.`), ContainSubstring(`Agent "helper" does not exist.`),
					ContainSubstring(`Model "large" does not exist.`), ContainSubstring(`Tool "pay" does not exist.`)),
			),
		)))
	})
})

var _ = Describe("All kinds in one file, in reverse order", func() {
	It("run a Turn", SpecTimeout(specLimit), func(ctx SpecContext) {
		namespace := newNamespace(ctx)
		apply(ctx, namespace, `
apiVersion: capstan.dev/v1alpha1
kind: Turn
metadata: {name: demo-1}
spec: {sessionRef: {name: demo}, input: "Well?"}
---
apiVersion: capstan.dev/v1alpha1
kind: ToolResult
metadata: {name: ann}
spec: {turnRef: {name: demo-1}, callID: 1-0, result: all is well}
---
`+sessionManifest+`
apiVersion: capstan.dev/v1alpha1
kind: Harness
metadata: {name: base}
spec: {tools: [{name: ask-ann}, {name: word-count}]}
---
apiVersion: capstan.dev/v1alpha1
kind: Tool
metadata: {name: word-count}
spec:
  description: Counts the words of a text.
  sideEffect: Pure
  inputSchema: {type: object, properties: {text: {type: string}}, required: [text]}
  job: {image: "`+toolboxImage+`", command: [/toolbox, word-count]}
---
apiVersion: capstan.dev/v1alpha1
kind: Tool
metadata: {name: ask-ann}
spec: {description: Asks Ann., client: {}}
---
apiVersion: capstan.dev/v1alpha1
kind: Model
metadata: {name: simulated, annotations: {capstan.dev/is-default-model: "true"}}
spec:
  provider: Simulated
  simulation:
    response: {text: "{{tool:ask-ann}} in {{tool:word-count}} words"}
    toolCalls:
      sequence:
      - calls: [{name: ask-ann}]
      - calls: [{name: word-count, arguments: {text: "{{tool:ask-ann}}"}}]
      - {}
`)
		answer := succeeded(ctx, namespace, "demo-1")
		Expect(answer.Status.Output).To(Equal("all is well in 3 words"))
		Eventually(ctx, acceptance(namespace, "ann")).Should(HavePrefix("True Accepted: "))
	})
})

// appliedTogether applies the manifest in a namespace of its own so that all Turns are as old as each other. Creation
// times are in seconds, so that this takes another attempt when a second ended in between.
func appliedTogether(ctx context.Context, manifest string) string {
	GinkgoHelper()
	const attempts = 10
	for range attempts {
		namespace := newNamespace(ctx)
		apply(ctx, namespace, manifest)
		ages := map[time.Time]bool{}
		for _, turn := range turnsIn(ctx, namespace) {
			ages[turn.CreationTimestamp.Time] = true
		}
		if len(ages) == 1 {
			return namespace
		}
	}
	Fail(fmt.Sprintf("kubectl did not make the Turns within one second in %d attempts", attempts))
	return ""
}

func turnsIn(ctx context.Context, namespace string) []v1alpha1.Turn {
	GinkgoHelper()
	var turns v1alpha1.TurnList
	Expect(api.List(ctx, &turns, client.InNamespace(namespace))).To(Succeed())
	return turns.Items
}

// finished waits for the ten Turns and returns their numbers in the order in which they ended.
func finished(ctx context.Context, namespace string) []int {
	GinkgoHelper()
	for n := 1; n <= 10; n++ {
		answer := succeeded(ctx, namespace, fmt.Sprintf("demo-%d", n))
		Expect(answer.Status.Output).To(Equal(fmt.Sprintf("message %d", n)))
	}
	turns := turnsIn(ctx, namespace)
	slices.SortFunc(turns, func(a, b v1alpha1.Turn) int {
		return a.Status.Summary.FinishedAt.Compare(b.Status.Summary.FinishedAt.Time)
	})
	var order []int
	for _, turn := range turns {
		var n int
		_, err := fmt.Sscanf(turn.Name, "demo-%d", &n)
		Expect(err).NotTo(HaveOccurred())
		order = append(order, n)
	}
	return order
}
