package turns_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/capstan-dev/capstan/capstantest"
)

// root is the repository, as seen from this folder.
const root = "../.."

var yamlBlock = regexp.MustCompile("(?s)```yaml\n(.*?)```")

var _ = Describe("The examples of the documents", func() {
	It("README's manifest has twenty lines and works when pasted", func(ctx context.Context) {
		readme, err := os.ReadFile(filepath.Join(root, "README.md"))
		Expect(err).NotTo(HaveOccurred())
		block := yamlBlock.FindSubmatch(readme)
		Expect(block).NotTo(BeNil())
		Expect(bytes.Count(block[1], []byte("\n"))).To(BeNumerically("<=", 20))
		namespace := emptyNamespace(ctx)
		apply(ctx, namespace, block[1])
		Eventually(kit.Turn(ctx, namespace, "demo-1")).Should(capstantest.HaveSucceeded())
		turn, err := kit.Turn(ctx, namespace, "demo-1")()
		Expect(err).NotTo(HaveOccurred())
		Expect(turn.Status.Output).To(Equal("You said: How many words has this sentence?"))
	})

	It("the manifests of the other documents are accepted", func(ctx context.Context) {
		documents, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
		Expect(err).NotTo(HaveOccurred())
		seen := 0
		for _, document := range documents {
			text, err := os.ReadFile(document)
			Expect(err).NotTo(HaveOccurred())
			namespace := emptyNamespace(ctx)
			for _, block := range yamlBlock.FindAllSubmatch(text, -1) {
				By(document)
				apply(ctx, namespace, block[1])
				seen++
			}
		}
		Expect(seen).To(BeNumerically(">", 0))
	})

	It(
		"the samples ask for two forecasts and a price at once, then wait for the traveller, then book once",
		func(ctx context.Context) {
			namespace := emptyNamespace(ctx)
			jobs.In(namespace, func(call capstantest.Call) (stdout, stderr string, exit int) {
				return "[" + call.Command[1] + " " + call.Arguments + "]", "", 0
			})
			for _, name := range []string{"turn.yaml", "session.yaml", "tools.yaml", "model.yaml"} {
				applyFile(ctx, namespace, name)
			}
			Eventually(kit.Turn(ctx, namespace, "trip-1")).Should(capstantest.WaitForTools("ask-traveller"))
			applyFile(ctx, namespace, "answer/toolresult.yaml")
			Eventually(kit.Turn(ctx, namespace, "trip-1")).Should(capstantest.HaveSucceeded())
			turn, err := kit.Turn(ctx, namespace, "trip-1")()
			Expect(err).NotTo(HaveOccurred())
			Expect(turn.Status.Output).To(And(
				ContainSubstring(`[weather {"city":"Lisbon"}]`),
				ContainSubstring("Yes, with a window seat please."),
				ContainSubstring(`[sha256 {"approval":"Yes, with a window seat please."`),
			))
			Expect(turn.Status.Summary.Calls).To(Equal("6/6"))
			Expect(kit.Starts(namespace, "trip-1", "4-0")).To(Equal(1))
		},
	)
})

func emptyNamespace(ctx context.Context) string {
	GinkgoHelper()
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "documents-"}}
	Expect(kit.Client.Create(ctx, namespace)).To(Succeed())
	return namespace.Name
}

func applyFile(ctx context.Context, namespace, name string) {
	GinkgoHelper()
	text, err := os.ReadFile(filepath.Join(root, "config", "samples", name))
	Expect(err).NotTo(HaveOccurred())
	apply(ctx, namespace, text)
}

// apply creates the objects of a stream of YAML documents.
func apply(ctx context.Context, namespace string, text []byte) {
	GinkgoHelper()
	decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(string(text)), 4096)
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(object)
		if errors.Is(err, io.EOF) {
			return
		}
		Expect(err).NotTo(HaveOccurred())
		if len(object.Object) == 0 {
			continue
		}
		object.SetNamespace(namespace)
		Expect(kit.Client.Create(ctx, object)).To(Succeed())
	}
}
