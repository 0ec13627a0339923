package cli_test

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/gbytes"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
	"github.com/capstan-dev/capstan/internal/testing/builder"
	"github.com/capstan-dev/capstan/test/internal/suite"
	"github.com/capstan-dev/capstan/test/internal/terminal"
)

// echo responds with the message.
func echo() v1alpha1.Simulation {
	return v1alpha1.Simulation{Response: &v1alpha1.SimulatedResponse{
		Type: v1alpha1.SimulatedResponseTypeEcho, Prefix: "You said: ",
	}}
}

// work calls the tool work with arguments, and responds with its result.
func work(text, arguments string) v1alpha1.Simulation {
	call := builder.Call("work")
	call.Arguments = &v1alpha1.JSON{Raw: []byte(arguments)}
	return builder.Script(text, []v1alpha1.SimulatedToolCall{call})
}

func worker() *v1alpha1.Tool {
	return builder.JobTool("work", v1alpha1.SideEffectAtMostOnce).Obj()
}

// guarded makes the calls of a Tool need approval.
func guarded(tool *v1alpha1.Tool) *v1alpha1.Tool {
	tool.Spec.Policy = v1alpha1.ToolPolicyRequiresApproval
	return tool
}

// onlyTurn is the only Turn of a namespace.
func onlyTurn(ctx context.Context, namespace string) *v1alpha1.Turn {
	GinkgoHelper()
	var list v1alpha1.TurnList
	Expect(kit.Client.List(ctx, &list, inNamespace(namespace))).To(Succeed())
	Expect(list.Items).To(HaveLen(1))
	return &list.Items[0]
}

var _ = Describe("ask", func() {
	It("prints the response, and its exit code is 0", func(ctx context.Context) {
		namespace := stage(ctx, echo())
		name, kubeconfig := certificateUser(ctx, namespace, "capstan-edit")
		ann := as(kubeconfig, namespace)
		r := ann.Run(ctx, "ask", "demo", "How", "many?")
		Expect(r).To(Equal(terminal.Result{Out: "You said: How many?\n"}))
		Expect(onlyTurn(ctx, namespace).Spec.SubmittedBy).To(Equal(name))

		r = ann.Pipe(ctx, "From a pipe.\nTwo lines.\n", "ask", "demo", "-o", "json")
		Expect(r.Code).To(Equal(0))
		var response map[string]any
		Expect(json.Unmarshal([]byte(r.Out), &response)).To(Succeed())
		Expect(response).To(And(HaveKeyWithValue("response", "You said: From a pipe.\nTwo lines.\n"),
			HaveKeyWithValue("phase", "Succeeded"), HaveKeyWithValue("reason", "EndTurn")))
	})

	It("creates a Session", func(ctx context.Context) {
		namespace := stage(ctx, echo())
		_, kubeconfig := tokenUser(ctx, namespace, "capstan-edit")
		r := as(kubeconfig, namespace).Run(ctx, "ask", "--harness", "base", "--session", "own", "Hi")
		Expect(r.Out).To(Equal("You said: Hi\n"))
		Expect(r.Err).To(ContainSubstring("Session own, Turn own-"))
		Expect(r.Code).To(Equal(0))
	})

	DescribeTable("reports the outcome by its exit code",
		func(ctx context.Context, script v1alpha1.Simulation, code int, message string) {
			namespace := stage(ctx, script)
			_, kubeconfig := certificateUser(ctx, namespace, "capstan-edit")
			r := as(kubeconfig, namespace).Run(ctx, "ask", "demo", "Go", "--timeout", "3s")
			Expect(r.Code).To(Equal(code))
			Expect(r.Err).To(ContainSubstring(message))
		},
		Entry("failed", v1alpha1.Simulation{Response: &v1alpha1.SimulatedResponse{
			Type: v1alpha1.SimulatedResponseTypeError, Text: "out of order", Code: v1alpha1.ErrorCodeModelUnavailable,
		}}, 2, "failed: ModelUnavailable: "),
		Entry("timed out", v1alpha1.Simulation{Latency: &metav1.Duration{Duration: time.Hour}}, 4,
			"has not ended within 3s, and goes on. Rejoin it: kubectl capstan -n"),
	)

	It("tells what a Turn waits for, and when it was cancelled", func(ctx context.Context) {
		namespace := stage(ctx, work("Done.", `{"euros":40}`), guarded(worker()))
		_, kubeconfig := certificateUser(ctx, namespace, "capstan-edit")
		ann := as(kubeconfig, namespace)
		t := ann.Open(ctx, "ask", "demo", "Pay")
		Eventually(t).Should(gbytes.Say("waits for approval"))
		Eventually(t).Should(gbytes.Say("euros"))
		Eventually(t).Should(gbytes.Say("approve demo-"))
		r := ann.Run(ctx, "cancel", onlyTurn(ctx, namespace).Name)
		Expect(r.Out).To(ContainSubstring("is being cancelled"))
		Expect(t.Code()).To(Equal(3))
	})
})

var _ = Describe("log", func() {
	It("prints the conversation with calls, results, decisions and cost", func(ctx context.Context) {
		namespace := stage(ctx, work("It says {{tool:work}}.", `{"city":"Bern"}`), guarded(worker()))
		jobs.In(namespace, func(capstantest.Call) (string, string, int) { return "12 degrees\nand sun", "", 0 })
		name, kubeconfig := certificateUser(ctx, namespace, "capstan-edit", "capstan-approve")
		ann := as(kubeconfig, namespace)
		suite.Create(ctx, kit.Client, builder.Turn("demo-1").In(namespace).Input("What is the weather?").Obj())
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.WaitForApproval("work"))
		Expect(ann.Run(ctx, "log", "demo").Out).To(And(
			MatchRegexp(`(?s)── demo-1.*you        What is the weather\?.*call       1-0  work \{"city":"Bern"\}`),
			MatchRegexp(`waiting    1-0  work waits for approval`),
			ContainSubstring("kubectl capstan -n "+namespace+" approve demo-1 1-0"),
		))
		Expect(ann.Run(ctx, "approve", "demo-1", "--yes").Code).To(Equal(0))
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())

		r := ann.Run(ctx, "log", "turn/demo-1")
		Expect(r.Code).To(Equal(0))
		Expect(r.Out).To(MatchRegexp(strings.Join([]string{
			`approved   1-0 by ` + name, `result     1-0  work  .*s`, `           12 degrees`, `           and sun`,
			`agent      It says 12 degrees`, `           and sun\.`, `── done  2 model calls · 1 tool call · \d+ tokens`,
		}, "\n")))
		Expect(r.Out).NotTo(ContainSubstring("\x1b"), "there are colors on terminals only")

		r = ann.Run(ctx, "log", "demo", "-o", "json")
		var types []string
		last := 0.0
		for line := range strings.Lines(r.Out) {
			var e struct {
				Type     string
				Sequence float64
			}
			Expect(json.Unmarshal([]byte(line), &e)).To(Succeed())
			types = append(types, e.Type)
			if e.Type != "call.decided" {
				Expect(e.Sequence).To(Equal(last + 1))
				last = e.Sequence
			}
		}
		Expect(types).To(ContainElements("input.message", "tool.completed", "call.decided", "turn.completed"))

		Expect(ann.Run(ctx, "cost", "demo").Out).To(MatchRegexp(`(?s)TURN.*demo-1 +1 +1 .*Session +1 +1 `))
		t := ann.Open(ctx, "log", "demo")
		Expect(t.Code()).To(Equal(0))
		Expect(string(t.Buffer().Contents())).To(ContainSubstring("\x1b[36myou"), "a terminal has colors")
	})
})

var _ = Describe("chat", func() {
	It("sends each line, shows calls, and ends with Ctrl-D", func(ctx context.Context) {
		namespace := stage(ctx, work("It says {{tool:work}} to {{input}}.", `{}`), worker())
		_, kubeconfig := tokenUser(ctx, namespace, "capstan-edit")
		t := as(kubeconfig, namespace).Open(ctx, "chat", "demo")
		Eventually(t).Should(gbytes.Say("Session demo"))
		t.Type("First\n")
		Eventually(t).Should(gbytes.Say("call.*1-0  work"))
		Eventually(t).Should(gbytes.Say("result of 1-0 to First"))
		Eventually(t).Should(gbytes.Say("done"))
		t.Type("Second\n")
		Eventually(t).Should(gbytes.Say("result of 1-0 to Second"))
		Eventually(t).Should(gbytes.Say("done"))
		Eventually(t).Should(gbytes.Say("you"))
		t.Type("\x04")
		Expect(t.Code()).To(Equal(0))
		Expect(strings.Count(t.Text(), "First")).To(Equal(2), "the typed line, and the response")
	})

	It("has the outcome of its last Turn as its exit code", func(ctx context.Context) {
		namespace := stage(ctx, v1alpha1.Simulation{Response: &v1alpha1.SimulatedResponse{
			Type: v1alpha1.SimulatedResponseTypeError, Text: "out of order", Code: v1alpha1.ErrorCodeModelUnavailable,
		}})
		_, kubeconfig := tokenUser(ctx, namespace, "capstan-edit")
		t := as(kubeconfig, namespace).Open(ctx, "chat", "demo")
		Eventually(t).Should(gbytes.Say("Session demo"))
		t.Type("Go\n")
		Eventually(t).Should(gbytes.Say("failed"))
		Eventually(t).Should(gbytes.Say("you"))
		t.Type("\x04")
		Expect(t.Code()).To(Equal(2))
		r := as(kubeconfig, namespace).Pipe(ctx, "Go\n", "chat", "demo")
		Expect(r.Code).To(Equal(2))
		Expect(strings.Count(r.Out+r.Err, "out of order")).To(Equal(1))
	})

	It("leaves with Ctrl-C while the Turn goes on, and rejoins it", func(ctx context.Context) {
		namespace := stage(ctx, work("Paid.", `{"euros":40}`), guarded(worker()))
		_, kubeconfig := certificateUser(ctx, namespace, "capstan-edit", "capstan-approve")
		ann := as(kubeconfig, namespace)
		t := ann.Open(ctx, "chat", "demo")
		Eventually(t).Should(gbytes.Say("Session demo"))
		t.Type("Pay\n")
		Eventually(t).Should(gbytes.Say("waits for approval"))
		t.Interrupt()
		Expect(t.Code()).To(Equal(130))
		Expect(t.Text()).To(ContainSubstring("goes on. Rejoin it: kubectl capstan -n " + namespace + " chat demo --follow"))

		again := ann.Open(ctx, "chat", "demo", "--follow")
		Eventually(again).Should(gbytes.Say("you.*Pay"))
		Eventually(again).Should(gbytes.Say("waits for approval"))
		decide := ann.Open(ctx, "approve", "session/demo")
		Eventually(decide).Should(gbytes.Say(`euros`))
		Eventually(decide).Should(gbytes.Say(`Approve 1 call\? \[y/N\]`))
		decide.Type("y\n")
		Expect(decide.Code()).To(Equal(0))
		Eventually(again).Should(gbytes.Say("Paid."))
		Eventually(again).Should(gbytes.Say("done"))
		Eventually(again).Should(gbytes.Say("you"))
		again.Interrupt()
		Expect(again.Code()).To(Equal(0))
	})
})

var _ = Describe("watch", func() {
	It("prints what happens in a Session", func(ctx context.Context) {
		namespace := stage(ctx, work("Worked.", `{}`), worker())
		_, kubeconfig := tokenUser(ctx, namespace, "capstan-view")
		t := as(kubeconfig, namespace).Open(ctx, "watch", "demo")
		Eventually(t).Should(gbytes.Say("Watching"))
		suite.Create(ctx, kit.Client, builder.Turn("demo-1").In(namespace).Input("Go").Obj())
		Eventually(t).Should(gbytes.Say("demo-1"))
		Eventually(t).Should(gbytes.Say("Go"))
		Eventually(t).Should(gbytes.Say("Worked."))
		Eventually(t).Should(gbytes.Say("done"))
		t.Interrupt()
		Expect(t.Code()).To(Equal(0))

		r := as(kubeconfig, namespace).Run(ctx, "watch", "turn/demo-1")
		Expect(r.Code).To(Equal(0))
		Expect(r.Out).To(ContainSubstring("Worked."))
	})
})
