package turns_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

// unfetched answers as Anthropic does about an image whose address has expired.
func unfetched(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusBadRequest)
	_, _ = io.WriteString(w, `{"type":"error","error":{"type":"invalid_request_error",`+
		`"message":"Unable to download the file. Please verify the URL and try again."}}`)
}

var _ = Describe("A message to a Model of a real provider", func() {
	// Rules: LLM-06.
	It("sets the reasoning effort, and only its own", func(ctx context.Context) {
		s := newSite(anthropicText("Hi."))
		namespace := withModel(ctx, v1alpha1.ModelProviderAnthropic, s, func(m *v1alpha1.Model) {
			m.Spec.Model = "claude-opus-5"
			m.Spec.Parameters = &v1alpha1.ModelParameters{ReasoningEffort: v1alpha1.ReasoningEffortLow}
		})
		create(ctx, keySecret(namespace))
		first := builder.Turn("demo-1").In(namespace).Input("Think hard.").Obj()
		first.Spec.Controls = &v1alpha1.TurnControls{ReasoningEffort: v1alpha1.ReasoningEffortHigh}
		create(ctx, first)
		turn := answered(ctx, namespace)
		create(ctx, builder.Turn("demo-2").In(namespace).Input("Thank you.").Obj())
		Eventually(kit.Turn(ctx, namespace, "demo-2")).Should(capstantest.HaveSucceeded())

		var efforts []string
		for _, r := range s.requests() {
			var body struct {
				OutputConfig struct {
					Effort string `json:"effort"`
				} `json:"output_config"`
			}
			Expect(json.Unmarshal([]byte(r.body), &body)).To(Succeed())
			efforts = append(efforts, body.OutputConfig.Effort)
			Expect(r.body).NotTo(ContainSubstring(`"metadata"`), "a server that is not Anthropic's is sent a pseudonym")
		}
		Expect(efforts).To(Equal([]string{"high", "low"}))
		Expect(turn.Status.Summary.TimeToFirstToken).NotTo(BeNil())
		Expect(turn.Status.Summary.TimeToFirstToken.Duration).To(BeNumerically("<", time.Minute))
	})

	It("continues without an expired image", func(ctx context.Context) {
		answers := []http.HandlerFunc{
			anthropicText("A ship."), unfetched, unfetched, anthropicText("It was old."), anthropicText("Bye."),
		}
		s := newSite(inTurn(answers...))
		namespace := withModel(ctx, v1alpha1.ModelProviderAnthropic, s, nil)
		create(ctx, keySecret(namespace))
		const address = "https://example.org/ship.png?expires=1"
		create(ctx, newTurnOf(namespace, "demo", "demo-1", v1alpha1.MessagePart{Text: "What is this?"}, v1alpha1.MessagePart{
			Image: &v1alpha1.MessageImage{MediaType: v1alpha1.ImageMediaTypePNG, URL: address},
		}))
		Expect(answered(ctx, namespace).Status.Output).To(Equal("A ship."))
		create(ctx, builder.Turn("demo-2").In(namespace).Input("How old was it?").Obj())
		Eventually(kit.Turn(ctx, namespace, "demo-2")).Should(HaveField("Status.Output", "It was old."))
		create(ctx, builder.Turn("demo-3").In(namespace).Input("Bye.").Obj())
		Eventually(kit.Turn(ctx, namespace, "demo-3")).Should(HaveField("Status.Output", "Bye."))

		Expect(s.requests()).To(HaveLen(5))
		for i, r := range s.requests() {
			if i < 3 {
				Expect(r.body).To(ContainSubstring(address))
			} else {
				Expect(r.body).To(And(Not(ContainSubstring(address)), ContainSubstring("It may have expired.")))
			}
		}
	})
})
