package turns_test

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

// layered are a Harness, an Agent and a Session with the same layer, and a Turn, with all that the layer names: a
// Model, a Tool and a capability.
type layered struct {
	namespace string
	layer     v1alpha1.ConfigLayer
	model     *v1alpha1.Model
	tool      *v1alpha1.Tool
	// before are further objects that are there from the start.
	before []client.Object
	// mend ends the cause.
	mend func(context.Context)
}

// readyOf reads the reason and the message of the Ready conditions of the three layers, and the message of the Turn.
func (l *layered) readyOf(ctx context.Context, g Gomega) (layers map[string]string, turn metav1.Condition) {
	layers = map[string]string{}
	for name, object := range map[string]client.Object{
		"base": &v1alpha1.Harness{}, "agent": &v1alpha1.Agent{}, "demo": &v1alpha1.Session{},
	} {
		ready, err := condition(ctx, object, l.namespace, name, v1alpha1.ConditionReady)()
		g.Expect(err).NotTo(HaveOccurred())
		layers[fmt.Sprintf("%T", object)] = ready.Reason + ": " + ready.Message
	}
	turn, err := condition(ctx, &v1alpha1.Turn{}, l.namespace, "demo-1", v1alpha1.ConditionSucceeded)()
	g.Expect(err).NotTo(HaveOccurred())
	return layers, turn
}

// expectCause waits until all layers state the same cause, and the Turn repeats it.
func (l *layered) expectCause(ctx context.Context, reason, message string) {
	GinkgoHelper()
	Eventually(func(g Gomega) {
		layers, turn := l.readyOf(ctx, g)
		g.Expect(layers).To(HaveEach(And(HavePrefix(reason+": "), ContainSubstring(message))))
		message := layers["*v1alpha1.Session"]
		g.Expect(layers).To(HaveEach(Equal(message)), "all states of one cause are the same")
		g.Expect(turn.Reason).To(Equal(v1alpha1.ReasonSessionNotReady))
		g.Expect(turn.Message).To(HaveSuffix("(%s). %s", reason, message[len(reason+": "):]))
	}).Should(Succeed())
}

var _ = Describe("A Harness, an Agent, a Session and its Turn", func() {
	DescribeTable(
		"state the same cause in the same words",
		func(ctx context.Context, set func(*layered), reason, message string) {
			s := newSite(anthropicText("Hi."))
			home := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "readiness-"}}
			create(ctx, home)
			l := &layered{namespace: home.Name, tool: builder.ClientTool("tool").Obj()}
			l.tool.Namespace = home.Name
			l.model = realModel(home.Name, "model", v1alpha1.ModelProviderAnthropic, s)
			l.layer = v1alpha1.ConfigLayer{
				ModelRef: &v1alpha1.LocalReference{Name: "model"}, Tools: []v1alpha1.LocalReference{{Name: "tool"}},
				Capabilities: []v1alpha1.CapabilityReference{{Builtin: "current_time"}},
			}
			l.before = []client.Object{keySecret(home.Name), l.model, l.tool}
			set(l)
			session := builder.Session("demo").In(home.Name).Obj()
			session.Spec.AgentRef, session.Spec.ConfigLayer = &v1alpha1.LocalReference{Name: "agent"}, l.layer
			for _, object := range append(l.before,
				builder.Harness("base").In(home.Name).Layer(l.layer).Obj(),
				builder.Agent("agent").In(home.Name).Layer(l.layer).Obj(),
				session, builder.Turn("demo-1").In(home.Name).Session("demo").Input("Hello").Obj()) {
				create(ctx, object)
			}
			if reason != v1alpha1.ReasonReady {
				l.expectCause(ctx, reason, message)
				l.mend(ctx)
			}
			Eventually(func(g Gomega) {
				layers, _ := l.readyOf(ctx, g)
				g.Expect(layers).To(HaveEach(HavePrefix(v1alpha1.ReasonReady + ": ")))
			}).Should(Succeed())
			Eventually(kit.Turn(ctx, home.Name, "demo-1")).Should(capstantest.HaveSucceeded())
		},
		Entry("a missing Model", func(l *layered) {
			l.before = []client.Object{keySecret(l.namespace), l.tool}
			l.mend = func(ctx context.Context) { create(ctx, l.model) }
		}, v1alpha1.ReasonModelNotFound, `Model "model" does not exist. Create it`),
		Entry("a missing Tool", func(l *layered) {
			l.before = []client.Object{keySecret(l.namespace), l.model}
			l.mend = func(ctx context.Context) { create(ctx, l.tool) }
		}, v1alpha1.ReasonToolNotFound, `Tool "tool" does not exist. Create it`),
		Entry("a Model without a key, and then with a Secret that lacks it", func(l *layered) {
			l.before = []client.Object{l.model, l.tool}
			l.mend = func(ctx context.Context) {
				keyless := keySecret(l.namespace)
				keyless.StringData = map[string]string{"other": apiKey}
				create(ctx, keyless)
				l.expectCause(ctx, v1alpha1.ReasonModelNotReady, `Secret "provider" has no key "api-key"`)
				change(ctx, keyless, fmt.Sprintf(`{"stringData":{"api-key":%q}}`, apiKey))
			}
		}, v1alpha1.ReasonModelNotReady, `(SecretMissing). Secret "provider" does not exist. Create it`),
		Entry("a Model without a key, until it has a fallback", func(l *layered) {
			l.before = []client.Object{l.model, l.tool}
			l.mend = func(ctx context.Context) {
				create(ctx, simulatedModel(l.namespace, "fallback"))
				change(ctx, l.model, `{"spec":{"fallbacks":[{"name":"fallback"}]}}`)
			}
		}, v1alpha1.ReasonModelNotReady, "(SecretMissing)."),
		Entry("a Model without a key and its fallback that is missing", func(l *layered) {
			l.model.Spec.Fallbacks = []v1alpha1.LocalReference{{Name: "fallback"}}
			l.before = []client.Object{l.model, l.tool}
			l.mend = func(ctx context.Context) { create(ctx, simulatedModel(l.namespace, "fallback")) }
		}, v1alpha1.ReasonModelNotReady, "(SecretMissing)."),
		Entry("no cause, where a fallback is ready", func(l *layered) {
			l.model.Spec.Fallbacks = []v1alpha1.LocalReference{{Name: "fallback"}}
			l.before = []client.Object{simulatedModel(l.namespace, "fallback"), l.model, l.tool}
		}, v1alpha1.ReasonReady, ""),
		Entry("a Tool with an invalid schema", func(l *layered) {
			l.tool.Spec.InputSchema = &v1alpha1.JSON{Raw: []byte(`{"type":"string"}`)}
			l.mend = func(ctx context.Context) { change(ctx, l.tool, `{"spec":{"inputSchema":{"type":"object"}}}`) }
		}, v1alpha1.ReasonToolNotReady, `Tool "tool" is not ready`),
		Entry("a Tool that no network access list can restrict", func(l *layered) {
			l.layer.NetworkAccess = &v1alpha1.NetworkAccess{Allowed: []v1alpha1.NetworkPattern{"example.org"}}
			l.tool.Spec.Client, l.tool.Spec.Job = nil, builder.JobTool("tool", v1alpha1.SideEffectPure).Obj().Spec.Job
			l.mend = func(ctx context.Context) { change(ctx, l.tool, `{"spec":{"job":{"network":"None"}}}`) }
		}, v1alpha1.ReasonNetworkAccessUnenforceable, `exemptTools of every layer that has networkAccess: "tool"`),
		Entry("several causes at once", func(l *layered) {
			l.before = []client.Object{keySecret(l.namespace)}
			l.mend = func(ctx context.Context) {
				create(ctx, l.model)
				l.expectCause(ctx, v1alpha1.ReasonToolNotFound, `Tool "tool" does not exist.`)
				create(ctx, l.tool)
			}
		}, v1alpha1.ReasonModelNotFound, `Tool "tool" does not exist.`),
	)
})

// simulatedModel is a Model that responds by itself.
func simulatedModel(namespace, name string) *v1alpha1.Model {
	return builder.Model(name).In(namespace).Simulated(builder.Script("Hi.")).Obj()
}
