package layers_test

import (
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

// newCapability is a Capability that depends on others.
func newCapability(ns, name string, spec v1alpha1.CapabilitySpec, needs ...string) *v1alpha1.Capability {
	for _, needed := range needs {
		spec.Dependencies = append(spec.Dependencies, v1alpha1.CapabilityDependency{Name: needed})
	}
	return &v1alpha1.Capability{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}, Spec: spec}
}

// usesCapability is a layer with a Capability.
func usesCapability(name string) v1alpha1.ConfigLayer {
	return v1alpha1.ConfigLayer{Capabilities: []v1alpha1.CapabilityReference{{Name: name}}}
}

// Rules: CAP-03, CFG-10.
var _ = Describe("Readiness of Capabilities", func() {
	It("becomes True in whatever order the objects are applied", func(ctx SpecContext) {
		for _, order := range orders(4) {
			ns := namespace(ctx)
			upper := newCapability(ns, "upper", v1alpha1.CapabilitySpec{}, "lower")
			upper.Spec.Dependencies = append(upper.Spec.Dependencies, v1alpha1.CapabilityDependency{Builtin: "current_time"})
			lower := newCapability(ns, "lower", v1alpha1.CapabilitySpec{Tools: usesTools("count").Tools})
			helper := builder.Agent("helper").In(ns).Layer(usesCapability("upper")).Obj()
			tool := newTool(ns, "count")
			for _, i := range order {
				switch i {
				case 0:
					create(ctx, tool)
				case 1:
					create(ctx, upper)
				case 2:
					create(ctx, lower)
				default:
					create(ctx, helper)
				}
			}
			expectReady(ctx, upper, lower, helper)
			Expect(upper.Status.Dependencies).To(Equal([]string{"object/lower", "current_time"}))
			Expect(lower.Status.Dependencies).To(BeEmpty())
			Expect(upper.Status.ObservedGeneration).To(Equal(upper.Generation))
		}
	})

	It("follows what a Capability needs, with one reason and message for all that have it", func(ctx SpecContext) {
		ns := namespace(ctx)
		tool := newTool(ns, "count")
		lower := newCapability(ns, "lower", v1alpha1.CapabilitySpec{Tools: usesTools("count").Tools})
		upper := newCapability(ns, "upper", v1alpha1.CapabilitySpec{}, "lower")
		base := builder.Harness("base").In(ns).Layer(usesCapability("upper")).Obj()
		child := builder.Harness("child").In(ns).Parent("base").Obj()
		helper := builder.Agent("helper").In(ns).Layer(usesCapability("upper")).Obj()
		bystander := newCapability(ns, "bystander", v1alpha1.CapabilitySpec{})
		create(ctx, tool, lower, upper, base, child, helper, bystander)
		expectReady(ctx, lower, upper, base, child, helper, bystander)
		version := bystander.ResourceVersion

		By("deleting a Tool")
		Expect(direct.Delete(ctx, tool)).To(Succeed())
		expectUnready(ctx, v1alpha1.ReasonToolNotFound, []string{`Tool "count"`}, lower, upper, base, child, helper)
		create(ctx, newTool(ns, "count"))
		expectReady(ctx, lower, upper, base, child, helper)

		By("archiving a dependency")
		lower.Spec.Lifecycle = v1alpha1.LifecycleArchived
		Expect(direct.Update(ctx, lower)).To(Succeed())
		expectUnready(ctx, v1alpha1.ReasonArchived, []string{`Capability "lower"`, "object/upper", "Set its lifecycle"},
			upper, base, child, helper)
		expectUnready(ctx, v1alpha1.ReasonArchived, []string{"The Capability is archived"}, lower)
		lower.Spec.Lifecycle = v1alpha1.LifecycleActive
		Expect(direct.Update(ctx, lower)).To(Succeed())
		expectReady(ctx, lower, upper, base, child, helper)

		By("closing a cycle")
		lower.Spec.Dependencies = []v1alpha1.CapabilityDependency{{Name: "upper"}}
		Expect(direct.Update(ctx, lower)).To(Succeed())
		expectUnready(ctx, v1alpha1.ReasonCapabilityInvalid, []string{"depends on itself"}, lower, upper, base, child, helper)
		lower.Spec.Dependencies = nil
		Expect(direct.Update(ctx, lower)).To(Succeed())
		expectReady(ctx, lower, upper, base, child, helper)

		By("raising its risk")
		lower.Spec.RiskLevel = v1alpha1.CapabilityRiskHigh
		Expect(direct.Update(ctx, lower)).To(Succeed())
		expectUnready(ctx, v1alpha1.ReasonCapabilityRisk, []string{`"object/lower"`, "High"}, upper, base, child, helper)
		expectReady(ctx, lower)

		By("deleting it")
		Expect(direct.Delete(ctx, lower)).To(Succeed())
		expectUnready(ctx, v1alpha1.ReasonCapabilityNotFound, []string{`Capability "lower"`, "Create it"},
			upper, base, child, helper)
		Expect(direct.Get(ctx, client.ObjectKeyFromObject(bystander), bystander)).To(Succeed())
		Expect(bystander.ResourceVersion).To(Equal(version), "a Capability that nothing concerns was written")
	})
})
