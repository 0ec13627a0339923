package cli_test

import (
	"context"
	"regexp"
	"strings"
	"unicode"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
	"github.com/capstan-dev/capstan/internal/testing/builder"
	"github.com/capstan-dev/capstan/test/internal/suite"
	"github.com/capstan-dev/capstan/test/internal/terminal"
)

// hostile sets a title, copies to the clipboard, clears the screen, overwrites the line, reverses text, and hides some.
const hostile = "\x1b]0;owned\x07\x1b]52;c;cm0=\x07\x1b[2J\x1b[1;1H\u009b31m ok\rfake\b\b \u202egnp.exe " +
	"\u2066x\u2069 \u200b\U000e0041\x7f end"

// ownColors are the sequences that the program writes itself.
var ownColors = regexp.MustCompile(`\x1b\[(0|1|2|31|32|33|36)m`)

// clean fails if a terminal gets anything but text, line breaks and the program's own colors.
func clean(t *terminal.Terminal) {
	GinkgoHelper()
	shown := ownColors.ReplaceAllString(strings.ReplaceAll(string(t.Buffer().Contents()), "\r\n", "\n"), "")
	for _, r := range shown {
		Expect(r == '\n' || !unicode.IsControl(r) && !unicode.Is(unicode.Cf, r)).To(BeTrue(), "%q in %q", r, shown)
	}
}

var _ = Describe("Hostile text", func() {
	It("of models and tools reaches no terminal", func(ctx context.Context) {
		arguments := `{"text":"\u001b]0;owned\u0007\u202egnp.exe"}`
		namespace := stage(ctx, work("Model: "+strings.ReplaceAll(hostile, "\x7f", "")+" {{tool:work}}", arguments),
			guarded(worker()))
		jobs.In(namespace, func(capstantest.Call) (string, string, int) { return hostile, "", 0 })
		_, kubeconfig := certificateUser(ctx, namespace, "capstan-edit", "capstan-approve")
		mallory := as(kubeconfig, namespace)
		suite.Create(ctx, kit.Client, builder.Turn("demo-1").In(namespace).Input(hostile).Obj())
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.WaitForApproval("work"))

		watch := mallory.Open(ctx, "chat", "demo", "--follow")
		Eventually(watch).Should(gbytes.Say("waits for approval"))
		for _, arguments := range [][]string{{"answer", "demo-1"}, {"tree", "demo-1"}} {
			t := mallory.Open(ctx, arguments...)
			Expect(t.Code()).To(Equal(0))
			clean(t)
		}
		decide := mallory.Open(ctx, "approve", "demo-1")
		Eventually(decide).Should(gbytes.Say(`\[y/N\]`))
		decide.Type("y\n")
		Expect(decide.Code()).To(Equal(0))
		Expect(decide.Text()).To(ContainSubstring(`\u202e`))
		clean(decide)
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
		Eventually(watch).Should(gbytes.Say("done"))
		clean(watch)
		for _, arguments := range [][]string{
			{"log", "demo", "--full"}, {"log", "demo", "-o", "json"}, {"ask", "demo", "again", "--timeout", "1s"},
		} {
			t := mallory.Open(ctx, arguments...)
			t.Code()
			Expect(t.Text()).To(ContainSubstring(`\u202e`), "%v", arguments)
			clean(t)
		}
	})

	It("of a model is a failed Turn's message without effect", func(ctx context.Context) {
		namespace := stage(ctx, v1alpha1.Simulation{Response: &v1alpha1.SimulatedResponse{
			Type: v1alpha1.SimulatedResponseTypeError, Text: strings.ReplaceAll(hostile, "\x7f", ""),
		}})
		_, kubeconfig := certificateUser(ctx, namespace, "capstan-edit")
		t := as(kubeconfig, namespace).Open(ctx, "ask", "demo", "Hi")
		Expect(t.Code()).To(Equal(2))
		clean(t)
	})
})
