package turns_test

import (
	"context"
	"fmt"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/record"
	"github.com/capstan-dev/capstan/internal/runtime/record/kubernetes"
	"github.com/capstan-dev/capstan/internal/runtime/sessionfs"
)

// fillFiles gives the Session demo so many small files.
func fillFiles(ctx context.Context, namespace string, count int) {
	GinkgoHelper()
	session := &v1alpha1.Session{}
	Expect(kit.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "demo"}, session)).To(Succeed())
	objects, err := kubernetes.ForConfig(config, nil)
	Expect(err).NotTo(HaveOccurred())
	scope := sessionfs.ScopeOf(sessionfs.Session{Namespace: namespace, Name: "demo", UID: session.UID})
	store := record.New(objects, record.Options{})
	for first := 0; first < count; first += 1000 {
		o := record.Operation{Cause: record.Cause{Key: fmt.Sprint("fill-", first)}}
		for i := first; i < min(count, first+1000); i++ {
			o.Put = append(o.Put, record.Put{
				Key: fmt.Sprintf("/%04d", i), Value: []byte("x"), Encoding: "text", Kind: "file",
			})
		}
		_, err := store.Apply(ctx, scope, o)
		Expect(err).NotTo(HaveOccurred())
	}
}

// Rules: FS-01.
var _ = Describe("The files of a Session with more than 1,024", func() {
	It("cost 2 writes more for each page that a change concerns, and are read with the index once they were", func(
		ctx context.Context,
	) {
		namespace := filesNamespace(ctx, map[string][]v1alpha1.SimulatedToolCall{
			"first":  {fileCall("read_file", `{"path": "/0007"}`)},
			"second": {fileCall("read_file", `{"path": "/1050"}`)},
			"third":  {fileCall("write_file", `{"path": "/0007", "content": "changed"}`)},
		})
		fillFiles(ctx, namespace, 1_100)
		Expect(respond(ctx, namespace, "demo-1", "the first")).To(ContainSubstring(`"content":"x"`))
		Eventually(phaseOf(ctx, namespace, "demo")).Should(Equal(v1alpha1.SessionPhaseIdle))
		readBefore := requests.reads(namespace)["records"]
		Expect(respond(ctx, namespace, "demo-2", "the second")).To(ContainSubstring(`"content":"x"`))
		Expect(requests.reads(namespace)["records"]-readBefore).To(Equal(1), "reads of Records")
		Eventually(phaseOf(ctx, namespace, "demo")).Should(Equal(v1alpha1.SessionPhaseIdle))
		before, _ := requests.budgeted(namespace)
		respond(ctx, namespace, "demo-3", "the third")
		expectWrites(ctx, namespace, len(before), ConsistOf(slices.Concat(
			beginning, []string{turnWrite, entryWrite, turnWrite, entryWrite},
			[]string{blobWrite, indexWrite, blobDelete}, ending)))
		Expect(recordsOf(ctx, namespace)).To(HaveLen(5), "the index and its pages")
	})
})
