package layers_test

import (
	"fmt"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller/status"
	"github.com/capstan-dev/capstan/internal/runtime/condition"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

// orders returns every order of the numbers below n.
func orders(n int) [][]int {
	if n == 0 {
		return [][]int{nil}
	}
	var all [][]int
	for _, shorter := range orders(n - 1) {
		for at := range n {
			all = append(all, slices.Insert(slices.Clone(shorter), at, n-1))
		}
	}
	return all
}

var _ = Describe("Readiness", func() {
	It("becomes True in whatever order the objects are applied", func(ctx SpecContext) {
		var all []client.Object
		var children []*v1alpha1.Harness
		for _, order := range orders(5) {
			ns := namespace(ctx)
			child := builder.Harness("child").In(ns).Layer(usesModel("sim")).Parent("base").Obj()
			objects := []client.Object{
				newModel(
					ns,
					"sim",
				),
				newTool(ns, "count"),
				builder.Harness("base").In(ns).Layer(usesTools("count")).Obj(),
				child,
				builder.Agent("helper").In(ns).Layer(usesTools("count")).Obj(),
			}
			for _, i := range order {
				create(ctx, objects[i])
			}
			all, children = append(all, objects...), append(children, child)
		}
		Expect(children).To(HaveLen(120))
		expectReady(ctx, all...)
		for _, child := range children {
			Expect(child.Status.Chain).To(Equal([]string{"base", "child"}))
			Expect(child.Status.ObservedGeneration).To(Equal(child.Generation))
		}
	})

	It("becomes False when a Tool is deleted, and True when it exists again", func(ctx SpecContext) {
		ns := namespace(ctx)
		tool := newTool(ns, "count")
		dependents := []client.Object{
			builder.Harness("base").In(ns).Layer(usesTools("count", "other")).Obj(),
			builder.Harness("child").In(ns).Parent("base").Obj(),
			builder.Agent("helper").In(ns).Layer(usesTools("count")).Obj(),
		}
		bystander := builder.Harness("bystander").In(ns).Layer(usesTools("other")).Obj()
		create(ctx, append(dependents, tool, newTool(ns, "other"), bystander)...)
		expectReady(ctx, append(dependents, tool, bystander)...)
		version := bystander.ResourceVersion

		Expect(direct.Delete(ctx, tool)).To(Succeed())
		expectUnready(ctx, v1alpha1.ReasonToolNotFound, []string{`Tool "count"`, "Create it"}, dependents...)

		create(ctx, newTool(ns, "count"))
		expectReady(ctx, append(dependents, bystander)...)
		Expect(bystander.ResourceVersion).To(Equal(version))
	})

	It("names a capability that the manager does not have", func(ctx SpecContext) {
		ns := namespace(ctx)
		layer := v1alpha1.ConfigLayer{Capabilities: []v1alpha1.CapabilityReference{{Builtin: "flight"}}}
		base, child := builder.Harness("base").In(ns).Layer(layer).Obj(), builder.Harness("child").In(ns).Parent("base").Obj()
		helper := builder.Agent("helper").In(ns).Layer(layer).Obj()
		create(ctx, base, child, helper)
		expectUnready(ctx, v1alpha1.ReasonCapabilityNotFound, []string{"flight", "current_time"}, base, child, helper)

		base.Spec.Capabilities[0].Builtin, helper.Spec.Capabilities[0].Builtin = "current_time", "stateless_todo_list"
		Expect(direct.Update(ctx, base)).To(Succeed())
		Expect(direct.Update(ctx, helper)).To(Succeed())
		expectReady(ctx, base, child, helper)
	})

	// Rules: CAP-03, CFG-10.
	It("names a capability whose configuration is invalid", func(ctx SpecContext) {
		ns := namespace(ctx)
		capability := v1alpha1.CapabilityReference{
			Builtin: "current_time", Config: &v1alpha1.JSON{Raw: []byte(`{"timezone":"Mars/Olympus"}`)},
		}
		layer := v1alpha1.ConfigLayer{Capabilities: []v1alpha1.CapabilityReference{capability}}
		base, helper := builder.Harness("base").In(ns).Layer(layer).Obj(), builder.Agent("helper").In(ns).Layer(layer).Obj()
		create(ctx, base, helper)
		expectUnready(ctx, v1alpha1.ReasonCapabilityInvalid, []string{`"current_time"`, "Mars/Olympus"}, base, helper)

		base.Spec.Capabilities[0].Config, helper.Spec.Capabilities[0].Config = nil, nil
		Expect(direct.Update(ctx, base)).To(Succeed())
		Expect(direct.Update(ctx, helper)).To(Succeed())
		expectReady(ctx, base, helper)
	})

	It("is False while initial files are invalid", func(ctx SpecContext) {
		ns := namespace(ctx)
		layer := func(path string) v1alpha1.ConfigLayer {
			return v1alpha1.ConfigLayer{InitialFiles: []v1alpha1.InitialFile{{Path: path, Content: "x"}}}
		}
		base := builder.Harness("base").In(ns).Layer(layer("/a")).Obj()
		child := builder.Harness("child").In(ns).Layer(layer("/a/b")).Obj()
		child.Spec.InitialFiles = append(child.Spec.InitialFiles, v1alpha1.InitialFile{Path: "/a"})
		child.Spec.ParentRef = &v1alpha1.LocalReference{Name: "base"}
		create(ctx, base, child)
		expectReady(ctx, base)
		expectUnready(ctx, v1alpha1.ReasonInitialFilesInvalid, []string{"harness/child", "/a is a file"}, child)

		child.Spec.InitialFiles[1] = v1alpha1.InitialFile{Path: "/b", Content: "%", Encoding: v1alpha1.FileEncodingBase64}
		Expect(direct.Update(ctx, child)).To(Succeed())
		expectUnready(ctx, v1alpha1.ReasonInitialFilesInvalid, []string{"/b is not valid base64"}, child)

		child.Spec.InitialFiles[1].Content = "YQ=="
		Expect(direct.Update(ctx, child)).To(Succeed())
		expectReady(ctx, base, child)
	})

	It("becomes False when a Model is deleted, and True when it exists again", func(ctx SpecContext) {
		ns := namespace(ctx)
		model := newModel(ns, "sim")
		dependents := []client.Object{
			builder.Harness("base").In(ns).Layer(usesModel("sim")).Obj(),
			builder.Agent("helper").In(ns).Layer(usesModel("sim")).Obj(),
		}
		create(ctx, append(dependents, model)...)
		expectReady(ctx, dependents...)

		Expect(direct.Delete(ctx, model)).To(Succeed())
		expectUnready(ctx, v1alpha1.ReasonModelNotFound, []string{`Model "sim"`, "Create it"}, dependents...)

		create(ctx, newModel(ns, "sim"))
		expectReady(ctx, dependents...)
	})

	It("follows a Tool whose schema becomes invalid and valid again", func(ctx SpecContext) {
		ns := namespace(ctx)
		tool := newTool(ns, "count")
		dependents := []client.Object{
			builder.Harness("base").In(ns).Layer(usesTools("count")).Obj(),
			builder.Agent("helper").In(ns).Layer(usesTools("count")).Obj(),
		}
		create(ctx, append(dependents, tool)...)
		expectReady(ctx, append(dependents, tool)...)

		tool.Spec.InputSchema.Raw = []byte(`{"type":"string"}`)
		Expect(direct.Update(ctx, tool)).To(Succeed())
		expectUnready(ctx, v1alpha1.ReasonInvalidSchema, []string{"the type is not object"}, tool)
		expectUnready(ctx, v1alpha1.ReasonToolNotReady, []string{`Tool "count"`}, dependents...)

		tool.Spec.InputSchema.Raw = []byte(`{"type":"object"}`)
		Expect(direct.Update(ctx, tool)).To(Succeed())
		expectReady(ctx, append(dependents, tool)...)
	})

	It("follows the ancestors of a Harness", func(ctx SpecContext) {
		ns := namespace(ctx)
		root := builder.Harness("root").In(ns).Obj()
		middle := builder.Harness("middle").In(ns).Parent("root").Obj()
		leaf := builder.Harness("leaf").In(ns).Parent("middle").Obj()
		create(ctx, root, middle, leaf)
		expectReady(ctx, root, middle, leaf)
		Expect(leaf.Status.Chain).To(Equal([]string{"root", "middle", "leaf"}))

		By("the root being deleted")
		Expect(direct.Delete(ctx, root)).To(Succeed())
		expectUnready(ctx, v1alpha1.ReasonHarnessNotFound, []string{`Harness "root"`, `Harness "middle"`}, middle, leaf)
		Expect(leaf.Status.Chain).To(BeEmpty())

		By("the middle no longer naming a parent")
		middle.Spec.ParentRef = nil
		Expect(direct.Update(ctx, middle)).To(Succeed())
		expectReady(ctx, middle, leaf)
		Expect(leaf.Status.Chain).To(Equal([]string{"middle", "leaf"}))

		By("the middle naming a Tool that is missing")
		middle.Spec.Tools = usesTools("gone").Tools
		Expect(direct.Update(ctx, middle)).To(Succeed())
		expectUnready(ctx, v1alpha1.ReasonToolNotFound, []string{`Tool "gone"`}, middle, leaf)

		By("the Tool coming")
		create(ctx, newTool(ns, "gone"))
		expectReady(ctx, middle, leaf)
	})

	It("refuses cycles and chains that are too long", func(ctx SpecContext) {
		ns := namespace(ctx)
		one, two := builder.Harness("one").In(ns).Parent("two").Obj(), builder.Harness("two").In(ns).Parent("one").Obj()
		create(ctx, one, two)
		expectUnready(ctx, v1alpha1.ReasonChainTooLong, []string{"its own ancestor"}, one, two)

		var line []client.Object
		for i := range 17 {
			harness := builder.Harness(fmt.Sprintf("h%d", i)).In(ns)
			if i > 0 {
				harness.Parent(fmt.Sprintf("h%d", i-1))
			}
			line = append(line, harness.Obj())
		}
		create(ctx, line...)
		expectReady(ctx, line[:16]...)
		expectUnready(ctx, v1alpha1.ReasonChainTooLong, []string{`Harness "h16"`}, line[16])

		By("the cycle being broken")
		one.Spec.ParentRef = nil
		Expect(direct.Update(ctx, one)).To(Succeed())
		expectReady(ctx, one, two)
	})

	It("goes while a Harness or an Agent is archived, but not with an archived ancestor", func(ctx SpecContext) {
		ns := namespace(ctx)
		base, child := builder.Harness("base").In(ns).Obj(), builder.Harness("child").In(ns).Parent("base").Obj()
		agent := builder.Agent("helper").In(ns).Obj()
		create(ctx, base, child, agent)
		expectReady(ctx, base, child, agent)

		base.Spec.Lifecycle, agent.Spec.Lifecycle = v1alpha1.LifecycleArchived, v1alpha1.LifecycleArchived
		Expect(direct.Update(ctx, base)).To(Succeed())
		Expect(direct.Update(ctx, agent)).To(Succeed())
		expectUnready(ctx, v1alpha1.ReasonArchived, nil, base, agent)
		expectReady(ctx, child)

		base.Spec.Lifecycle, agent.Spec.Lifecycle = v1alpha1.LifecycleActive, v1alpha1.LifecycleActive
		Expect(direct.Update(ctx, base)).To(Succeed())
		Expect(direct.Update(ctx, agent)).To(Succeed())
		expectReady(ctx, base, child, agent)
	})

	It("is set again after another writer removes it", func(ctx SpecContext) {
		ns := namespace(ctx)
		objects := []client.Object{
			newModel(
				ns,
				"sim",
			),
			newTool(ns, "count"),
			builder.Harness("base").In(ns).Obj(),
			builder.Agent("helper").In(ns).Obj(),
		}
		create(ctx, objects...)
		expectReady(ctx, objects...)
		for _, o := range objects {
			Expect(
				direct.Status().
					Patch(ctx, o, client.RawPatch("application/merge-patch+json", []byte(`{"status":{"conditions":null}}`))),
			).To(Succeed())
			Expect(status.Conditions(o)).To(BeEmpty())
		}
		expectReady(ctx, objects...)
	})
})

var _ = Describe("PatchStatus", func() {
	It("gives way to a concurrent write, and continues with the response of the API server", func(ctx SpecContext) {
		base := builder.Harness("base").In(namespace(ctx)).Obj()
		create(ctx, base)
		expectReady(ctx, base)

		first, second := base.DeepCopy(), base.DeepCopy()
		now := metav1.Now()
		condition.Set(&first.Status.Conditions, 1, now, "First", metav1.ConditionTrue, "Fine", "So.")
		condition.Set(&second.Status.Conditions, 1, now, "Second", metav1.ConditionTrue, "Fine", "So.")
		changed, err := status.Patch(ctx, direct, base, first)
		Expect(err).NotTo(HaveOccurred())
		Expect(changed).To(BeTrue())
		Expect(first.ResourceVersion).NotTo(Equal(base.ResourceVersion))

		_, err = status.Patch(ctx, direct, base, second)
		Expect(apierrors.IsConflict(err)).To(BeTrue(), "%v", err)

		stored := &v1alpha1.Harness{}
		Expect(direct.Get(ctx, client.ObjectKeyFromObject(base), stored)).To(Succeed())
		Expect(stored.Status).To(Equal(first.Status))
		Expect(apimeta.FindStatusCondition(stored.Status.Conditions, "Second")).To(BeNil())
	})
})
