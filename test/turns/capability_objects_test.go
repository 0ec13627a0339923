package turns_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

// research is a Capability with a client tool.
func research(namespace string) *v1alpha1.Capability {
	return &v1alpha1.Capability{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "research"},
		Spec:       v1alpha1.CapabilitySpec{Tools: []v1alpha1.LocalReference{{Name: "ask-ann"}}},
	}
}

// researching starts a Turn of a Session that has the Capability research, whose model asks a client once. The
// Capability exists if a function that changes it is given.
func researching(ctx context.Context, change func(*v1alpha1.Capability, *v1alpha1.CapabilityReference)) string {
	GinkgoHelper()
	namespace := newNamespace(ctx, builder.Script("done", builder.Calls("ask-ann")))
	create(ctx, builder.ClientTool("ask-ann").In(namespace).Obj())
	session := builder.Session("demo").In(namespace).Obj()
	session.Spec.Capabilities = []v1alpha1.CapabilityReference{{Name: "research"}}
	if change != nil {
		bundle := research(namespace)
		change(bundle, &session.Spec.Capabilities[0])
		create(ctx, bundle)
	}
	create(ctx, session, builder.Turn("demo-1").In(namespace).Obj())
	return namespace
}

// answer gives the result that the Turn waits for.
func answer(ctx context.Context, namespace string) {
	GinkgoHelper()
	create(ctx, builder.ToolResult("answer", "1-0").In(namespace).Turn("demo-1").Result("Yes.").Obj())
}

func unchanged(*v1alpha1.Capability, *v1alpha1.CapabilityReference) {}

// Rules: BLK-01, BLK-02, CAP-03, CAP-04, CFG-10.
var _ = Describe("A Capability of a Session", func() {
	sessionReady := func(ctx context.Context, namespace string) func() string {
		session := &v1alpha1.Session{}
		return readyOf(ctx, namespace, "demo", session, func() []metav1.Condition { return session.Status.Conditions })
	}

	It("brings its tools", func(ctx context.Context) {
		namespace := researching(ctx, unchanged)
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.WaitForTools("ask-ann"))
		answer(ctx, namespace)
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
	})

	It("is waited for before a Turn begins", func(ctx context.Context) {
		namespace := researching(ctx, nil)
		Eventually(sessionReady(ctx, namespace)).Should(HavePrefix(
			v1alpha1.ReasonCapabilityNotFound + `: Capability "research" does not exist. Create it`))
		create(ctx, research(namespace))
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.WaitForTools("ask-ann"))
	})

	It("is waited for while it is archived", func(ctx context.Context) {
		bundle := &v1alpha1.Capability{}
		namespace := researching(ctx, func(b *v1alpha1.Capability, _ *v1alpha1.CapabilityReference) {
			b.Spec.Lifecycle = v1alpha1.LifecycleArchived
			bundle = b
		})
		Eventually(sessionReady(ctx, namespace)).Should(HavePrefix(
			v1alpha1.ReasonArchived + `: Capability "research" is archived.`))
		change(ctx, bundle, `{"spec":{"lifecycle":"Active"}}`)
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.WaitForTools("ask-ann"))
	})

	DescribeTable(
		"stops a Turn before its next model call",
		func(
			ctx context.Context, message string, away func(context.Context, *v1alpha1.Capability),
		) {
			var bundle *v1alpha1.Capability
			namespace := researching(ctx, func(b *v1alpha1.Capability, _ *v1alpha1.CapabilityReference) { bundle = b })
			Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.WaitForTools("ask-ann"))
			away(ctx, bundle)
			answer(ctx, namespace)
			Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveFailed(v1alpha1.ReasonDependencyUnavailable))
			turn, err := kit.Turn(ctx, namespace, "demo-1")()
			Expect(err).NotTo(HaveOccurred())
			Expect(turn.Status.Error.Message).To(ContainSubstring(message))
		},
		Entry("when it is deleted", "the assigned capability was deleted", func(ctx context.Context, b *v1alpha1.Capability) {
			Expect(kit.Client.Delete(ctx, b)).To(Succeed())
		}),
		Entry(
			"when it is archived",
			"the assigned capability was archived",
			func(ctx context.Context, b *v1alpha1.Capability) {
				change(ctx, b, `{"spec":{"lifecycle":"Archived"}}`)
			},
		),
		Entry("when its risk is raised", "a capability cannot be used", func(ctx context.Context, b *v1alpha1.Capability) {
			change(ctx, b, `{"spec":{"riskLevel":"High"}}`)
		}),
		Entry(
			"when one of its hooks becomes invalid",
			"a hook is invalid",
			func(ctx context.Context, b *v1alpha1.Capability) {
				change(ctx, b, `{"spec":{"hooks":[{"name":"x","event":"PreToolUse","cel":{"expression":"1 +"}}]}}`)
			},
		),
	)

	It("is left out if it is optional and goes away", func(ctx context.Context) {
		var bundle *v1alpha1.Capability
		namespace := researching(ctx, func(b *v1alpha1.Capability, ref *v1alpha1.CapabilityReference) {
			yes := true
			bundle, ref.Optional = b, &yes
		})
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.WaitForTools("ask-ann"))
		Expect(kit.Client.Delete(ctx, bundle)).To(Succeed())
		answer(ctx, namespace)
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
		Eventually(sessionReady(ctx, namespace)).Should(And(
			HavePrefix(v1alpha1.ReasonReady), ContainSubstring(`The optional capability "object/research" is left out`)))
	})
})
