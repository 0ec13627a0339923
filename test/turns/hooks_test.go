package turns_test

import (
	"context"
	"encoding/json"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
	"github.com/capstan-dev/capstan/internal/runtime/hook"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

var _ = Describe("A hook", func() {
	hooked := func(namespace string, hooks ...v1alpha1.Hook) *v1alpha1.Session {
		session := builder.Session("demo").In(namespace).Obj()
		session.Spec.Hooks = hooks
		return session
	}
	expression := func(event v1alpha1.HookEvent, text string) v1alpha1.Hook {
		return v1alpha1.Hook{Name: "guard", Event: event, CEL: &v1alpha1.CELHook{Expression: text}}
	}

	It("rewrites the arguments that an approver sees", func(ctx context.Context) {
		tool := guarded(builder.JobTool("pay", v1alpha1.SideEffectAtMostOnce).Obj())
		namespace := newNamespace(ctx, builder.Script("Done.", []v1alpha1.SimulatedToolCall{
			withArguments("pay", `{"euros": 40}`),
		}), tool)
		create(ctx, hooked(namespace, expression(v1alpha1.HookEventPreToolUse,
			`{"decision": "mutate", "patch": {"arguments": {"euros": 4}}}`)))
		create(ctx, builder.Turn("demo-1").In(namespace).Obj())
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.WaitForApproval("pay"))
		turn, err := kit.Turn(ctx, namespace, "demo-1")()
		Expect(err).NotTo(HaveOccurred())
		Expect(turn.Status.ToolCalls[0].Arguments).To(Equal(`{"euros":4}`))
	})

	It("blocks a call, and the model continues", func(ctx context.Context) {
		namespace := newNamespace(ctx, builder.Script("It says {{tool:pay}}.", []v1alpha1.SimulatedToolCall{
			withArguments("pay", `{"euros": 40}`),
		}), builder.JobTool("pay", v1alpha1.SideEffectAtMostOnce).Obj())
		guard := expression(v1alpha1.HookEventPreToolUse, `"too much"`)
		guard.CEL = nil
		guard.Bash = &v1alpha1.BashHook{Command: `echo too much >&2; exit 1`}
		create(ctx, hooked(namespace, guard))
		create(ctx, builder.Turn("demo-1").In(namespace).Obj())
		Eventually(func(g Gomega) {
			turn, err := kit.Turn(ctx, namespace, "demo-1")()
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(turn.Status.Phase).To(Equal(v1alpha1.TurnPhaseSucceeded))
			g.Expect(turn.Status.ToolCalls[0].Reason).To(Equal(v1alpha1.ToolCallReasonBlockedByHook))
			g.Expect(turn.Status.Output).To(ContainSubstring("too much"))
		}).Should(Succeed())
	})

	// Rules: HOOK-21.
	It("rewrites the result of a call before the model reads it", func(ctx context.Context) {
		namespace := newNamespace(ctx, builder.Script("It returned {{tool:pay}}.", builder.Calls("pay")),
			builder.JobTool("pay", v1alpha1.SideEffectAtMostOnce).Obj())
		jobs.In(namespace, func(capstantest.Call) (string, string, int) { return "key 12345", "", 0 })
		create(ctx, hooked(namespace, expression(v1alpha1.HookEventPostToolUse,
			`{"decision": "mutate", "patch": {"result": "redacted"}}`)))
		Eventually(phaseOf(ctx, namespace, "demo")).Should(Equal(v1alpha1.SessionPhaseStarted))
		before := len(requests.in(namespace))
		create(ctx, builder.Turn("demo-1").In(namespace).Obj())
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
		turn, err := kit.Turn(ctx, namespace, "demo-1")()
		Expect(err).NotTo(HaveOccurred())
		Expect(turn.Status.Output).To(Equal("It returned redacted."))
		Expect(turn.Status.ToolCalls[0].Preview).To(Equal("redacted"))
		expectCost(ctx, namespace, before, slices.Concat(
			beginning, actingFirst(1, v1alpha1.SideEffectAtMostOnce), ending))
	})

	// Rules: HOOK-18, VEC-13.
	It("blocks a message, and the Turn reports it", func(ctx context.Context) {
		namespace := newNamespace(ctx, builder.Script("Done."))
		create(ctx, hooked(namespace, expression(v1alpha1.HookEventUserPromptSubmit,
			`{"decision": "block", "user_message": "Not here."}`)))
		create(ctx, builder.Turn("demo-1").In(namespace).Obj())
		Eventually(func(g Gomega) {
			turn, err := kit.Turn(ctx, namespace, "demo-1")()
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(turn.Status.Phase).To(Equal(v1alpha1.TurnPhaseFailed))
			g.Expect(turn.Status.Error.Code).To(Equal(v1alpha1.ErrorCodeBlockedByUserPromptHook))
			g.Expect(turn.Status.Error.Message).To(Equal("Not here."))
		}).Should(Succeed())
	})

	// Rules: TURN-16, HOOK-16.
	It("at the end of a Turn runs before the next Turn begins, whatever the Turn has come to", func(ctx context.Context) {
		s := newSite(responds(`{"decision": "block", "reason": "too late"}`))
		payloads := func() []string {
			var all []string
			for _, r := range s.requests() {
				var payload hook.Payload
				Expect(json.Unmarshal([]byte(r.body), &payload)).To(Succeed())
				all = append(all, string(payload.Event)+" "+*payload.TurnID+" "+string(payload.Data))
			}
			return all
		}
		namespace := newNamespace(ctx, builder.Script("done", builder.Calls("hang")),
			builder.JobTool("hang", v1alpha1.SideEffectPure).Obj())
		running := make(chan string, 8)
		jobs.In(namespace, func(c capstantest.Call) (string, string, int) {
			running <- c.ID
			<-c.Context.Done()
			return "", "", 137
		})
		create(ctx, hooked(namespace, v1alpha1.Hook{
			Name: "report", Event: v1alpha1.HookEventTurnEnd,
			Webhook: &v1alpha1.WebhookHook{URL: s.URL + "/"},
		}))
		var want []string
		for name, end := range map[string]func(){
			"demo-1": func() { cancelTurn(ctx, namespace, "demo-1") },
			"demo-2": func() {
				Expect(kit.Client.Delete(ctx, builder.Turn("demo-2").In(namespace).Obj())).To(Succeed())
			},
		} {
			create(ctx, builder.Turn(name).In(namespace).Obj())
			Eventually(running).Should(Receive())
			turn, err := kit.Turn(ctx, namespace, name)()
			Expect(err).NotTo(HaveOccurred())
			want = append(want, "turn_end "+string(turn.UID)+` {"success":false}`)
			end()
			expectReleased(ctx, namespace, "demo")
			Expect(payloads()).To(Equal(want))
		}
		Expect(kit.Turn(ctx, namespace, "demo-1")()).To(capstantest.HaveFailed("Cancelled"))
	})

	It("that is invalid keeps the Session from being ready, and the Turn waits", func(ctx context.Context) {
		namespace := newNamespace(ctx, builder.Script("Done."))
		create(ctx, hooked(namespace, expression(v1alpha1.HookEventPreToolUse, `data.`)))
		create(ctx, builder.Turn("demo-1").In(namespace).Obj())
		Eventually(func(g Gomega) {
			turn, err := kit.Turn(ctx, namespace, "demo-1")()
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(turn.Status.Phase).To(Equal(v1alpha1.TurnPhaseQueued))
			g.Expect(turn.Status.Conditions).To(ContainElement(HaveField("Message", ContainSubstring(
				`Hook "session:guard" is invalid`))))
		}).Should(Succeed())
	})
})
