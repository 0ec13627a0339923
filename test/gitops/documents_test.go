package gitops_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// root is the repository, as seen from this folder.
const root = "../.."

// yamlBlock is a manifest in a document. Blocks with a word behind yaml are not for Kubernetes.
var yamlBlock = regexp.MustCompile("(?s)```yaml([^\n]*)\n(.*?)```")

// foreign are the kinds of others that the page shows, by the word behind yaml.
var foreign = map[string]string{
	"flux":      "kustomize.toolkit.fluxcd.io/v1 Kustomization",
	"argocd":    "argoproj.io/v1alpha1 Application",
	"kustomize": "kustomize.config.k8s.io/v1beta1 Kustomization",
}

var _ = Describe("docs/gitops.md", func() {
	It("shows valid manifests, and the API server accepts those of our kinds", func(ctx context.Context) {
		page, err := os.ReadFile(filepath.Join(root, "docs", "gitops.md"))
		Expect(err).NotTo(HaveOccurred())
		namespace := newNamespace(ctx)
		seen := map[string]int{}
		for _, block := range yamlBlock.FindAllStringSubmatch(string(page), -1) {
			word := strings.TrimSpace(block[1])
			for _, object := range parse(block[2]) {
				seen[word]++
				if word == "" {
					object.SetNamespace(namespace)
					Expect(kit.Client.Create(ctx, object, client.DryRunAll)).To(Succeed())
					continue
				}
				Expect(object.GetAPIVersion() + " " + object.GetKind()).To(Equal(foreign[word]))
			}
		}
		Expect(seen).To(HaveLen(len(foreign) + 1))
	})

	It("names files and folders that exist", func() {
		page, err := os.ReadFile(filepath.Join(root, "docs", "gitops.md"))
		Expect(err).NotTo(HaveOccurred())
		paths := regexp.MustCompile(`\b(?:config|dist)/[a-z][a-z./-]*[a-z]`).FindAllString(string(page), -1)
		Expect(paths).To(ContainElements("config/default", "config/argocd", "dist/install.yaml", "dist/schemas"))
		for _, path := range paths {
			Expect(filepath.Join(root, path)).To(BeAnExistingFile())
		}
	})
})

// parse reads a stream of YAML documents.
func parse(text string) []*unstructured.Unstructured {
	GinkgoHelper()
	var objects []*unstructured.Unstructured
	decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096)
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(&object.Object)
		if errors.Is(err, io.EOF) {
			return objects
		}
		Expect(err).NotTo(HaveOccurred())
		objects = append(objects, object)
	}
}
