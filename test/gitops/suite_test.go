// Package gitops_test checks the health that tools which deploy from git compute of Capstan's objects: the real
// controllers run scenarios, a watch records every version of every object, and kstatus' own library and Argo CD's own
// health engine assess each of them.
package gitops_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
	"github.com/capstan-dev/capstan/config/crd"
	"github.com/capstan-dev/capstan/test/internal/suite"
)

// kinds are all of Capstan's.
var kinds = []string{
	"Harness", "Agent", "Session", "Turn", "Model", "Tool", "ToolResult", "JournalEntry", "Record",
	"MCPServer", "Capability", "Budget", "Schedule", "LeasedResource",
}

var (
	config *rest.Config
	kit    *capstantest.Kit
	record *recorder
	argo   *healthEngine
)

func TestGitOps(t *testing.T) {
	RegisterFailHandler(Fail)
	RunSpecs(t, "GitOps")
}

var _ = BeforeSuite(func(ctx context.Context) {
	suite.Configure(suite.Logger(), 30*time.Second, suite.Polling)
	argo = startHealthEngine()

	config = suite.Start().Config
	var err error
	kit, err = capstantest.Start(context.Background(), config, capstantest.Options{})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(kit.Stop()).To(Succeed()) })
	// A definition that changes ends the watches of its kind, so that the recorder comes last.
	knowMoreProviders(ctx)
	record = startRecorder(config)
})

// Whatever the scenes did, no version of any object may be taken for finished before it is, nor for unfinished for
// ever.
var _ = AfterSuite(func() {
	if record == nil || argo == nil {
		return
	}
	Expect(record.ended).To(BeEmpty(), "the recorder must have seen everything")
	counts := map[string]int{}
	for _, version := range record.all() {
		counts[version.GetKind()]++
		Expect(judge(version)).To(Equal(expected(version)), "%s", describe(version))
	}
	for _, kind := range kinds {
		Expect(counts[kind]).To(BeNumerically(">", 0), "no %s was recorded", kind)
	}
	_, _ = fmt.Fprintf(GinkgoWriter, "judged versions of objects, by kind: %v\n", counts)
})

// otherProvider is one that the definition of Model knows in this suite and the manager does not, as while an upgrade
// is rolled out.
const otherProvider v1alpha1.ModelProvider = "Elsewhere"

// knowMoreProviders makes the API server accept a provider that the manager has no driver for.
func knowMoreProviders(ctx context.Context) {
	GinkgoHelper()
	scheme := kit.Client.Scheme()
	Expect(apiextensionsv1.AddToScheme(scheme)).To(Succeed())
	definition := &apiextensionsv1.CustomResourceDefinition{}
	Expect(kit.Client.Get(ctx, client.ObjectKey{Name: "models.capstan.dev"}, definition)).To(Succeed())
	before := definition.DeepCopy()
	spec := definition.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
	provider := spec.Properties["provider"]
	provider.Enum = append(provider.Enum, apiextensionsv1.JSON{Raw: fmt.Appendf(nil, "%q", otherProvider)})
	spec.Properties["provider"] = provider
	Expect(kit.Client.Patch(ctx, definition, client.MergeFrom(before))).To(Succeed())
	probe := &v1alpha1.Model{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "probe"}, Spec: elsewhere()}
	Eventually(func() error { return kit.Client.Create(ctx, probe.DeepCopy(), client.DryRunAll) }).Should(Succeed())
}

// elsewhere is the spec of a Model of that provider.
func elsewhere() v1alpha1.ModelSpec {
	return v1alpha1.ModelSpec{
		Provider:     otherProvider,
		Model:        "strange-1",
		SecretKeyRef: &v1alpha1.SecretKeyReference{Name: "strange", Key: "key"},
	}
}

// newNamespace returns a namespace of the spec's own.
func newNamespace(ctx context.Context) string {
	GinkgoHelper()
	return suite.Namespace(ctx, kit.Client, "gitops-")
}

func create(ctx context.Context, objects ...client.Object) {
	GinkgoHelper()
	suite.Create(ctx, kit.Client, objects...)
}

// change edits the spec of an object, as a commit in git would.
func change[O client.Object](ctx context.Context, object O, edit func(O)) {
	GinkgoHelper()
	Expect(kit.Client.Get(ctx, client.ObjectKeyFromObject(object), object)).To(Succeed())
	base, ok := object.DeepCopyObject().(client.Object)
	Expect(ok).To(BeTrue())
	edit(object)
	Expect(kit.Client.Patch(ctx, object, client.MergeFrom(base))).To(Succeed())
}

var _ = Describe("The kinds", func() {
	It("are all judged", func() {
		definitions, err := crd.Definitions()
		Expect(err).NotTo(HaveOccurred())
		var defined []string
		for _, definition := range definitions {
			defined = append(defined, definition.Spec.Names.Kind)
		}
		Expect(defined).To(ConsistOf(kinds))
	})
})
