package turns_test

import (
	"context"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

// writerOf returns a Model that responds with a text, and a Session whose title it writes.
func writerOf(namespace, session, text string) (*v1alpha1.Model, *v1alpha1.Session) {
	writer := builder.Model("writer").In(namespace).Obj()
	script := builder.Script(text)
	writer.Spec.Provider, writer.Spec.Simulation = v1alpha1.ModelProviderSimulated, &script
	titled := builder.Session(session).In(namespace).Obj()
	titled.Spec.Capabilities = []v1alpha1.CapabilityReference{
		{Builtin: "utility_model", Config: &v1alpha1.JSON{Raw: []byte(`{"modelRef":{"name":"writer"}}`)}},
		{Builtin: "session_title"},
	}
	return writer, titled
}

// titleOf returns the title in the status of a Session.
func titleOf(ctx context.Context, namespace, name string) func() (string, error) {
	return func() (string, error) {
		session := &v1alpha1.Session{}
		err := kit.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, session)
		return session.Status.Title, err
	}
}

// Rules: SVC-01, CTX-02.
var _ = Describe("A Session with the capability session_title", func() {
	It("gets its title after the first Turn, for one write", func(ctx context.Context) {
		namespace := newNamespace(ctx, builder.Script("Hello to you too."))
		writer, session := writerOf(namespace, "demo", "\"A greeting\"\nor not")
		create(ctx, writer, session)
		Eventually(phaseOf(ctx, namespace, "demo")).Should(Equal(v1alpha1.SessionPhaseStarted))
		before := len(requests.in(namespace))
		create(ctx, builder.Turn("demo-1").In(namespace).Obj())
		turn := ended(ctx, namespace, "demo-1")
		Expect(titleOf(ctx, namespace, "demo")()).To(Equal("A greeting"), "the title comes before the end of the Turn")
		Expect(turn.Status.Summary.ModelCalls).To(BeEquivalentTo(1))
		expectCost(ctx, namespace, before, slices.Concat(beginning, []string{sessionWrite}, ending))

		before = len(requests.in(namespace))
		create(ctx, builder.Turn("demo-2").In(namespace).Obj())
		ended(ctx, namespace, "demo-2")
		expectCost(ctx, namespace, before, slices.Concat(beginning, ending))
	})

	It("keeps its Turns as they are when no title can be written", func(ctx context.Context) {
		namespace := newNamespace(ctx, builder.Script("Hello to you too."))
		writer, session := writerOf(namespace, "demo", "")
		writer.Spec.Simulation = &v1alpha1.Simulation{
			Response: &v1alpha1.SimulatedResponse{Type: v1alpha1.SimulatedResponseTypeError, Text: "out of order"},
		}
		create(ctx, writer, session)
		Eventually(phaseOf(ctx, namespace, "demo")).Should(Equal(v1alpha1.SessionPhaseStarted))
		before := len(requests.in(namespace))
		create(ctx, builder.Turn("demo-1").In(namespace).Obj())
		Expect(ended(ctx, namespace, "demo-1").Status.Output).To(Equal("Hello to you too."))
		Expect(titleOf(ctx, namespace, "demo")()).To(BeEmpty())
		expectCost(ctx, namespace, before, slices.Concat(beginning, ending))
	})

	It("lets its model change the title with a tool", func(ctx context.Context) {
		call := builder.Call("set_session_title")
		call.Arguments = &v1alpha1.JSON{Raw: []byte(`{"title":"Another subject"}`)}
		namespace := newNamespace(ctx, builder.Script("done", []v1alpha1.SimulatedToolCall{call}))
		writer, session := writerOf(namespace, "demo", "A greeting")
		create(ctx, writer, session, builder.Turn("demo-1").In(namespace).Obj())
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
		Expect(titleOf(ctx, namespace, "demo")()).To(Equal("Another subject"))
	})
})
