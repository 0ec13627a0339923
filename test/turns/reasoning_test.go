package turns_test

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
	"github.com/capstan-dev/capstan/internal/runtime/model/provider/providertest"
)

// weatherTalk is what a model says in a Turn that calls a tool twice, and once more, with thoughts before each response.
var weatherTalk = []providertest.Step{
	{
		{Thought: "I think about Oslo."},
		{Text: "Let me look."},
		{Call: &providertest.Call{ID: "call_a", Name: "look", Arguments: `{"at":"Oslo"}`}},
		{Call: &providertest.Call{ID: "call_b", Name: "look", Arguments: `{"at":"Bergen"}`}},
	},
	{
		{Thought: "I think about rain."},
		{Call: &providertest.Call{ID: "call_c", Name: "look", Arguments: `{"at":"Ås"}`}},
	},
	{{Thought: "I think about words."}, {Text: "It rains."}},
}

var _ = Describe("A Turn of a model that reasons", func() {
	DescribeTable(
		"sends the same beginning at each step, although the manager restarts and layers, Tools and the message change",
		func(ctx context.Context, dialect providertest.Dialect, spec v1alpha1.ModelSpec) {
			double := &providertest.Double{Dialect: dialect, Script: weatherTalk}
			s := newSite(double.ServeHTTP)
			namespace := withModel(ctx, spec.Provider, s, func(m *v1alpha1.Model) {
				m.Spec.Model, m.Spec.API, m.Spec.Parameters = spec.Model, spec.API, spec.Parameters
			}, clientTool("look"))
			create(ctx, keySecret(namespace))
			create(ctx, newTurn(namespace, "demo", "demo-1", "What is the weather?"))
			Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.WaitForTools("look", "look"))

			restartKit()
			harness := &v1alpha1.Harness{}
			harness.Namespace, harness.Name = namespace, "base"
			change(ctx, harness, `{"spec":{"systemPrompt":"Be verbose."}}`)
			look := clientTool("look")
			look.Namespace = namespace
			change(ctx, look, `{"spec":{"description":"Looks elsewhere."}}`)
			for i, result := range []string{"Rain.", "Sun."} {
				create(ctx, toolResult(namespace, fmt.Sprintf("ann-%d", i), "demo-1", fmt.Sprintf("1-%d", i), result))
			}
			Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.WaitForTools("look"))

			restartKit()
			create(ctx, newSteer(namespace, "demo-2", "And in Ås?"))
			Expect(answered(ctx, namespace).Status.Output).To(Equal("It rains."))
			Expect(double.Returned()).To(Equal(2), "the thoughts of the steps before the last one")

			bodies := double.Bodies()
			Expect(bodies).To(HaveLen(len(weatherTalk)), "no request was refused")
			before, others, err := providertest.Fields(dialect, bodies[0])
			Expect(err).NotTo(HaveOccurred())
			Expect(string(bodies[0])).To(ContainSubstring("A tool of the client."))
			for _, body := range bodies[1:] {
				messages, same, err := providertest.Fields(dialect, body)
				Expect(err).NotTo(HaveOccurred())
				Expect(same).To(Equal(others))
				Expect(len(messages)).To(BeNumerically(">", len(before)))
				Expect(messages[:len(before)]).To(Equal(before))
				before = messages
			}
		},
		Entry("Anthropic, with a budget", providertest.Anthropic{}, v1alpha1.ModelSpec{
			Provider: v1alpha1.ModelProviderAnthropic, Model: "claude-sonnet-4-5", Parameters: lowEffort,
		}),
		Entry("Google", providertest.Google{}, v1alpha1.ModelSpec{
			Provider: v1alpha1.ModelProviderGoogle, Model: "gemini-3-pro", Parameters: lowEffort,
		}),
		Entry("OpenAI, Responses", providertest.Responses{}, v1alpha1.ModelSpec{
			Provider: v1alpha1.ModelProviderOpenAI, API: v1alpha1.ModelAPIResponses, Model: "gpt-5.6", Parameters: lowEffort,
		}),
		Entry("a compatible server", providertest.Chat{Field: "reasoning_content", Demands: true}, v1alpha1.ModelSpec{
			Provider: v1alpha1.ModelProviderOpenAI, Model: "thinker",
		}),
	)
})

var lowEffort = &v1alpha1.ModelParameters{ReasoningEffort: v1alpha1.ReasoningEffortLow}

// restartKit ends the manager, and starts another one.
func restartKit() {
	GinkgoHelper()
	Expect(kit.Stop()).To(Succeed())
	var err error
	kit, err = capstantest.Start(context.Background(), config, kitOptions())
	Expect(err).NotTo(HaveOccurred())
}
