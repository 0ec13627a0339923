package layers_test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

// Serial, because it counts what the controllers do for all namespaces.
var _ = Describe("The steady state", Serial, func() {
	var ns string
	var model *v1alpha1.Model
	var tool *v1alpha1.Tool
	var base, child *v1alpha1.Harness
	var helper *v1alpha1.Agent
	var bundle *v1alpha1.Capability
	var all []client.Object

	BeforeEach(func(ctx SpecContext) {
		ns = namespace(ctx)
		model, tool = newModel(ns, "sim"), newTool(ns, "count")
		base, child = builder.Harness("base").
			In(ns).
			Layer(usesTools("count")).
			Obj(),
			builder.Harness("child").
				In(ns).
				Layer(usesModel("sim")).
				Parent("base").
				Obj()
		helper = builder.Agent("helper").In(ns).Layer(usesTools("count")).Obj()
		bundle = newCapability(ns, "bundle", v1alpha1.CapabilitySpec{Tools: usesTools("count").Tools})
		all = []client.Object{model, tool, base, child, helper, bundle}
		create(ctx, all...)
		expectReady(ctx, all...)
	})

	It("costs no write, however often the controllers look", func(ctx SpecContext) {
		broken := builder.Harness("broken").In(ns).Parent("gone").Obj()
		create(ctx, broken)
		expectUnready(ctx, v1alpha1.ReasonHarnessNotFound, nil, broken)
		settle(ctx, ns, "first")
		kinds := map[client.Object]string{
			model:  "Model",
			tool:   "Tool",
			base:   "Harness",
			child:  "Harness",
			helper: "Agent",
			broken: "Harness",
			bundle: "Capability",
		}

		writes := calls.written()
		for range 5 {
			for o, kind := range kinds {
				result, err := reconcilers[kind].Reconcile(ctx, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(o)})
				Expect(err).NotTo(HaveOccurred())
				Expect(result).To(BeZero())
			}
		}
		Expect(calls.written()).To(Equal(writes))
		for o := range kinds {
			version := o.GetResourceVersion()
			Expect(direct.Get(ctx, client.ObjectKeyFromObject(o), o)).To(Succeed())
			Expect(o.GetResourceVersion()).To(Equal(version), "%T %s", o, o.GetName())
		}
	})

	It("causes no reconcile while no object changes", func(ctx SpecContext) {
		settle(ctx, ns, "first")
		done := func() []int {
			counts := []int{calls.written()}
			for _, o := range all {
				counts = append(counts, calls.readsOf(o))
			}
			return counts
		}
		Consistently(done, time.Second, 50*time.Millisecond).Should(Equal(done()))
	})

	It("reconciles only the objects that depend on a change", func(ctx SpecContext) {
		settle(ctx, ns, "first")
		reads := func() []int {
			return []int{calls.readsOf(base), calls.readsOf(child), calls.readsOf(helper), calls.readsOf(bundle)}
		}
		before := reads()

		By("changing fields of a Tool and a Model that the dependents do not read")
		tool.Labels = map[string]string{"team": "a"}
		tool.Spec.Description = "Counts words."
		Expect(direct.Update(ctx, tool)).To(Succeed())
		model.Annotations = map[string]string{v1alpha1.AnnotationDefaultModel: "true"}
		Expect(direct.Update(ctx, model)).To(Succeed())
		expectReady(ctx, tool, model)

		settle(ctx, ns, "second")
		Expect(reads()).To(Equal(before))

		By("changing fields that they read")
		Expect(direct.Delete(ctx, tool)).To(Succeed())
		expectUnready(ctx, v1alpha1.ReasonToolNotFound, nil, base, child, helper, bundle)
		for i, count := range reads() {
			Expect(count).To(BeNumerically(">", before[i]))
		}
	})
})

// settle waits until the controllers have processed all earlier events: it creates new objects and waits for those.
func settle(ctx context.Context, ns, name string) {
	GinkgoHelper()
	marks := []client.Object{
		newTool(
			ns,
			name,
		),
		newModel(ns, name),
		builder.Harness(name).In(ns).Layer(usesTools(name)).Obj(),
		builder.Agent(name).In(ns).Layer(usesModel(name)).Obj(),
	}
	for _, mark := range marks {
		create(ctx, mark)
		expectReady(ctx, mark)
	}
}
