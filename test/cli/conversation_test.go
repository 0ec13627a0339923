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
		ann := user{kubeconfig, namespace}
		r := ann.run(ctx, "ask", "demo", "How", "many?")
		Expect(r).To(Equal(result{out: "You said: How many?\n"}))
		Expect(onlyTurn(ctx, namespace).Spec.SubmittedBy).To(Equal(name))

		r = ann.pipe(ctx, "From a pipe.\nTwo lines.\n", "ask", "demo", "-o", "json")
		Expect(r.code).To(Equal(0))
		var response map[string]any
		Expect(json.Unmarshal([]byte(r.out), &response)).To(Succeed())
		Expect(response).To(And(HaveKeyWithValue("response", "You said: From a pipe.\nTwo lines.\n"),
			HaveKeyWithValue("phase", "Succeeded"), HaveKeyWithValue("reason", "EndTurn")))
	})

	It("creates a Session", func(ctx context.Context) {
		namespace := stage(ctx, echo())
		_, kubeconfig := tokenUser(ctx, namespace, "capstan-edit")
		r := user{kubeconfig, namespace}.run(ctx, "ask", "--harness", "base", "--session", "own", "Hi")
		Expect(r.out).To(Equal("You said: Hi\n"))
		Expect(r.err).To(ContainSubstring("Session own, Turn own-"))
		Expect(r.code).To(Equal(0))
	})

	DescribeTable("reports the outcome by its exit code",
		func(ctx context.Context, script v1alpha1.Simulation, code int, message string) {
			namespace := stage(ctx, script)
			_, kubeconfig := certificateUser(ctx, namespace, "capstan-edit")
			r := user{kubeconfig, namespace}.run(ctx, "ask", "demo", "Go", "--timeout", "3s")
			Expect(r.code).To(Equal(code))
			Expect(r.err).To(ContainSubstring(message))
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
		ann := user{kubeconfig, namespace}
		t := ann.open(ctx, "ask", "demo", "Pay")
		Eventually(t).Should(gbytes.Say("waits for approval"))
		Eventually(t).Should(gbytes.Say("euros"))
		Eventually(t).Should(gbytes.Say("approve demo-"))
		r := ann.run(ctx, "cancel", onlyTurn(ctx, namespace).Name)
		Expect(r.out).To(ContainSubstring("is being cancelled"))
		Expect(t.code()).To(Equal(3))
	})
})

var _ = Describe("log", func() {
	It("prints the conversation with calls, results, decisions and cost", func(ctx context.Context) {
		namespace := stage(ctx, work("It says {{tool:work}}.", `{"city":"Bern"}`), guarded(worker()))
		jobs.In(namespace, func(capstantest.Call) (string, string, int) { return "12 degrees\nand sun", "", 0 })
		name, kubeconfig := certificateUser(ctx, namespace, "capstan-edit", "capstan-approve")
		ann := user{kubeconfig, namespace}
		suite.Create(ctx, kit.Client, builder.Turn("demo-1").In(namespace).Input("What is the weather?").Obj())
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.WaitForApproval("work"))
		Expect(ann.run(ctx, "log", "demo").out).To(And(
			MatchRegexp(`(?s)── demo-1.*you        What is the weather\?.*call       1-0  work \{"city":"Bern"\}`),
			MatchRegexp(`waiting    1-0  work waits for approval`),
			ContainSubstring("kubectl capstan -n "+namespace+" approve demo-1 1-0"),
		))
		Expect(ann.run(ctx, "approve", "demo-1", "--yes").code).To(Equal(0))
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())

		r := ann.run(ctx, "log", "turn/demo-1")
		Expect(r.code).To(Equal(0))
		Expect(r.out).To(MatchRegexp(strings.Join([]string{
			`approved   1-0 by ` + name, `result     1-0  work  .*s`, `           12 degrees`, `           and sun`,
			`agent      It says 12 degrees`, `           and sun\.`, `── done  2 model calls · 1 tool call · \d+ tokens`,
		}, "\n")))
		Expect(r.out).NotTo(ContainSubstring("\x1b"), "there are colors on terminals only")

		r = ann.run(ctx, "log", "demo", "-o", "json")
		var types []string
		last := 0.0
		for line := range strings.Lines(r.out) {
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

		Expect(ann.run(ctx, "cost", "demo").out).To(MatchRegexp(`(?s)TURN.*demo-1 +1 +1 .*Session +1 +1 `))
		t := ann.open(ctx, "log", "demo")
		Expect(t.code()).To(Equal(0))
		Expect(string(t.shown.Contents())).To(ContainSubstring("\x1b[36myou"), "a terminal has colors")
	})
})

var _ = Describe("chat", func() {
	It("sends each line, shows calls, and ends with Ctrl-D", func(ctx context.Context) {
		namespace := stage(ctx, work("It says {{tool:work}} to {{input}}.", `{}`), worker())
		_, kubeconfig := tokenUser(ctx, namespace, "capstan-edit")
		t := user{kubeconfig, namespace}.open(ctx, "chat", "demo")
		Eventually(t).Should(gbytes.Say("Session demo"))
		t.write("First\n")
		Eventually(t).Should(gbytes.Say("call.*1-0  work"))
		Eventually(t).Should(gbytes.Say("result of 1-0 to First"))
		Eventually(t).Should(gbytes.Say("done"))
		t.write("Second\n")
		Eventually(t).Should(gbytes.Say("result of 1-0 to Second"))
		Eventually(t).Should(gbytes.Say("done"))
		Eventually(t).Should(gbytes.Say("you"))
		t.write("\x04")
		Expect(t.code()).To(Equal(0))
		Expect(strings.Count(t.text(), "First")).To(Equal(2), "the typed line, and the response")
	})

	It("leaves with Ctrl-C while the Turn goes on, and rejoins it", func(ctx context.Context) {
		namespace := stage(ctx, work("Paid.", `{"euros":40}`), guarded(worker()))
		_, kubeconfig := certificateUser(ctx, namespace, "capstan-edit", "capstan-approve")
		ann := user{kubeconfig, namespace}
		t := ann.open(ctx, "chat", "demo")
		Eventually(t).Should(gbytes.Say("Session demo"))
		t.write("Pay\n")
		Eventually(t).Should(gbytes.Say("waits for approval"))
		t.interrupt()
		Expect(t.code()).To(Equal(130))
		Expect(t.text()).To(ContainSubstring("goes on. Rejoin it: kubectl capstan -n " + namespace + " chat demo --follow"))

		again := ann.open(ctx, "chat", "demo", "--follow")
		Eventually(again).Should(gbytes.Say("you.*Pay"))
		Eventually(again).Should(gbytes.Say("waits for approval"))
		decide := ann.open(ctx, "approve", "session/demo")
		Eventually(decide).Should(gbytes.Say(`euros`))
		Eventually(decide).Should(gbytes.Say(`Approve 1 call\? \[y/N\]`))
		decide.write("y\n")
		Expect(decide.code()).To(Equal(0))
		Eventually(again).Should(gbytes.Say("Paid."))
		Eventually(again).Should(gbytes.Say("done"))
		Eventually(again).Should(gbytes.Say("you"))
		again.interrupt()
		Expect(again.code()).To(Equal(0))
	})
})

var _ = Describe("watch", func() {
	It("prints what happens in a Session", func(ctx context.Context) {
		namespace := stage(ctx, work("Worked.", `{}`), worker())
		_, kubeconfig := tokenUser(ctx, namespace, "capstan-view")
		t := user{kubeconfig, namespace}.open(ctx, "watch", "demo")
		Eventually(t).Should(gbytes.Say("Watching"))
		suite.Create(ctx, kit.Client, builder.Turn("demo-1").In(namespace).Input("Go").Obj())
		Eventually(t).Should(gbytes.Say("demo-1"))
		Eventually(t).Should(gbytes.Say("Go"))
		Eventually(t).Should(gbytes.Say("Worked."))
		Eventually(t).Should(gbytes.Say("done"))
		t.interrupt()
		Expect(t.code()).To(Equal(0))

		r := user{kubeconfig, namespace}.run(ctx, "watch", "turn/demo-1")
		Expect(r.code).To(Equal(0))
		Expect(r.out).To(ContainSubstring("Worked."))
	})
})
