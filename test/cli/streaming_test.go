package cli_test

import (
	"context"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
	"github.com/capstan-dev/capstan/test/internal/terminal"
)

// slow responds with many words, one after another.
func slow() v1alpha1.Simulation {
	return v1alpha1.Simulation{
		Latency:  &metav1.Duration{Duration: 3 * time.Second},
		Response: &v1alpha1.SimulatedResponse{Type: v1alpha1.SimulatedResponseTypeLorem, Tokens: ptr.To[int32](60)},
	}
}

// spoken is what an agent has said on a terminal, in one line.
func spoken(t *terminal.Terminal) string {
	_, words, _ := strings.Cut(t.Text(), "agent      ")
	words, _, _ = strings.Cut(words, "── done")
	return strings.Join(strings.Fields(words), " ")
}

// outputOf waits for the end of the only Turn of a namespace and returns its response, in one line.
func outputOf(ctx context.Context, namespace string) string {
	GinkgoHelper()
	name := onlyTurn(ctx, namespace).Name
	Eventually(kit.Turn(ctx, namespace, name)).Should(capstantest.HaveSucceeded())
	return strings.Join(strings.Fields(onlyTurn(ctx, namespace).Status.Output), " ")
}

var _ = Describe("The event stream", func() {
	DescribeTable("brings the words of a response as they come",
		func(ctx context.Context, login func(context.Context, string, ...string) (string, string)) {
			namespace := stage(ctx, slow())
			_, kubeconfig := login(ctx, namespace, "capstan-edit")
			t := as(kubeconfig, namespace).Open(ctx, "chat", "demo")
			Eventually(t).Should(gbytes.Say("Session demo"))
			t.Type("Tell me\n")
			Eventually(func() int { return len(strings.Fields(spoken(t))) }).Should(BeNumerically(">", 3))
			Expect(t.Text()).NotTo(ContainSubstring("── done"), "there are words before the end")
			Eventually(t).Should(gbytes.Say("── done"))
			Expect(spoken(t)).To(Equal(outputOf(ctx, namespace)))
			t.Type("\x04")
			Expect(t.Code()).To(Equal(0))
		},
		Entry("to a user with a token", tokenUser),
	)

	It("is left and rejoined in mid sentence, and nothing is lost or repeated", func(ctx context.Context) {
		namespace := stage(ctx, slow())
		_, kubeconfig := tokenUser(ctx, namespace, "capstan-edit")
		ann := as(kubeconfig, namespace)
		t := ann.Open(ctx, "chat", "demo")
		Eventually(t).Should(gbytes.Say("Session demo"))
		t.Type("Tell me\n")
		Eventually(func() int { return len(strings.Fields(spoken(t))) }).Should(BeNumerically(">", 3))
		t.Interrupt()
		Expect(t.Code()).To(Equal(130))
		again := ann.Open(ctx, "chat", "demo", "--follow")
		Eventually(again).Should(gbytes.Say("── done"))
		Expect(spoken(again)).To(Equal(outputOf(ctx, namespace)))
		Expect(again.Text()).To(MatchRegexp(`(?s)── demo-\w+ .*you        Tell me\nagent      lorem`))
	})

	It("is not needed: messages come when they are complete, and the user is told once", func(ctx context.Context) {
		namespace := stage(ctx, echo())
		_, kubeconfig := tokenUser(ctx, namespace, "capstan-edit")
		r := as(kubeconfig, namespace).Pipe(ctx, "One\nTwo\n", "chat", "demo", "--manager-namespace", "nowhere")
		Expect(r.Code).To(Equal(0))
		Expect(r.Out).To(And(ContainSubstring("You said: One"), ContainSubstring("You said: Two")))
		Expect(strings.Count(r.Err, "The event stream of the manager cannot be used")).To(Equal(1))
	})
})
