package turns_test

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"sync/atomic"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
	"github.com/capstan-dev/capstan/internal/runtime/platform"
	"github.com/capstan-dev/capstan/internal/testing/builder"
	"github.com/capstan-dev/capstan/test/internal/suite"
)

// bot is the ServiceAccount of the agents that manage others.
const bot = "bot"

// mayRead, maySend and mayManage are rights of the account.
var (
	mayRead = rbacv1.PolicyRule{
		APIGroups: []string{"capstan.dev"}, Resources: []string{"agents", "harnesses", "sessions", "turns"},
		Verbs: []string{"get", "list", "watch"},
	}
	maySend = rbacv1.PolicyRule{
		APIGroups: []string{"capstan.dev"}, Resources: []string{"turns"}, Verbs: []string{"create"},
	}
	mayManage = rbacv1.PolicyRule{
		APIGroups: []string{"capstan.dev"}, Resources: []string{"agents", "sessions"}, Verbs: []string{"create", "patch"},
	}
)

// newPlatform returns a namespace whose Jobs run the program of the capability platform, and the Session demo, which
// has it. The model makes the calls of a message, a step for each, and responds with the results of the tools.
func newPlatform(
	ctx context.Context, messages map[string][]v1alpha1.SimulatedToolCall, rights ...rbacv1.PolicyRule,
) string {
	GinkgoHelper()
	script := v1alpha1.Simulation{Response: builder.Fixed("Told:"), ToolCalls: &v1alpha1.SimulatedToolCalls{}}
	tools := map[string]bool{}
	for contains, calls := range messages {
		rule := v1alpha1.SimulatedRule{Contains: contains}
		for _, call := range calls {
			rule.Sequence = append(rule.Sequence, v1alpha1.SimulatedStep{Calls: []v1alpha1.SimulatedToolCall{call}})
			if !tools[call.Name] {
				tools[call.Name] = true
				script.Response.Text += " {{tool:" + call.Name + "}}"
			}
		}
		rule.Sequence = append(rule.Sequence, v1alpha1.SimulatedStep{})
		script.ToolCalls.Conditional = append(script.ToolCalls.Conditional, rule)
	}
	namespace := newNamespace(ctx, script)
	jobs.In(namespace, suite.Platform(ctx, config, kit.Client, namespace, bot, rights...))
	create(ctx, platformSession(namespace, "demo", bot), builder.Session("other").In(namespace).Obj())
	Eventually(phaseOf(ctx, namespace, "other")).Should(Equal(v1alpha1.SessionPhaseStarted))
	return namespace
}

// platformSession is a Session with the capability platform; account is empty for none.
func platformSession(namespace, name, account string) *v1alpha1.Session {
	session := builder.Session(name).In(namespace).Obj()
	session.Spec.Capabilities = []v1alpha1.CapabilityReference{
		{Builtin: platform.Capability, MaxRisk: v1alpha1.CapabilityRiskHigh},
	}
	session.Spec.ServiceAccountName = account
	session.Spec.ModelRef = &v1alpha1.LocalReference{Name: builder.ModelName}
	return session
}

// sentTo are the Turns of a Session.
func sentTo(ctx context.Context, namespace, session string) []v1alpha1.Turn {
	GinkgoHelper()
	all := &v1alpha1.TurnList{}
	Expect(kit.Client.List(ctx, all, client.InNamespace(namespace))).To(Succeed())
	var sent []v1alpha1.Turn
	for _, turn := range all.Items {
		if turn.Spec.SessionRef.Name == session {
			sent = append(sent, turn)
		}
	}
	return sent
}

// Rules: SVC-04.
var _ = Describe("The capability platform", func() {
	begin := fileCall("send_message", `{"session": "other", "message": "Begin."}`)

	It("sends one message for a call that runs twice, as the account of the Session", func(ctx context.Context) {
		namespace := newPlatform(ctx, map[string][]v1alpha1.SimulatedToolCall{"Delegate": {begin}}, mayRead, maySend)
		once := suite.Platform(ctx, config, kit.Client, namespace, "other-"+bot, mayRead, maySend)
		jobs.In(namespace, func(call capstantest.Call) (string, string, int) {
			first, stderr, exit := once(call)
			second, _, _ := once(call)
			if first != second {
				return "", first + " and then " + second + stderr, 1
			}
			return first, stderr, exit
		})
		response := respond(ctx, namespace, "demo-1", "Delegate it.")
		Expect(response).To(MatchRegexp(`Told: \{"session":"other","turn":"msg-[0-9a-f]{20}"\}`))
		sent := sentTo(ctx, namespace, "other")
		Expect(sent).To(HaveLen(1))
		Expect(sent[0].Spec.Input).To(Equal("Begin."))
		Expect(sent[0].Spec.SubmittedBy).To(Equal(fmt.Sprintf("system:serviceaccount:%s:other-%s", namespace, bot)))
		Expect(sent[0].Annotations).To(HaveKeyWithValue(v1alpha1.AnnotationPlatformSession, "demo"))
		Expect(sent[0].Annotations).To(HaveKeyWithValue(v1alpha1.AnnotationPlatformDepth, "1"))

		all := &batchv1.JobList{}
		Expect(kit.Client.List(ctx, all, client.InNamespace(namespace),
			client.MatchingLabels{v1alpha1.LabelCapability: platform.Capability})).To(Succeed())
		Expect(all.Items).To(HaveLen(1))
		Expect(all.Items[0].Spec.Template.Spec.ServiceAccountName).To(Equal(bot))
	})

	It("waits for the response and reads it", func(ctx context.Context) {
		namespace := newPlatform(ctx, map[string][]v1alpha1.SimulatedToolCall{"Supervise": {
			begin, fileCall("wait_for_idle", `{"session": "other"}`), fileCall("recent_messages", `{"session": "other"}`),
		}}, mayRead, maySend)
		response := respond(ctx, namespace, "demo-1", "Supervise it.")
		Expect(response).To(ContainSubstring(`{"session":"other","status":"Idle","timed_out":false}`))
		Expect(response).To(MatchRegexp(`"messages":\[\{"role":"agent","text":"Told:[^\[]*"user","text":"Begin."`))
		Expect(turnOf(ctx, namespace, sentTo(ctx, namespace, "other")[0].Name)).To(HaveField("Status.Phase",
			v1alpha1.TurnPhaseSucceeded))
	})

	It("creates, lists, changes and archives agents", func(ctx context.Context) {
		namespace := newPlatform(ctx, map[string][]v1alpha1.SimulatedToolCall{
			"Hire": {fileCall("platform_create", `{"kind": "agent", "spec": {"systemPrompt": "Be brief."}}`)},
			"Wrong": {
				fileCall("platform_create", `{"kind": "agent", "spec": {"systemPromt": "Be brief."}}`),
			},
			"List": {fileCall("platform_list", `{"kind": "agent"}`)},
			"All":  {fileCall("platform_list", `{"kind": "agent", "archived": true}`)},
		}, mayRead, mayManage)
		created := respond(ctx, namespace, "demo-1", "Hire one.")
		name := regexp.MustCompile(`agent-[0-9a-f]{20}`).FindString(created)
		Expect(name).NotTo(BeEmpty(), created)
		Expect(respond(ctx, namespace, "demo-2", "List them.")).To(ContainSubstring(name))
		Expect(respond(ctx, namespace, "demo-3", "Wrong.")).To(ContainSubstring(`unknown field "spec.systemPromt"`))

		// The model learns the name, which is not known before.
		run := suite.Platform(ctx, config, kit.Client, namespace, "second-"+bot, mayRead, mayManage)
		use := func(tool, arguments string) string {
			GinkgoHelper()
			stdout, stderr, exit := run(capstantest.Call{
				Tool: tool, Session: "demo", Turn: "demo-1", IdempotencyKey: tool,
				Arguments: strings.ReplaceAll(arguments, "NAME", name), Context: ctx,
			})
			Expect(exit).To(BeZero(), stderr)
			return stdout
		}
		Expect(use("platform_update", `{"kind": "agent", "name": "NAME", "spec": {"maxIterations": 7}}`)).
			To(ContainSubstring(`"archived":false`))
		Expect(use("platform_get", `{"kind": "agent", "name": "NAME"}`)).
			To(And(ContainSubstring(`"maxIterations":7`), ContainSubstring(`"systemPrompt":"Be brief."`)))
		use("platform_archive", `{"kind": "agent", "name": "NAME"}`)
		agent := &v1alpha1.Agent{}
		Expect(kit.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, agent)).To(Succeed())
		Expect(agent.Spec.Lifecycle).To(Equal(v1alpha1.LifecycleArchived))
		Expect(respond(ctx, namespace, "demo-4", "List them.")).NotTo(ContainSubstring(name))
		Expect(respond(ctx, namespace, "demo-5", "All of them.")).To(ContainSubstring(name))

		use("platform_archive", `{"kind": "session", "name": "other"}`)
		Expect(use("platform_list", `{"kind": "session"}`)).NotTo(ContainSubstring("other"))
		Expect(use("platform_list", `{"kind": "session", "archived": true}`)).To(ContainSubstring(`"Lifecycle":"Archived"`))
		use("platform_archive", `{"kind": "session", "name": "other", "restore": true}`)
		Expect(use("platform_list", `{"kind": "session", "limit": 1}`)).To(ContainSubstring(`"continue":`))
	})

	It("has the rights of the account and no others", func(ctx context.Context) {
		namespace := newPlatform(ctx, map[string][]v1alpha1.SimulatedToolCall{
			"Delegate": {begin}, "Hire": {fileCall("platform_create", `{"kind": "agent", "spec": {}}`)},
		}, mayRead)
		for turn, message := range map[string]string{"demo-1": "Delegate.", "demo-2": "Hire."} {
			Expect(respond(ctx, namespace, turn, message)).To(And(
				ContainSubstring("is forbidden: User"), ContainSubstring("cannot create resource"), ContainSubstring(bot)))
		}
		Expect(sentTo(ctx, namespace, "other")).To(BeEmpty())
	})

	It("has no tools without an account, and the Session reports why", func(ctx context.Context) {
		namespace := newPlatform(ctx, map[string][]v1alpha1.SimulatedToolCall{"Delegate": {begin}}, mayRead, maySend)
		var ran atomic.Int32
		jobs.In(namespace, func(capstantest.Call) (string, string, int) {
			ran.Add(1)
			return "", "", 0
		})
		create(ctx, platformSession(namespace, "powerless", ""))
		Eventually(func(g Gomega) {
			session := &v1alpha1.Session{}
			g.Expect(kit.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "powerless"}, session)).To(Succeed())
			ready := meta.FindStatusCondition(session.Status.Conditions, v1alpha1.ConditionReady)
			g.Expect(ready).NotTo(BeNil())
			g.Expect(ready.Status).To(BeEquivalentTo("True"))
			g.Expect(ready.Message).To(ContainSubstring("no layer sets serviceAccountName"))
		}).Should(Succeed())
		create(ctx, builder.Turn("powerless-1").In(namespace).Session("powerless").Input("Delegate.").Obj())
		Eventually(kit.Turn(ctx, namespace, "powerless-1")).Should(capstantest.HaveSucceeded())
		Expect(ran.Load()).To(BeZero())
	})

	It("waits for approval before it changes something, if it is configured to", func(ctx context.Context) {
		namespace := newPlatform(ctx, map[string][]v1alpha1.SimulatedToolCall{
			"Delegate": {begin}, "List": {fileCall("platform_list", `{"kind": "session"}`)},
		}, mayRead, maySend)
		session := platformSession(namespace, "careful", bot)
		session.Spec.Capabilities[0].Config = &v1alpha1.JSON{Raw: []byte(`{"approval": "Changes"}`)}
		create(ctx, session, builder.Turn("careful-1").In(namespace).Session("careful").Input("List them.").Obj())
		Eventually(kit.Turn(ctx, namespace, "careful-1")).Should(capstantest.HaveSucceeded())
		create(ctx, builder.Turn("careful-2").In(namespace).Session("careful").Input("Delegate.").Obj())
		Eventually(turnPhase(ctx, namespace, "careful-2")).Should(Equal(v1alpha1.TurnPhaseWaitingForToolResults))
		Expect(turnOf(ctx, namespace, "careful-2").Status.ToolCalls[0].Reason).To(BeEquivalentTo(v1alpha1.ReasonApproval))
		Expect(sentTo(ctx, namespace, "other")).To(BeEmpty())
	})

	It("acts as an account only with a Model that a layer names", func(ctx context.Context) {
		namespace := newPlatform(ctx, map[string][]v1alpha1.SimulatedToolCall{"Delegate": {begin}}, mayRead, maySend)
		session := platformSession(namespace, "unnamed", bot)
		session.Spec.ModelRef = nil
		create(ctx, session, builder.Turn("unnamed-1").In(namespace).Session("unnamed").Input("Delegate.").Obj())
		Eventually(func(g Gomega) {
			turn := &v1alpha1.Turn{}
			g.Expect(kit.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "unnamed-1"}, turn)).To(Succeed())
			succeeded := meta.FindStatusCondition(turn.Status.Conditions, v1alpha1.ConditionSucceeded)
			g.Expect(succeeded).NotTo(BeNil())
			g.Expect(succeeded.Message).To(ContainSubstring("the default Model is not used. Set modelRef"))
		}).Should(Succeed())
		Expect(sentTo(ctx, namespace, "other")).To(BeEmpty())
		patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"modelRef":{"name":"`+builder.ModelName+`"}}}`))
		Expect(kit.Client.Patch(ctx, session, patch)).To(Succeed())
		Eventually(kit.Turn(ctx, namespace, "unnamed-1")).Should(capstantest.HaveSucceeded())
		Expect(sentTo(ctx, namespace, "other")).To(HaveLen(1))
	})

	It("is not stopped by a network access list, which its program does not leave", func(ctx context.Context) {
		namespace := newPlatform(ctx, map[string][]v1alpha1.SimulatedToolCall{"Delegate": {begin}}, mayRead, maySend)
		session := platformSession(namespace, "listed", bot)
		session.Spec.NetworkAccess = &v1alpha1.NetworkAccess{Allowed: []v1alpha1.NetworkPattern{"example.org"}}
		create(ctx, session, builder.Turn("listed-1").In(namespace).Session("listed").Input("Delegate.").Obj())
		Eventually(kit.Turn(ctx, namespace, "listed-1")).Should(capstantest.HaveSucceeded())
		Expect(sentTo(ctx, namespace, "other")).To(HaveLen(1))
	})
})
