package validation_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	capstanv1alpha1 "github.com/capstan-dev/capstan/api/v1alpha1"
)

var _ = Describe("Stored objects", func() {
	for _, s := range specimens {
		It(fmt.Sprintf("%s %s does not change when it is applied again", s.kind, s.name), func(ctx context.Context) {
			first := apply(ctx, s.object(storedNamespace))
			DeferCleanup(func(ctx context.Context) error { return api.Delete(ctx, first) })
			second := apply(ctx, s.object(storedNamespace))
			third := apply(ctx, s.object(storedNamespace))
			// A creation stores no status, so the first apply after it may store the status that the schema fills in.
			// That is the one write that a second apply may cost.
			if _, defaulted := lookup(first.Object, []string{"status"}); !defaulted {
				Expect(second.GetResourceVersion()).To(Equal(first.GetResourceVersion()))
			}
			Expect(third.GetResourceVersion()).To(Equal(second.GetResourceVersion()))
			Expect(third.GetGeneration()).To(Equal(int64(1)))
			Expect(third.Object["spec"]).To(Equal(first.Object["spec"]))
			for field, value := range s.object(storedNamespace).Object["spec"].(map[string]any) {
				Expect(third.Object["spec"]).To(HaveKeyWithValue(field, value), "%s must be stored as it was written", field)
			}
		})

		It(fmt.Sprintf("%s %s survives the Go types", s.kind, s.name), func() {
			written := s.object(storedNamespace)
			raw, err := written.MarshalJSON()
			Expect(err).NotTo(HaveOccurred())
			typed, err := scheme.New(capstanv1alpha1.GroupVersion.WithKind(s.kind))
			Expect(err).NotTo(HaveOccurred())
			Expect(json.Unmarshal(raw, typed)).To(Succeed())
			raw, err = json.Marshal(typed)
			Expect(err).NotTo(HaveOccurred())
			Expect(decode(raw).Object["spec"]).To(Equal(written.Object["spec"]))
		})
	}

	It("keep the store of a Session once it is decided", func(ctx context.Context) {
		session := &capstanv1alpha1.Session{
			ObjectMeta: metav1.ObjectMeta{Name: "stored", Namespace: storedNamespace},
			Spec:       capstanv1alpha1.SessionSpec{HarnessRef: capstanv1alpha1.LocalReference{Name: "base"}},
		}
		Expect(api.Create(ctx, session)).To(Succeed())
		DeferCleanup(func(ctx context.Context) error { return api.Delete(ctx, session) })
		write := func(patch string) error {
			return api.Status().Patch(ctx, session.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(patch)))
		}
		Expect(write(`{"status":{"phase":"Pending"}}`)).To(Succeed())
		Expect(write(`{"status":{"store":"Postgres"}}`)).To(Succeed())
		Expect(write(`{"status":{"store":"Postgres","phase":"Idle"}}`)).To(Succeed())
		for _, other := range []string{
			`{"status":{"store":"Kubernetes"}}`, `{"status":{"store":null}}`, `{"status":{"store":null,"phase":"Started"}}`,
		} {
			Expect(write(other)).To(MatchError(ContainSubstring("store cannot be changed")), other)
		}
	})

	It("show a new Turn as queued before any controller has seen it", func(ctx context.Context) {
		turn := &capstanv1alpha1.Turn{
			ObjectMeta: metav1.ObjectMeta{Name: "queued", Namespace: storedNamespace},
			Spec:       capstanv1alpha1.TurnSpec{SessionRef: capstanv1alpha1.LocalReference{Name: "demo"}, Input: "Hello"},
		}
		Expect(api.Create(ctx, turn)).To(Succeed())
		DeferCleanup(func(ctx context.Context) error { return api.Delete(ctx, turn) })
		Expect(api.Get(ctx, client.ObjectKeyFromObject(turn), turn)).To(Succeed())

		Expect(turn.Status.Phase).To(Equal(capstanv1alpha1.TurnPhaseQueued))
		Expect(turn.Spec.DesiredState).To(Equal(capstanv1alpha1.DesiredStateRunning))
		Expect(turn.Status.Conditions).To(BeEmpty())
	})

	It("state no time before the manager has seen them, and are in progress to kstatus", func(ctx context.Context) {
		kinds := map[string]bool{}
		for _, s := range specimens {
			if kinds[s.kind] {
				continue
			}
			kinds[s.kind] = true
			object := s.object(storedNamespace)
			object.SetName("just-created")
			Expect(api.Create(ctx, object)).To(Succeed())
			DeferCleanup(func(ctx context.Context) error { return api.Delete(ctx, object) })
			Expect(api.Get(ctx, client.ObjectKeyFromObject(object), object)).To(Succeed())
			Expect(object.Object).To(HaveKeyWithValue("status", HaveKeyWithValue("observedGeneration", int64(-1))), s.kind)
			result, err := status.Compute(object)
			Expect(err).NotTo(HaveOccurred())
			Expect(result.Status).To(Equal(status.InProgressStatus), "%s: %s", s.kind, result.Message)

			resource := strings.ToLower(s.kind) + ".capstan.dev/just-created"
			for _, shown := range []string{
				kubectl(ctx, "get", "-n", storedNamespace, resource, "-o", "yaml"),
				kubectl(ctx, "get", "-n", storedNamespace, resource, "-o", "wide"),
				kubectl(ctx, "describe", "-n", storedNamespace, resource),
			} {
				Expect(shown).NotTo(MatchRegexp(`\b(1970|0001)-|\b5\dy`), s.kind)
			}
		}
		Expect(kinds).To(HaveLen(len(definitionsByKind()) - 3))
	})

	It("keep JSON as it was written", func(ctx context.Context) {
		tool := patched(smallest("Tool"), `
metadata: {name: verbatim}
spec:
  inputSchema:
    type: object
    x-order: [b, a]
    properties:
      n: {type: integer, minimum: -9007199254740993}
      unit: {enum: [cm, 2, 1.5, true], default: cm}
    additionalProperties: false
    $defs: {empty: {}}
`)
		tool.SetNamespace(storedNamespace)
		schema := tool.DeepCopy().Object["spec"].(map[string]any)["inputSchema"]
		schema.(map[string]any)["properties"].(map[string]any)["nothing"] = map[string]any{"const": nil}
		Expect(unstructured.SetNestedField(tool.Object, schema, "spec", "inputSchema")).To(Succeed())
		Expect(api.Create(ctx, tool)).To(Succeed())
		DeferCleanup(func(ctx context.Context) error { return api.Delete(ctx, tool) })
		stored := &unstructured.Unstructured{}
		stored.SetGroupVersionKind(tool.GroupVersionKind())
		Expect(api.Get(ctx, client.ObjectKeyFromObject(tool), stored)).To(Succeed())
		Expect(stored.Object["spec"]).To(HaveKeyWithValue("inputSchema", schema))
	})

	It("include entries of the journal, which are immutable", func(ctx context.Context) {
		entry := &capstanv1alpha1.JournalEntry{
			ObjectMeta: metav1.ObjectMeta{Name: "entry", Namespace: storedNamespace},
			Spec: capstanv1alpha1.JournalEntrySpec{
				Session: "demo", Ordinal: 1, Time: metav1.NowMicro(),
				Payload: &capstanv1alpha1.JSON{Raw: []byte(`{"digest":"` + strings.Repeat("x", 512<<10) + `"}`)},
			},
		}
		Expect(api.Create(ctx, entry)).To(Succeed())
		DeferCleanup(func(ctx context.Context) error { return api.Delete(ctx, entry) })

		entry.Labels = map[string]string{"example.org/kept": "yes"}
		Expect(api.Update(ctx, entry)).To(Succeed(), "metadata may change, for garbage collection and backups")

		changed := entry.DeepCopy()
		changed.Spec.Final = true
		err := api.Update(ctx, changed)
		Expect(apierrors.IsInvalid(err)).To(BeTrue(), "got: %v", err)
		Expect(err).To(MatchError(ContainSubstring("a journal entry cannot be changed.")))
	})
	It("include Records, of which only an index changes, by one revision at a time", func(ctx context.Context) {
		payload := strings.Repeat("x", 720896)
		blob := &capstanv1alpha1.Record{
			ObjectMeta: metav1.ObjectMeta{Name: "blob", Namespace: storedNamespace},
			Spec: capstanv1alpha1.RecordSpec{
				Session: "demo", Store: "files", Type: capstanv1alpha1.RecordTypeBlob, Format: 1, Payload: payload,
			},
		}
		index := blob.DeepCopy()
		index.Name, index.Spec.Type, index.Spec.Revision = "index", capstanv1alpha1.RecordTypeIndex, 1
		for _, r := range []*capstanv1alpha1.Record{blob, index} {
			Expect(api.Create(ctx, r)).To(Succeed())
			DeferCleanup(func(ctx context.Context) error { return api.Delete(ctx, r) })
			r.Labels = map[string]string{"example.org/kept": "yes"}
			Expect(api.Update(ctx, r)).To(Succeed(), "metadata may change, for garbage collection and backups")
		}
		index.Spec.Revision, index.Spec.Payload = 2, "y"
		Expect(api.Update(ctx, index)).To(Succeed())

		const unchanged = "a blob cannot be changed, and an index only to its next revision."
		for what, change := range map[string]struct {
			of      *capstanv1alpha1.Record
			change  func(*capstanv1alpha1.RecordSpec)
			message string
		}{
			"a blob":          {blob, func(s *capstanv1alpha1.RecordSpec) { s.Payload = "y" }, unchanged},
			"a blob's format": {blob, func(s *capstanv1alpha1.RecordSpec) { s.Format = 2 }, unchanged},
			"a blob to an index": {blob, func(s *capstanv1alpha1.RecordSpec) {
				s.Type, s.Revision = capstanv1alpha1.RecordTypeIndex, 1
			}, unchanged},
			"an index without a revision": {index, func(s *capstanv1alpha1.RecordSpec) { s.Payload = "z" }, unchanged},
			"an index by two revisions":   {index, func(s *capstanv1alpha1.RecordSpec) { s.Revision = 4 }, unchanged},
			"an index back":               {index, func(s *capstanv1alpha1.RecordSpec) { s.Revision = 1 }, unchanged},
			"an index of another Session": {index, func(s *capstanv1alpha1.RecordSpec) {
				s.Session, s.Revision = "other", 3
			}, unchanged},
			"an index of another store": {index, func(s *capstanv1alpha1.RecordSpec) {
				s.Store, s.Revision = "values", 3
			}, unchanged},
			"an index to a blob": {index, func(s *capstanv1alpha1.RecordSpec) {
				s.Type, s.Revision = capstanv1alpha1.RecordTypeBlob, 0
			}, unchanged},
		} {
			By(what)
			changed := change.of.DeepCopy()
			change.change(&changed.Spec)
			err := api.Update(ctx, changed)
			Expect(apierrors.IsInvalid(err)).To(BeTrue(), "got: %v", err)
			Expect(err).To(MatchError(ContainSubstring(change.message)))
		}
		for what, spec := range map[string]capstanv1alpha1.RecordSpec{
			"an index without a revision": {Session: "demo", Store: "files", Type: "Index", Format: 1, Payload: "x"},
			"a blob with a revision":      {Session: "demo", Store: "files", Type: "Blob", Revision: 1, Format: 1, Payload: "x"},
		} {
			By(what)
			err := api.Create(ctx, &capstanv1alpha1.Record{
				ObjectMeta: metav1.ObjectMeta{Name: "odd", Namespace: storedNamespace}, Spec: spec,
			})
			Expect(err).To(MatchError(ContainSubstring("an index has a revision, and a blob has none.")))
		}
	})
})

func apply(ctx context.Context, object *unstructured.Unstructured) *unstructured.Unstructured {
	GinkgoHelper()
	Expect(api.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner(fieldOwner))).To(Succeed())
	return object
}
