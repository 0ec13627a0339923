//go:build e2e

package e2e_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

var _ = Describe("Tools that need approval", func() {
	It(
		"start after an authorized user has approved the call, and do not start after a rejection",
		SpecTimeout(specLimit),
		func(ctx SpecContext) {
			review := &authenticationv1.SelfSubjectReview{}
			Expect(api.Create(ctx, review)).To(Succeed())
			guarded := func(name string) *v1alpha1.Tool {
				tool := toolbox(name, "word-count", v1alpha1.SideEffectAtMostOnce)
				tool.Spec.Policy = v1alpha1.ToolPolicyRequiresApproval
				return tool
			}
			decide := func(namespace, callID string, decision v1alpha1.Decision) *v1alpha1.ToolResult {
				result := capstantest.Decision(read(ctx, namespace, "demo-1"), callID, decision, review.Status.UserInfo.Username)
				result.Name = "decision-" + callID
				return result
			}
			namespace := newStage(ctx, builder.Script("Counted {{tool:count}}. {{tool:other}}", calls{
				call("count", arguments{"text": "one two three"}), call("other", arguments{"text": "one"}),
			}), guarded("count"), guarded("other"))
			ask(ctx, namespace, "demo-1")
			kubectl(
				ctx,
				"wait",
				"--namespace",
				namespace,
				"--for=condition=WaitingForToolResults",
				"turn/demo-1",
				"--timeout=60s",
			)
			waiting := read(ctx, namespace, "demo-1")
			Expect(waiting).To(capstantest.WaitForApproval("count", "other"))
			condition := meta.FindStatusCondition(waiting.Status.Conditions, v1alpha1.ConditionWaitingForToolResults)
			Expect(condition.Reason).To(Equal(v1alpha1.ReasonApproval))
			Expect(jobsIn(ctx, namespace)).To(BeEmpty())

			forged := decide(namespace, "1-0", v1alpha1.DecisionApprove)
			forged.Spec.SubmittedBy = "another-user"
			Expect(api.Create(ctx, forged)).To(MatchError(ContainSubstring("submittedBy must be your own user name")))
			create(ctx, decide(namespace, "1-0", v1alpha1.DecisionApprove))
			Eventually(ctx, acceptance(namespace, "decision-1-0")).Should(HavePrefix("True Accepted: The call was approved."))
			Eventually(ctx, turn(namespace, "demo-1")).Should(And(
				capstantest.HaveToolCall("count", v1alpha1.ToolCallStateSucceeded), capstantest.WaitForApproval("other")))

			create(ctx, decide(namespace, "1-1", v1alpha1.DecisionReject))
			answer := succeeded(ctx, namespace, "demo-1")
			Expect(answer.Status.Output).To(HavePrefix("Counted 3. The tool was not executed: its approval was rejected."))
			Expect(callOf(answer, "other").Reason).To(Equal(v1alpha1.ToolCallReasonRejected))
			Expect(jobsIn(ctx, namespace)).To(HaveLen(1))
		},
	)
})
