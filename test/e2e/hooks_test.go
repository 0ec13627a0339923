//go:build e2e

package e2e_test

import (
	"context"
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

// scripted is a hook that runs a script.
func scripted(name string, event v1alpha1.HookEvent, tool, command string) v1alpha1.Hook {
	h := v1alpha1.Hook{Name: name, Event: event, Bash: &v1alpha1.BashHook{Command: command}}
	if tool != "" {
		h.Matcher = &v1alpha1.HookMatcher{ToolName: tool}
	}
	return h
}

// hookedStage is a stage whose Session demo has hooks.
func hookedStage(
	ctx context.Context, script v1alpha1.Simulation, hooks []v1alpha1.Hook, tools ...*v1alpha1.Tool,
) string {
	GinkgoHelper()
	namespace := newNamespace(ctx)
	for _, object := range builder.Stage(namespace, script, tools...) {
		create(ctx, object)
	}
	create(ctx, hookedSession(namespace, "demo", hooks...))
	return namespace
}

// hookedSession is a Session with hooks.
func hookedSession(namespace, name string, hooks ...v1alpha1.Hook) *v1alpha1.Session {
	session := builder.Session(name).In(namespace).Obj()
	session.Spec.Hooks = hooks
	return session
}

// loggedAbout are the lines that the manager has logged about a namespace.
func loggedAbout(namespace string) func(context.Context) ([]string, error) {
	return func(ctx context.Context) ([]string, error) {
		pods, err := managerPods(ctx)
		if err != nil {
			return nil, err
		}
		var lines []string
		for i := range pods {
			options := &corev1.PodLogOptions{Container: managerContainer}
			text, err := clientset.CoreV1().Pods(managerNamespace).GetLogs(pods[i].Name, options).DoRaw(ctx)
			if err != nil {
				return nil, err
			}
			for line := range strings.Lines(string(text)) {
				if strings.Contains(line, namespace) {
					lines = append(lines, line)
				}
			}
		}
		return lines, nil
	}
}

// ready waits until a number of Sessions of a namespace can be used.
func ready(ctx context.Context, namespace string, number int) {
	GinkgoHelper()
	Eventually(ctx, func(ctx context.Context) (int, error) {
		var sessions v1alpha1.SessionList
		err := api.List(ctx, &sessions, client.InNamespace(namespace))
		started := 0
		for i := range sessions.Items {
			if sessions.Items[i].Status.Phase == v1alpha1.SessionPhaseStarted {
				started++
			}
		}
		return started, err
	}).Should(Equal(number))
}

var _ = Describe("Hooks", func() {
	It("block one call of a Job, and rewrite the arguments of another, as its approver sees them",
		SpecTimeout(specLimit),
		func(ctx SpecContext) {
			review := &authenticationv1.SelfSubjectReview{}
			Expect(api.Create(ctx, review)).To(Succeed())
			count := toolbox("count", "word-count", v1alpha1.SideEffectAtMostOnce)
			count.Spec.Policy = v1alpha1.ToolPolicyRequiresApproval
			namespace := hookedStage(ctx, builder.Script("Counted {{tool:count}}. {{tool:other}}", calls{
				call("count", arguments{"text": "one two three"}), call("other", arguments{"text": "one"}),
			}), []v1alpha1.Hook{
				scripted("shorten", v1alpha1.HookEventPreToolUse, "count", `
					[ "$(jq -r .data.arguments.text "$CAPSTAN_HOOK_PAYLOAD_PATH")" = "one two three" ] || exit 1
					echo '{"decision": "mutate", "patch": {"arguments": {"text": "one two"}}}'`),
				scripted("never", v1alpha1.HookEventPreToolUse, "other", "echo not here >&2; exit 1"),
			}, count, toolbox("other", "word-count", v1alpha1.SideEffectAtMostOnce))
			ask(ctx, namespace, "demo-1")
			Eventually(ctx, turn(namespace, "demo-1")).Should(capstantest.WaitForApproval("count"))
			waiting := read(ctx, namespace, "demo-1")
			Expect(callOf(waiting, "count").Arguments).To(Equal(`{"text":"one two"}`))
			Expect(callOf(waiting, "other").Reason).To(Equal(v1alpha1.ToolCallReasonBlockedByHook))
			create(ctx, capstantest.Decision(waiting, "1-0", v1alpha1.DecisionApprove, review.Status.UserInfo.Username))
			answer := succeeded(ctx, namespace, "demo-1")
			Expect(answer.Status.Output).To(Equal("Counted 2. blocked by pre_tool_use hook: not here"))
			Expect(jobsIn(ctx, namespace)).To(HaveLen(1))
		})

	It("rewrite one message, and block another", SpecTimeout(specLimit), func(ctx SpecContext) {
		namespace := hookedStage(ctx, builder.Script("I read: {{input}}"), []v1alpha1.Hook{
			scripted("polite", v1alpha1.HookEventUserPromptSubmit, "", `
				message=$(jq -r .data.message "$CAPSTAN_HOOK_PAYLOAD_PATH")
				case $message in
				*key*) echo '{"decision": "block", "reason": "a key", "user_message": "Keep your keys."}' ;;
				*) echo '{"decision": "mutate", "patch": {"message": "Thank you."}}' ;;
				esac`),
		})
		Expect(answered(ctx, namespace, "demo-1").Status.Output).To(Equal("I read: Thank you."))
		create(ctx, builder.Turn("demo-2").In(namespace).Input("My key is 12345.").Obj())
		Eventually(ctx, turn(namespace, "demo-2")).Should(capstantest.HaveFailed(
			v1alpha1.ReasonBlockedByUserPromptHook))
		Expect(read(ctx, namespace, "demo-2").Status.Error.Message).To(Equal("Keep your keys."))
		Expect(answered(ctx, namespace, "demo-3").Status.Output).To(Equal("I read: Thank you."))
	})

	It("run when a Session starts and when it is deleted, on its files", SpecTimeout(specLimit), func(ctx SpecContext) {
		namespace := hookedStage(ctx, builder.Script("Hello."), []v1alpha1.Hook{
			scripted("open", v1alpha1.HookEventSessionStart, "", "echo opened > /workspace/state; echo seen >&2; exit 1"),
			scripted("close", v1alpha1.HookEventSessionEnd, "", `echo "the state is $(cat /workspace/state)" >&2; exit 1`),
		})
		answered(ctx, namespace, "demo-1")
		session := &v1alpha1.Session{ObjectMeta: named(namespace, "demo")}
		Expect(api.Get(ctx, keyOf(session), session)).To(Succeed())
		Expect(session.Status.Hooks.Start).To(Equal([]v1alpha1.HookOutcome{
			{ID: "session:open", Decision: v1alpha1.HookDecisionBlock, Reason: "seen"},
		}))
		deleteAll(ctx, inBackground, session)
		expectGone(ctx, namespace, []client.Object{session}, &v1alpha1.JournalEntryList{}, &v1alpha1.RecordList{})
		Eventually(ctx, loggedAbout(namespace)).Should(And(
			ContainElement(And(ContainSubstring("session:close"), ContainSubstring("the state is opened"))),
			ContainElement(And(ContainSubstring("A Session has ended"), ContainSubstring(`"Run"`))),
		))
	})

	It("do not run in a namespace that is deleted, which is gone soon with 20 Sessions", SpecTimeout(specLimit),
		func(ctx SpecContext) {
			const number = 20
			namespace := newNamespace(ctx)
			for _, object := range builder.Stage(namespace, builder.Script("Hello.")) {
				create(ctx, object)
			}
			// Two scripts run at once: with these hooks the namespace would take minutes.
			slow := scripted("close", v1alpha1.HookEventSessionEnd, "", "echo it runs >&2; sleep 25; exit 1")
			slow.Timeout = &metav1.Duration{Duration: 30 * time.Second}
			for i := range number {
				create(ctx, hookedSession(namespace, fmt.Sprint("demo-", i), slow))
			}
			ready(ctx, namespace, number)
			began := time.Now()
			deleted := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
			Expect(api.Delete(ctx, deleted)).To(Succeed())
			Eventually(ctx, func(ctx context.Context) bool {
				return apierrors.IsNotFound(api.Get(ctx, keyOf(deleted), deleted))
			}).WithTimeout(deletionLimit).Should(BeTrue())
			show("the namespace was gone after", time.Since(began).Round(time.Millisecond).String())
			lines, err := loggedAbout(namespace)(ctx)
			Expect(err).NotTo(HaveOccurred())
			ended := 0
			for _, line := range lines {
				Expect(line).NotTo(ContainSubstring("it runs"))
				Expect(line).NotTo(ContainSubstring("did not end in time"))
				if strings.Contains(line, "A Session has ended") {
					Expect(line).To(ContainSubstring("NamespaceTerminating"))
					ended++
				}
			}
			Expect(ended).To(Equal(number))
		})
})
