package turns_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

// guarded makes calls of a Tool need approval.
func guarded(tool *v1alpha1.Tool) *v1alpha1.Tool {
	tool.Spec.Policy = v1alpha1.ToolPolicyRequiresApproval
	return tool
}

// decision is ann's decision about a call as its Turn shows it now.
func decision(
	ctx context.Context,
	namespace, name, turn, callID string,
	decision v1alpha1.Decision,
) *v1alpha1.ToolResult {
	GinkgoHelper()
	shown, err := kit.Turn(ctx, namespace, turn)()
	Expect(err).NotTo(HaveOccurred())
	result := capstantest.Decision(shown, callID, decision, "ann")
	result.Name = name
	return result
}

var _ = Describe("A call that needs approval", func() {
	const answer = "It says {{tool:pay}}."

	// asking starts a Turn that calls the tools, all at once, and then responds.
	asking := func(
		ctx context.Context, text string, tools []*v1alpha1.Tool, change ...func(*v1alpha1.Session, *v1alpha1.Turn),
	) string {
		GinkgoHelper()
		var step []v1alpha1.SimulatedToolCall
		for _, tool := range tools {
			step = append(step, withArguments(tool.Name, `{"euros": 40}`))
		}
		namespace := newNamespace(ctx, builder.Script(text, step), tools...)
		session, turn := builder.Session("demo").In(namespace).Obj(), builder.Turn("demo-1").In(namespace).Obj()
		for _, apply := range change {
			apply(session, turn)
		}
		create(ctx, session)
		create(ctx, turn)
		return namespace
	}
	pay := func() []*v1alpha1.Tool {
		return []*v1alpha1.Tool{guarded(builder.JobTool("pay", v1alpha1.SideEffectAtMostOnce).Obj())}
	}

	// Rules: TOOL-07.
	It("starts once it is approved, and not before", func(ctx context.Context) {
		namespace := asking(ctx, answer, pay())
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.WaitForApproval("pay"))
		turn, err := kit.Turn(ctx, namespace, "demo-1")()
		Expect(err).NotTo(HaveOccurred())
		Expect(turn.Status.Phase).To(Equal(v1alpha1.TurnPhaseWaitingForToolResults))
		waits := conditionOf(turn, v1alpha1.ConditionWaitingForToolResults)
		Expect(waits.Status).To(Equal(metav1.ConditionTrue))
		Expect(waits.Reason).To(Equal(v1alpha1.ReasonApproval))
		Expect(waits.Message).To(Equal("Approve or reject with a ToolResult: 1-0 (pay)."))
		call := turn.Status.ToolCalls[0]
		Expect(call.Executor).To(Equal(v1alpha1.ToolExecutorJob))
		Expect(call.Reason).To(Equal(v1alpha1.ReasonApproval))
		Expect(call.Arguments).To(Equal(`{"euros": 40}`), "the approver sees the arguments")
		Expect(call.ApproveBy.Time).To(BeTemporally("~", time.Now().Add(24*time.Hour), time.Minute))
		Eventually(phaseOf(ctx, namespace, "demo")).Should(Equal(v1alpha1.SessionPhaseWaitingForToolResults))
		Consistently(
			func() ([]string, error) { return jobNames(ctx, namespace) },
		).WithTimeout(500 * time.Millisecond).
			Should(BeEmpty())

		Expect(kit.Approve(ctx, namespace, "demo-1", "pay")).To(Succeed())
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
		Expect(finalAnswer(ctx, namespace)).To(Equal("It says result of 1-0."))
		Expect(kit.Starts(namespace, "demo-1", "1-0")).To(Equal(1))
		Expect(accepted(ctx, namespace, "demo-1-1-0")()).To(Equal("True Accepted"))
		Expect(acceptedMessage(ctx, namespace, "demo-1-1-0")).To(Equal("The call was approved."))
		Expect(decisionsIn(ctx, namespace)).To(Equal([]string{"Approve by admin"}), "who approved is in the log")
	})

	It("is not executed after a rejection, and the model reads so", func(ctx context.Context) {
		namespace := asking(ctx, answer, pay())
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.WaitForApproval("pay"))
		Expect(kit.Reject(ctx, namespace, "demo-1", "pay")).To(Succeed())
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
		Expect(
			kit.Turn(ctx, namespace, "demo-1")(),
		).To(capstantest.HaveToolCall("pay", v1alpha1.ToolCallStateNotExecuted, v1alpha1.ToolCallReasonRejected))
		Expect(finalAnswer(ctx, namespace)).To(HavePrefix("It says The tool was not executed: its approval was rejected."))
		Expect(acceptedMessage(ctx, namespace, "demo-1-1-0")).To(Equal("The call was rejected and not executed."))
		Expect(jobNames(ctx, namespace)).To(BeEmpty())
	})

	It("refuses ToolResults without a decision, decisions about other calls, and second decisions", func(
		ctx context.Context,
	) {
		started, proceed := make(chan struct{}, 1), make(chan struct{})
		namespace := asking(ctx, answer, append(pay(), builder.ClientTool("ask").Obj()))
		jobs.In(
			namespace,
			func(capstantest.Call) (string, string, int) { started <- struct{}{}; <-proceed; return "paid", "", 0 },
		)
		Eventually(
			kit.Turn(ctx, namespace, "demo-1"),
		).Should(And(capstantest.WaitForApproval("pay"), capstantest.WaitForTools("ask")))
		turn, err := kit.Turn(ctx, namespace, "demo-1")()
		Expect(err).NotTo(HaveOccurred())
		waits := conditionOf(turn, v1alpha1.ConditionWaitingForToolResults)
		Expect(waits.Reason).To(Equal(v1alpha1.ReasonClientTools))
		Expect(
			waits.Message,
		).To(Equal("Approve or reject with a ToolResult: 1-0 (pay). Create a ToolResult for each of: 1-1 (ask)."))

		create(ctx, builder.ToolResult("result", "1-0").In(namespace).Result("paid").Obj())
		Eventually(accepted(ctx, namespace, "result")).Should(Equal("False DecisionExpected"))
		create(ctx, decision(ctx, namespace, "client", "demo-1", "1-1", v1alpha1.DecisionApprove))
		Eventually(accepted(ctx, namespace, "client")).Should(Equal("False NoApprovalNeeded"))
		Expect(
			kit.Turn(ctx, namespace, "demo-1")(),
		).To(And(capstantest.WaitForApproval("pay"), capstantest.WaitForTools("ask")), "nothing has changed")

		create(ctx, decision(ctx, namespace, "first", "demo-1", "1-0", v1alpha1.DecisionApprove))
		Eventually(accepted(ctx, namespace, "first")).Should(Equal("True Accepted"))
		create(ctx, decision(ctx, namespace, "second", "demo-1", "1-0", v1alpha1.DecisionReject))
		Eventually(accepted(ctx, namespace, "second")).Should(Equal("False AlreadyAnswered"))
		Eventually(started).Should(Receive())
		Expect(kit.Answer(ctx, namespace, "demo-1", "ask", "yes")).To(Succeed())
		close(proceed)
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
		Expect(finalAnswer(ctx, namespace)).To(Equal("It says paid."))
	})

	It("is approved while other calls run, and continues although the ToolResult is deleted", func(ctx context.Context) {
		var mu sync.Mutex
		running, proceed := map[string]bool{}, make(chan struct{})
		namespace := asking(
			ctx,
			"{{tool:work}} and {{tool:pay}}.",
			append(pay(), builder.JobTool("work", v1alpha1.SideEffectPure).Obj()),
		)
		jobs.In(namespace, func(c capstantest.Call) (string, string, int) {
			mu.Lock()
			running[c.Tool] = true
			mu.Unlock()
			<-proceed
			return c.Tool, "", 0
		})
		runs := func(tool string) func() bool {
			return func() bool {
				mu.Lock()
				defer mu.Unlock()
				return running[tool]
			}
		}
		Eventually(runs("work")).Should(BeTrue())
		turn, err := kit.Turn(ctx, namespace, "demo-1")()
		Expect(err).NotTo(HaveOccurred())
		Expect(turn).To(capstantest.WaitForApproval("pay"))
		Expect(turn.Status.Phase).To(Equal(v1alpha1.TurnPhaseAct))
		Expect(runs("pay")()).To(BeFalse())

		yes := decision(ctx, namespace, "yes", "demo-1", "1-0", v1alpha1.DecisionApprove)
		create(ctx, yes)
		Eventually(accepted(ctx, namespace, "yes")).Should(Equal("True Accepted"))
		Expect(kit.Client.Delete(ctx, yes)).To(Succeed())
		Eventually(runs("pay")).Should(BeTrue())
		close(proceed)
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
		Expect(finalAnswer(ctx, namespace)).To(Equal("work and pay."))
	})

	It(
		"is rejected while a client's answer is missing, and stays so although the ToolResult is deleted",
		func(ctx context.Context) {
			namespace := asking(ctx, "{{tool:ask}}: {{tool:pay}}", append(pay(), builder.ClientTool("ask").Obj()))
			Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.WaitForApproval("pay"))
			no := decision(ctx, namespace, "no", "demo-1", "1-0", v1alpha1.DecisionReject)
			create(ctx, no)
			Eventually(accepted(ctx, namespace, "no")).Should(Equal("True Accepted"))
			Expect(kit.Client.Delete(ctx, no)).To(Succeed())
			Eventually(
				kit.Turn(ctx, namespace, "demo-1"),
			).Should(And(capstantest.WaitForApproval(), capstantest.WaitForTools("ask")))
			Expect(kit.Answer(ctx, namespace, "demo-1", "ask", "yes")).To(Succeed())
			Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
			Expect(finalAnswer(ctx, namespace)).To(HavePrefix("yes: The tool was not executed: its approval was rejected."))
		},
	)

	It("is not overtaken where calls run one after another", func(ctx context.Context) {
		var mu sync.Mutex
		var order []string
		tools := []*v1alpha1.Tool{
			builder.JobTool("first", v1alpha1.SideEffectPure).Obj(),
			guarded(builder.JobTool("second", v1alpha1.SideEffectPure).Obj()),
			builder.JobTool("third", v1alpha1.SideEffectPure).Obj(),
		}
		namespace := asking(ctx, "done", tools, func(s *v1alpha1.Session, _ *v1alpha1.Turn) {
			s.Spec.ToolConcurrency = v1alpha1.ToolConcurrencySequential
		})
		jobs.In(namespace, func(c capstantest.Call) (string, string, int) {
			mu.Lock()
			defer mu.Unlock()
			order = append(order, c.Tool)
			return "", "", 0
		})
		Eventually(turnPhase(ctx, namespace, "demo-1")).Should(Equal(v1alpha1.TurnPhaseWaitingForToolResults))
		Expect(kit.Turn(ctx, namespace, "demo-1")()).To(And(
			capstantest.HaveToolCall(
				"first",
				v1alpha1.ToolCallStateSucceeded,
			),
			capstantest.HaveToolCall("third", v1alpha1.ToolCallStatePending),
			capstantest.WaitForApproval("second"),
		))
		Expect(kit.Starts(namespace, "demo-1", "1-2")).To(BeZero())
		Expect(kit.Approve(ctx, namespace, "demo-1", "second")).To(Succeed())
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
		mu.Lock()
		defer mu.Unlock()
		Expect(order).To(Equal([]string{"first", "second", "third"}))
	})

	It("lets the calls behind it start after a rejection", func(ctx context.Context) {
		tools := []*v1alpha1.Tool{
			guarded(builder.JobTool("pay", v1alpha1.SideEffectPure).Obj()),
			builder.JobTool("next", v1alpha1.SideEffectPure).Obj(),
			builder.JobTool("other", v1alpha1.SideEffectPure).Obj(),
		}
		tools[0].Spec.ConcurrencyClass, tools[1].Spec.ConcurrencyClass = "bank", "bank"
		namespace := asking(ctx, "done", tools)
		Eventually(turnPhase(ctx, namespace, "demo-1")).Should(Equal(v1alpha1.TurnPhaseWaitingForToolResults))
		Expect(kit.Turn(ctx, namespace, "demo-1")()).To(And(
			capstantest.HaveToolCall(
				"next",
				v1alpha1.ToolCallStatePending,
			),
			capstantest.HaveToolCall("other", v1alpha1.ToolCallStateSucceeded),
		))
		Expect(kit.Reject(ctx, namespace, "demo-1", "pay")).To(Succeed())
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
		Expect(kit.Turn(ctx, namespace, "demo-1")()).To(And(
			capstantest.HaveToolCall(
				"pay",
				v1alpha1.ToolCallStateNotExecuted,
				v1alpha1.ToolCallReasonRejected,
			),
			capstantest.HaveToolCall("next", v1alpha1.ToolCallStateSucceeded),
		))
	})

	It("waits although the hints state that no client responds", func(ctx context.Context) {
		namespace := asking(ctx, answer, append(pay(), builder.ClientTool("ask").Obj()),
			func(s *v1alpha1.Session, _ *v1alpha1.Turn) {
				s.Spec.ClientTools = v1alpha1.ClientToolsPolicyFollowHints
			})
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(And(
			capstantest.WaitForApproval("pay"), capstantest.HaveToolCall("ask", v1alpha1.ToolCallStateNotExecuted, "NoClient")))
		Expect(kit.Turn(ctx, namespace, "demo-1")()).To(WithTransform(func(t *v1alpha1.Turn) string {
			return conditionOf(t, v1alpha1.ConditionWaitingForToolResults).Reason
		}, Equal(v1alpha1.ReasonApproval)))
		Expect(kit.Approve(ctx, namespace, "demo-1", "pay")).To(Succeed())
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
	})

	It(
		"starts although the description and the text of the schema of its Tool were changed meanwhile",
		func(ctx context.Context) {
			tools := pay()
			namespace := asking(ctx, answer, tools)
			Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.WaitForApproval("pay"))
			change(ctx, tools[0], `{"spec":{"description":"Pays.","inputSchema":{"type":"object","title":"A payment."}}}`)
			Expect(kit.Approve(ctx, namespace, "demo-1", "pay")).To(Succeed())
			Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
			Expect(kit.Turn(ctx, namespace, "demo-1")()).To(capstantest.HaveToolCall("pay", v1alpha1.ToolCallStateSucceeded))
		},
	)

	It("does not start after the command of its Tool was changed", func(ctx context.Context) {
		tools := pay()
		namespace := asking(ctx, answer, tools)
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.WaitForApproval("pay"))
		change(ctx, tools[0], `{"spec":{"job":{"image":"evil.example/pay:1"}}}`)
		Expect(kit.Approve(ctx, namespace, "demo-1", "pay")).To(Succeed())
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
		Expect(
			kit.Turn(ctx, namespace, "demo-1")(),
		).To(capstantest.HaveToolCall("pay", v1alpha1.ToolCallStateNotExecuted, "ToolChanged"))
		Expect(jobNames(ctx, namespace)).To(BeEmpty())
	})

	It("does not start when its Tool was deleted and created again meanwhile", func(ctx context.Context) {
		tools := pay()
		namespace := asking(ctx, answer, tools)
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.WaitForApproval("pay"))
		again := guarded(builder.JobTool("pay", v1alpha1.SideEffectAtMostOnce).Obj())
		again.Namespace, again.Spec.Job.Image = namespace, "evil.example/pay:1"
		Expect(kit.Client.Delete(ctx, tools[0])).To(Succeed())
		create(ctx, again)
		Expect(again.Generation).To(BeEquivalentTo(1), "as that of the first")
		Expect(kit.Approve(ctx, namespace, "demo-1", "pay")).To(Succeed())
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
		Expect(
			kit.Turn(ctx, namespace, "demo-1")(),
		).To(capstantest.HaveToolCall("pay", v1alpha1.ToolCallStateNotExecuted, "ToolChanged"))
		Expect(jobNames(ctx, namespace)).To(BeEmpty())
	})

	It("accepts no decision that is older than the call", func(ctx context.Context) {
		namespace := newNamespace(ctx, builder.Script("done", builder.Calls("pay")), pay()...)
		yes := capstantest.Decision(
			&v1alpha1.Turn{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "demo-1", UID: "unknown"}},
			"1-0",
			v1alpha1.DecisionApprove,
			"ann",
		)
		create(ctx, yes)
		Eventually(accepted(ctx, namespace, yes.Name)).Should(Equal("False TurnNotFound"))
		turn := builder.Turn("demo-1").In(namespace).Obj()
		create(ctx, turn)
		queued := decision(ctx, namespace, "queued", "demo-1", "1-0", v1alpha1.DecisionApprove)
		create(ctx, queued)
		Eventually(accepted(ctx, namespace, "queued")).Should(Equal("False UnknownCall"))
		create(ctx, builder.Session("demo").In(namespace).Obj())
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.WaitForApproval("pay"))
		another := decision(ctx, namespace, "another", "demo-1", "1-0", v1alpha1.DecisionApprove)
		another.Spec.CallDigest = strings.Repeat("0", 64)
		create(ctx, another)
		Eventually(accepted(ctx, namespace, "another")).Should(Equal("False CallDigestMismatch"))
		Expect(kit.Turn(ctx, namespace, "demo-1")()).To(capstantest.WaitForApproval("pay"), "nothing has changed")
		Expect(jobNames(ctx, namespace)).To(BeEmpty())
	})

	It("is not executed when the Turn is cancelled first", func(ctx context.Context) {
		namespace := asking(ctx, answer, pay())
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.WaitForApproval("pay"))
		cancelTurn(ctx, namespace, "demo-1")
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveFailed(v1alpha1.ReasonCancelled))
		Expect(
			kit.Turn(ctx, namespace, "demo-1")(),
		).To(capstantest.HaveToolCall("pay", v1alpha1.ToolCallStateNotExecuted, "TurnEnded"))
		create(ctx, decision(ctx, namespace, "late", "demo-1", "1-0", v1alpha1.DecisionApprove))
		Eventually(accepted(ctx, namespace, "late")).Should(Equal("False CallClosed"))
		Expect(jobNames(ctx, namespace)).To(BeEmpty())
	})

	It("ends the Turn when it is waited for longer than the Turn may wait", func(ctx context.Context) {
		namespace := asking(
			ctx,
			answer,
			pay(),
			func(_ *v1alpha1.Session, t *v1alpha1.Turn) {
				t.Spec.WaitTimeout = &metav1.Duration{Duration: time.Second}
			},
		)
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveFailed(v1alpha1.ReasonWaitTimeout))
		Expect(jobNames(ctx, namespace)).To(BeEmpty())
	})

	It(
		"costs an entry, a status and the word on its ToolResult more, and nothing while it waits",
		func(ctx context.Context) {
			namespace := newNamespace(ctx, builder.Script("done", builder.Calls("pay")), pay()...)
			before := startedSession(ctx, namespace)
			create(ctx, builder.Turn("demo-1").In(namespace).Obj())
			Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.WaitForApproval("pay"))
			Eventually(phaseOf(ctx, namespace, "demo")).Should(Equal(v1alpha1.SessionPhaseWaitingForToolResults))
			waiting := slices.Concat(beginning, []string{turnWrite, sessionWrite})
			Consistently(
				func() []string { return requests.in(namespace)[before:] },
			).WithTimeout(time.Second).
				Should(Equal(waiting))

			Expect(kit.Approve(ctx, namespace, "demo-1", "pay")).To(Succeed())
			Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
			approving := []string{entryWrite, acceptWrite, turnWrite}
			counted, _ := requests.budgeted(namespace)
			counted = slices.DeleteFunc(counted[before+len(waiting):], func(write string) bool { return write == sessionWrite })
			Expect(
				counted[:5],
			).To(
				Equal(append(approving, accountWrite, jobWrite)),
				"the log, the ToolResult and the status know of it before anything starts",
			)
			// Two of the Session's writes show that it waits and that it goes on.
			expectWrites(
				ctx,
				namespace,
				before,
				ConsistOf(
					slices.Concat(beginning, actingFirst(1, v1alpha1.SideEffectAtMostOnce), ending, approving, times(2, sessionWrite)),
				),
			)
		},
	)

	It("costs no Job and no more than a client's answer when it is rejected", func(ctx context.Context) {
		namespace := newNamespace(ctx, builder.Script("done", builder.Calls("pay")), pay()...)
		before := startedSession(ctx, namespace)
		create(ctx, builder.Turn("demo-1").In(namespace).Obj())
		Eventually(phaseOf(ctx, namespace, "demo")).Should(Equal(v1alpha1.SessionPhaseWaitingForToolResults))
		Expect(kit.Reject(ctx, namespace, "demo-1", "pay")).To(Succeed())
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
		expectWrites(ctx, namespace, before, ConsistOf(slices.Concat(
			beginning,
			[]string{turnWrite, sessionWrite, entryWrite, acceptWrite, turnWrite, entryWrite},
			ending,
			times(1, sessionWrite),
		)))
	})
})
