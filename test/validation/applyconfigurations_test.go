package validation_test

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/applyconfiguration"
	applyv1alpha1 "github.com/capstan-dev/capstan/api/applyconfiguration/api/v1alpha1"
	capstanv1alpha1 "github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/config/crd"
)

// managerSpecimens are the kinds that users do not write.
var managerSpecimens = []specimen{{kind: "JournalEntry", name: "entry", spec: `
  session: demo
  ordinal: 1
  time: "2030-01-02T03:04:05.000000Z"
  turn: {name: demo-1, uid: 3f1c}
  step: 1
  final: true
  part: 1
  format: 2
  payload: {digest: d1, events: [{type: turn.started, data: {iteration: 1}}], claimed: {id: 1-0, holder: me}}
`}, {kind: "LeasedResource", name: "lease", spec: `
  desiredState: Active
  provider: sandboxes.example.com
  type: sandbox
  externalID: sb-7f3a
  duration: 1h0m0s
  sessionRef: {name: demo, uid: 3f1c}
  turn: demo-1
  tool: start-sandbox
  user: ann@example.org
  cleanup: {toolRef: {name: delete-sandbox}, confinedTo: "https://sandboxes.example.com:443"}
`}, {kind: "Record", name: "index", spec: `
  session: demo
  store: files
  type: Index
  revision: 1
  format: 1
  payload: H4sIAAAAAAAA
`}, {kind: "Record", name: "blob", spec: `
  session: demo
  store: files
  type: Blob
  format: 1
  payload: H4sIAAAAAAAA
`}}

var _ = Describe("Apply configurations", func() {
	It("exist for every kind, have every field, and are applied", func(ctx context.Context) {
		namespace := newApplyNamespace(ctx)
		kinds := map[string]bool{}
		for _, s := range slices.Concat(specimens, managerSpecimens) {
			By(s.kind + " " + s.name)
			object := s.object(namespace)
			configuration, ok := applyconfiguration.ForKind(object.GroupVersionKind()).(runtime.ApplyConfiguration)
			Expect(ok).To(BeTrue(), "there is no apply configuration")
			raw, err := object.MarshalJSON()
			Expect(err).NotTo(HaveOccurred())
			decoder := json.NewDecoder(bytes.NewReader(raw))
			decoder.DisallowUnknownFields()
			Expect(decoder.Decode(configuration)).To(Succeed(), "a field is missing")
			Expect(api.Apply(ctx, configuration, client.FieldOwner(fieldOwner))).To(Succeed())

			stored := &unstructured.Unstructured{}
			stored.SetGroupVersionKind(object.GroupVersionKind())
			Expect(api.Get(ctx, client.ObjectKeyFromObject(object), stored)).To(Succeed())
			again := s.object(namespace)
			again.SetName(s.name + "-untyped")
			Expect(api.Create(ctx, again)).To(Succeed())
			Expect(stored.Object["spec"]).To(Equal(again.Object["spec"]), "applied with types it is another object")
			kinds[s.kind] = true
		}
		definitions, err := crd.Definitions()
		Expect(err).NotTo(HaveOccurred())
		for _, definition := range definitions {
			Expect(kinds).To(HaveKey(definition.Spec.Names.Kind), "nothing of this kind was applied")
		}
	})

	It("are built with types, own the fields that they set, and release them", func(ctx context.Context) {
		namespace := newApplyNamespace(ctx)
		session := func() *applyv1alpha1.SessionApplyConfiguration {
			return applyv1alpha1.Session("demo", namespace).
				WithSpec(applyv1alpha1.SessionSpec().WithHarnessRef(applyv1alpha1.LocalReference().WithName("base")))
		}
		titled := session()
		titled.Spec.WithSystemPrompt("You answer briefly.").WithMaxIterations(3)
		Expect(api.Apply(ctx, titled, client.FieldOwner(fieldOwner))).To(Succeed())
		stored := &capstanv1alpha1.Session{}
		Expect(api.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "demo"}, stored)).To(Succeed())
		Expect(stored.Spec.SystemPrompt).To(Equal("You answer briefly."))
		owned, err := applyv1alpha1.ExtractSession(stored, fieldOwner)
		Expect(err).NotTo(HaveOccurred())
		Expect(owned.Spec.MaxIterations).To(HaveValue(BeEquivalentTo(3)))
		Expect(owned.Spec.ClientTools).To(BeNil(), "a default has no field manager")

		Expect(api.Apply(ctx, session(), client.FieldOwner(fieldOwner))).To(Succeed())
		Expect(api.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "demo"}, stored)).To(Succeed())
		Expect(stored.Spec.SystemPrompt).To(BeEmpty())
		Expect(stored.Spec.MaxIterations).To(BeNil())
	})
})

func newApplyNamespace(ctx context.Context) string {
	GinkgoHelper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "apply-"}}
	Expect(api.Create(ctx, namespace)).To(Succeed())
	return namespace.Name
}
