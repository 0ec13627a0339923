//go:build e2e

package e2e_test

import (
	"context"
	"errors"
	"net/http"
	"sort"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
	"github.com/capstan-dev/capstan/internal/runtime/model/provider/providertest"
)

// thinker is a model that reasons, behind the double of its provider's API.
type thinker struct {
	spec   v1alpha1.ModelSpec
	double *providertest.Double
}

// newThinkers are a model for each API, by the path below which its double is served.
func newThinkers() map[string]thinker {
	low := &v1alpha1.ModelParameters{ReasoningEffort: v1alpha1.ReasoningEffortLow}
	naps := func(id string) providertest.Part {
		return providertest.Part{Call: &providertest.Call{ID: id, Name: "nap", Arguments: `{"seconds":2}`}}
	}
	doubled := func(d providertest.Dialect) *providertest.Double {
		return &providertest.Double{Dialect: d, Repeats: true, Script: []providertest.Step{
			{{Thought: "I think about sleep."}, {Text: "Let me rest."}, naps("call_a"), naps("call_b")},
			{{Thought: "I think about dreams."}, naps("call_c")},
			{{Thought: "I think about words."}, {Text: "Good morning."}},
		}}
	}
	return map[string]thinker{
		"anthropic": {
			v1alpha1.ModelSpec{Provider: v1alpha1.ModelProviderAnthropic, Model: "claude-sonnet-4-5", Parameters: low},
			doubled(providertest.Anthropic{}),
		},
		"google": {
			v1alpha1.ModelSpec{Provider: v1alpha1.ModelProviderGoogle, Model: "gemini-3-pro", Parameters: low},
			doubled(providertest.Google{}),
		},
		"responses": {
			v1alpha1.ModelSpec{
				Provider: v1alpha1.ModelProviderOpenAI, API: v1alpha1.ModelAPIResponses, Model: "gpt-5.6", Parameters: low,
			},
			doubled(providertest.Responses{}),
		},
		"chat": {
			v1alpha1.ModelSpec{Provider: v1alpha1.ModelProviderOpenAI, Model: "thinker"},
			doubled(providertest.Chat{Field: "reasoning_content", Demands: true}),
		},
	}
}

var _ = Describe("A Turn of a model that reasons", Serial, Label(hereLabel), func() {
	It("goes on with its thoughts when the manager dies between its steps", SpecTimeout(crashLimit), func(ctx SpecContext) {
		thinkers, served := newThinkers(), http.NewServeMux()
		for name, t := range thinkers {
			served.Handle("/"+name+"/", t.double)
		}
		server := newModelServer(ctx, served)
		namespace := newStage(ctx, script(""), toolbox("nap", "sleep", v1alpha1.SideEffectPure))
		Expect(secretFor(ctx, api, namespace, "provider")).To(Succeed())
		for name, t := range thinkers {
			model := &v1alpha1.Model{ObjectMeta: named(namespace, name), Spec: t.spec}
			model.Spec.BaseURL = server.url + "/" + name
			model.Spec.SecretKeyRef = &v1alpha1.SecretKeyReference{Name: "provider", Key: "key"}
			create(ctx, model)
			Expect(talk(ctx, api, namespace, name, 1, name, "Please rest.")).To(Succeed())
		}
		for step := 1; step <= 2; step++ {
			Eventually(ctx, func() error {
				for name, t := range thinkers {
					if t.double.Minted() < step {
						return errors.New(name + " has not answered")
					}
				}
				return nil
			}).WithTimeout(takeover).Should(Succeed())
			dies(ctx)
		}
		for name, t := range thinkers {
			Eventually(ctx, turn(namespace, name+"-1")).WithTimeout(takeover).Should(capstantest.HaveSucceeded())
			Expect(read(ctx, namespace, name+"-1").Status.Output).To(Equal("Good morning."))
			expectOneBeginning(t.double)
		}
	})
})

// dies deletes the manager's pods without grace, and waits for the next one to lead.
func dies(ctx context.Context) {
	GinkgoHelper()
	pods, err := managerPods(ctx)
	Expect(err).NotTo(HaveOccurred())
	for i := range pods {
		Expect(client.IgnoreNotFound(api.Delete(ctx, &pods[i], client.GracePeriodSeconds(0)))).To(Succeed())
	}
	settled(ctx)
}

// expectOneBeginning checks that each request to a double begins with those of the steps before, and that the last one
// had the thoughts of both of them. A step that was cut off sends its request again.
func expectOneBeginning(double *providertest.Double) {
	GinkgoHelper()
	Expect(double.Returned()).To(Equal(2))
	var requests [][]string
	var others map[string]string
	for _, body := range double.Bodies() {
		messages, rest, err := providertest.Fields(double.Dialect, body)
		Expect(err).NotTo(HaveOccurred())
		if others == nil {
			others = rest
		}
		Expect(rest).To(Equal(others))
		requests = append(requests, messages)
	}
	sort.SliceStable(requests, func(i, j int) bool { return len(requests[i]) < len(requests[j]) })
	for i := 1; i < len(requests); i++ {
		Expect(requests[i][:len(requests[i-1])]).To(Equal(requests[i-1]))
	}
	Expect(len(requests)).To(BeNumerically(">=", len(double.Script)))
}
