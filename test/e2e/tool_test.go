//go:build e2e

package e2e_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
	"time"
	"unicode/utf8"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

var _ = Describe("A tool", func() {
	It(
		"that exits with 3 shows the model its stderr, and not its stdout",
		SpecTimeout(specLimit),
		func(ctx SpecContext) {
			namespace := newStage(
				ctx,
				builder.Script(
					"The tool said: {{tool:fail}}",
					calls{call("fail", arguments{"code": 3, "stdout": "half a result", "stderr": "no such city\n"})},
				),
				toolbox("fail", "fail", v1alpha1.SideEffectPure),
			)
			answer := answered(ctx, namespace, "demo-1")
			Expect(answer.Status.Output).To(And(ContainSubstring("no such city"), Not(ContainSubstring("half a result"))))
			made := callOf(answer, "fail")
			Expect(made.State).To(Equal(v1alpha1.ToolCallStateFailed))
			Expect(made.Reason).To(Equal(v1alpha1.ToolCallReasonExitCode))
			Expect(made.Attempt).To(BeEquivalentTo(1), "an exit code is no reason to try again")
			logged := outcomes(ctx, answer)["fail"]
			Expect(logged.Success).To(BeFalse())
			Expect(logged.Status).To(Equal(event.StatusError))
			Expect(logged.Result).To(BeEmpty())
			Expect(
				logged.Error,
			).To(And(ContainSubstring("no such city"), ContainSubstring("3"), Not(ContainSubstring("half a result"))))
		},
	)

	It("that exceeds its timeout is stopped, and the model reads so", SpecTimeout(specLimit), func(ctx SpecContext) {
		namespace := newStage(ctx,
			builder.Script("{{tool:nap}}", calls{call("nap", arguments{"seconds": 300})}),
			within(time.Second, toolbox("nap", "sleep", v1alpha1.SideEffectAtMostOnce)))
		began := time.Now()
		answer := answered(ctx, namespace, "demo-1")
		show("answered after", time.Since(began).Round(time.Millisecond).String())
		made := callOf(answer, "nap")
		Expect(made.State).To(Equal(v1alpha1.ToolCallStateFailed))
		Expect(made.Reason).To(Equal(v1alpha1.ToolCallReasonTimeout))
		Expect(answer.Status.Output).To(ContainSubstring("1s"))
		Expect(outcomes(ctx, answer)["nap"].Status).To(Equal(event.StatusTimeout))
		for _, pod := range podsOf(ctx, answer) {
			status := toolStatus(&pod)
			Expect(status).NotTo(BeNil())
			Expect(status.State.Terminated).NotTo(BeNil(), "the container still runs")
			Expect(
				status.State.Terminated.FinishedAt.Sub(status.State.Terminated.StartedAt.Time),
			).To(BeNumerically("<=", 4*time.Second))
		}
	})

	It("reads 60 KiB of arguments with special characters byte for byte", SpecTimeout(specLimit), func(ctx SpecContext) {
		text := awkwardArguments(60 << 10)
		Expect(json.Valid([]byte(text))).To(BeTrue())
		namespace := newStage(ctx,
			builder.Script("{{tool:sha256}}", calls{rawCall("sha256", text)}),
			toolbox("sha256", "sha256", v1alpha1.SideEffectPure))
		answer := answered(ctx, namespace, "demo-1")
		sum := sha256.Sum256([]byte(text))
		Expect(answer.Status.Output).To(Equal(hex.EncodeToString(sum[:])))
	})

	It("with larger arguments than the limit is never started", SpecTimeout(specLimit), func(ctx SpecContext) {
		text := `{"text":"` + strings.Repeat("x", 100<<10) + `"}`
		namespace := newStage(ctx,
			builder.Script("{{tool:sha256}}", calls{rawCall("sha256", text)}),
			toolbox("sha256", "sha256", v1alpha1.SideEffectAtMostOnce))
		answer := answered(ctx, namespace, "demo-1")
		made := callOf(answer, "sha256")
		Expect(made.State).To(Equal(v1alpha1.ToolCallStateNotExecuted))
		Expect(made.Reason).To(Equal("ArgumentsTooLarge"))
		Expect(answer.Status.Output).To(And(ContainSubstring("not executed"), ContainSubstring("98304")))
		Expect(jobsIn(ctx, namespace)).To(BeEmpty())
	})

	It(
		"may return nothing, more than a termination message holds, or more than the model reads",
		SpecTimeout(specLimit),
		func(ctx SpecContext) {
			emit := func(name string, bytes int) v1alpha1.SimulatedToolCall { return call(name, arguments{"bytes": bytes}) }
			namespace := newStage(
				ctx,
				builder.Script(
					"<{{tool:nothing}}>{{tool:some}}",
					calls{emit("nothing", 0), emit("some", 5<<10), emit("much", 1<<20)},
				),
				toolbox(
					"nothing",
					"emit",
					v1alpha1.SideEffectPure,
				),
				toolbox("some", "emit", v1alpha1.SideEffectPure),
				toolbox("much", "emit", v1alpha1.SideEffectPure),
			)
			answer := answered(ctx, namespace, "demo-1")
			Expect(answer.Status.Output).To(Equal("<>" + emitted(5<<10)))
			logged := outcomes(ctx, answer)
			Expect(resultText(logged["nothing"])).To(BeEmpty())
			Expect(resultText(logged["some"])).To(Equal(emitted(5 << 10)))
			much := resultText(logged["much"])
			Expect(len(much)).To(And(BeNumerically("<=", tool.MaxResultBytes), BeNumerically(">", tool.MaxResultBytes-1024)))
			shown, note, found := strings.Cut(much, "\n\n[")
			Expect(found).To(BeTrue(), "there is no note at the end: %q", much[len(much)-200:])
			Expect(note).To(ContainSubstring("1048576"))
			Expect(strings.HasPrefix(emitted(1<<20), shown)).To(BeTrue(), "the shown text is not the start of the output")
			for _, pod := range podsOf(ctx, answer) {
				if pod.Labels[v1alpha1.LabelCall] == callOf(answer, "some").ID {
					message := toolStatus(&pod).State.Terminated.Message
					Expect(
						message,
					).NotTo(
						ContainSubstring(emitted(64)), "the result came with the pod's status: the spec proves nothing about the log",
					)
				}
			}
			for name := range logged {
				Expect(callOf(answer, name).State).To(Equal(v1alpha1.ToolCallStateSucceeded), name)
			}
		},
	)
})

// awkwardArguments are JSON of about that many bytes with everything that a shell, a template, an environment or a
// normalising parser would change.
func awkwardArguments(size int) string {
	pieces := []string{
		`\"`,
		`'`,
		"`",
		`\\`,
		`\n`,
		`\r\n`,
		`\t`,
		`$(PATH)`,
		`$(CAPSTAN_TURN)`,
		`$$`,
		`$$(PATH)`,
		`${HOME}`,
		`$HOME`,
		`{{input}}`,
		`{{ .Values }}`,
		`%s`,
		`%00`,
		`; rm -rf /`,
		`&& exit 3`,
		`| cat`,
		`> /dev/null`,
		`* ? [a-z]`,
		`\u0000`,
		`\u001b[31m`,
		`\ud83d\ude00`,
		`\/`,
		`<b>&amp;</b>`,
		"ß",
		"漢字",
		"😀",
		"e\u0301",
		"\u202e",
		"\u2028",
		"\u00a0",
		"\ufeff",
		"\ufffd",
		"\u007f",
	}
	var b strings.Builder
	b.WriteString("\n{ \"z\" :\t1.50,\r\n \"text\":   \"")
	for i := 0; b.Len() < size-64; i++ {
		b.WriteString(pieces[i%len(pieces)])
		b.WriteByte(' ')
	}
	b.WriteString("\"  ,\"a\": [ 1e2 , 10000000000000000000000 ] }\n\n")
	return b.String()
}

// emitted returns the output of the tool emit.
func emitted(size int) string {
	var b strings.Builder
	for b.Len() < size {
		for _, r := range "aß漢😀 " {
			if size-b.Len() < utf8.RuneLen(r) {
				r = 'x'
			}
			if b.Len() == size {
				break
			}
			b.WriteRune(r)
		}
	}
	return b.String()
}
