package turns_test

import (
	"bytes"
	"context"
	"net/http"
	"net/url"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
	"github.com/capstan-dev/capstan/internal/testing/builder"
	"github.com/capstan-dev/capstan/internal/testing/modelserver"
)

var _ = Describe("A Model at Azure or a gateway", func() {
	const azure, litellm = "https://my-resource.openai.azure.com", "https://litellm.example.org"
	for model, test := range map[string]struct {
		host, secret string
		handler      http.Handler
		// target is the path and query of a call, and header the one that has the key, after a word.
		target, header, word string
	}{
		"azure": {
			azure, "azure", modelserver.Azure(apiKey, "2024-10-21", "my-deployment"),
			"/openai/v1/chat/completions", "Authorization", "Bearer ",
		},
		"azure-dated": {
			azure, "azure", modelserver.Azure(apiKey, "2024-10-21", "my-deployment"),
			"/openai/deployments/my-deployment/chat/completions?api-version=2024-10-21", "Api-Key", "",
		},
		"litellm": {
			litellm, "litellm", modelserver.LiteLLM(apiKey, "team-default"),
			"/v1/chat/completions", "Authorization", "Bearer ",
		},
	} {
		// Rules: SM-09.
		It("responds, and its filter refuses, as the document describes: "+model, func(ctx context.Context) {
			namespace := emptyNamespace(ctx)
			server := newSite(test.handler.ServeHTTP)
			create(ctx, &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{
					Namespace: namespace, Name: test.secret,
					Annotations: map[string]string{v1alpha1.AnnotationAllowedHosts: placeOf(server.URL)},
				},
				StringData: map[string]string{"api-key": apiKey},
			})
			apply(ctx, namespace, bytes.ReplaceAll(recipe(namespace, model), []byte(test.host), []byte(server.URL)))
			askModel(ctx, namespace, model)
			turn := answered(ctx, namespace)
			Expect(turn.Status.Output).To(Equal("Good morning."))
			Expect(turn.Status.Summary.Calls).To(Equal("1/1"))
			Expect(server.requests()).To(HaveLen(2))
			for _, r := range server.requests() {
				Expect(r.URL.RequestURI()).To(Equal(test.target))
				Expect(r.Header.Get(test.header)).To(Equal(test.word + apiKey))
			}

			create(ctx, builder.Turn("demo-2").In(namespace).Input("Some "+modelserver.Filtered+", please.").Obj())
			Eventually(kit.Turn(ctx, namespace, "demo-2")).Should(capstantest.HaveSucceeded())
			refused, err := kit.Turn(ctx, namespace, "demo-2")()
			Expect(err).NotTo(HaveOccurred())
			Expect(stoppedBy(refused)).To(Equal(string(v1alpha1.StopReasonRefusal)))
			Expect(server.requests()).To(HaveLen(3), "a refused prompt is not sent again")

			create(ctx, builder.Turn("demo-3").In(namespace).Input("Hello again").Obj())
			Eventually(kit.Turn(ctx, namespace, "demo-3")).Should(capstantest.HaveSucceeded())
			after, err := kit.Turn(ctx, namespace, "demo-3")()
			Expect(err).NotTo(HaveOccurred())
			Expect(stoppedBy(after)).To(Equal(string(v1alpha1.StopReasonEndTurn)))
		})
	}
})

// stoppedBy is the reason of a Turn that has succeeded.
func stoppedBy(turn *v1alpha1.Turn) string {
	GinkgoHelper()
	c := meta.FindStatusCondition(turn.Status.Conditions, v1alpha1.ConditionSucceeded)
	Expect(c).NotTo(BeNil())
	return c.Reason
}

// placeOf is the host and port of a URL.
func placeOf(address string) string {
	GinkgoHelper()
	u, err := url.Parse(address)
	Expect(err).NotTo(HaveOccurred())
	return u.Host
}
