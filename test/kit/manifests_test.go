package kit_test

import (
	"context"
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest"
)

var _ = Describe("Manifests and answers", func() {
	It(
		"are applied from a directory but for kustomizations, and again, and a client can refuse",
		func(ctx context.Context) {
			namespace := newNamespace(ctx)
			samples := filepath.Join(root, "config", "samples")
			Expect(filepath.Join(samples, "kustomization.yaml")).To(BeAnExistingFile())
			Expect(kit.Answer(ctx, namespace, "trip-1", "ask-traveller", "yes")).To(MatchError(ContainSubstring("not found")))
			Expect(kit.Apply(ctx, namespace, samples)).To(Succeed())
			Eventually(kit.Turn(ctx, namespace, "trip-1")).Should(capstantest.WaitForTools("ask-traveller"))
			Expect(kit.Apply(ctx, namespace, samples)).To(Succeed())
			Expect(
				kit.Answer(ctx, namespace, "trip-1", "weather", "sunny"),
			).To(MatchError(ContainSubstring("no call of weather waits")))
			_, err := kit.ToolResultText(ctx, namespace, "trip-1", "3-0")()
			Expect(err).To(MatchError("the call has no result for the model yet"))
			Expect(kit.Refuse(ctx, namespace, "trip-1", "ask-traveller", "I will not say.")).To(Succeed())
			Eventually(kit.ToolResultText(ctx, namespace, "trip-1", "3-0")).Should(Equal("I will not say."))
			Eventually(kit.Turn(ctx, namespace, "trip-1")).Should(capstantest.HaveSucceeded())
			Expect(
				kit.Turn(ctx, namespace, "trip-1")(),
			).NotTo(capstantest.HaveToolCall("ask-traveller", v1alpha1.ToolCallStateSucceeded))
		},
	)

	It("name the invalid file", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		directory := GinkgoT().TempDir()
		Expect(kit.Apply(ctx, namespace, directory)).To(MatchError(ContainSubstring("has no manifests")))
		Expect(kit.Apply(ctx, namespace, filepath.Join(directory, "none.yaml"))).To(MatchError(os.ErrNotExist))
		broken := filepath.Join(directory, "broken.yaml")
		Expect(
			os.WriteFile(
				broken,
				[]byte("apiVersion: capstan.dev/v1alpha1\nkind: Harness\nmetadata: {name: base}\nspec: {systemPromt: typo}\n"),
				0o600,
			),
		).To(Succeed())
		Expect(
			kit.Apply(ctx, namespace, directory),
		).To(MatchError(And(ContainSubstring("broken.yaml"), ContainSubstring("systemPromt"))))
	})
})
