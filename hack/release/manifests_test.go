//go:build e2e

package main

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// expectPublished checks everything that a release has in its registry, as a client finds it there.
func expectPublished(t *testing.T, o options) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(o.out, "install.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	images, err := namedImages(content)
	if err != nil || len(images) != len(programs) {
		t.Fatalf("install.yaml names %v, %v", images, err)
	}
	for _, image := range images {
		if !strings.HasPrefix(image, o.registry+"/") {
			t.Errorf("install.yaml names %s", image)
		}
		reference, err := name.NewDigest(image)
		if err != nil {
			t.Fatal(err)
		}
		expectPlatforms(t, o, reference)
		expectProvenance(t, o, reference)
	}
	tag, err := name.NewTag(chartRepository(o) + ":" + chartVersion(o.version))
	if err != nil {
		t.Fatal(err)
	}
	chart, err := remote.Head(tag)
	if err != nil {
		t.Fatal(err)
	}
	expectProvenance(t, o, tag.Context().Digest(chart.Digest.String()))
}

// expectPlatforms checks that a reference has the platforms: as an index, or, with one, as an image. Each has an SBOM
// that names the module.
func expectPlatforms(t *testing.T, o options, reference name.Digest) {
	t.Helper()
	found, err := remote.Get(reference)
	if err != nil {
		t.Fatal(err)
	}
	digests := []v1.Hash{found.Digest}
	if len(o.platforms) > 1 {
		index, err := found.ImageIndex()
		if err != nil {
			t.Fatal(err)
		}
		manifest, err := index.IndexManifest()
		if err != nil {
			t.Fatal(err)
		}
		digests = nil
		for i, descriptor := range manifest.Manifests {
			digests = append(digests, descriptor.Digest)
			if i >= len(o.platforms) || descriptor.Platform.String() != o.platforms[i] {
				t.Errorf("%s has an image for %s", reference, descriptor.Platform)
			}
		}
	}
	var platforms []string
	for _, digest := range digests {
		image, err := remote.Image(reference.Context().Digest(digest.String()))
		if err != nil {
			t.Fatal(err)
		}
		config, err := image.ConfigFile()
		if err != nil || config.Config.User != user {
			t.Fatalf("%s@%s is configured as %+v, %v", reference.Context(), digest, config, err)
		}
		platforms = append(platforms, config.Platform().String())
		expectSBOM(t, reference.Context(), digest)
	}
	if !slices.Equal(platforms, o.platforms) {
		t.Errorf("%s is for %v, want %v", reference, platforms, o.platforms)
	}
}

func expectSBOM(t *testing.T, repository name.Repository, digest v1.Hash) {
	t.Helper()
	sbom, err := remote.Image(repository.Tag(digest.Algorithm + "-" + digest.Hex + ".sbom"))
	if err != nil {
		t.Fatal(err)
	}
	var document struct {
		SPDXVersion string `json:"spdxVersion"`
		Packages    []struct{ Name string }
	}
	decodeLayer(t, sbom, "text/spdx+json", &document)
	if document.SPDXVersion == "" || !slices.ContainsFunc(document.Packages, func(p struct{ Name string }) bool {
		return strings.Contains(p.Name, module)
	}) {
		t.Errorf("the SBOM of %s@%s is %s with %d packages", repository, digest, document.SPDXVersion, len(document.Packages))
	}
}

// expectProvenance checks the statement that the registry lists as a referrer of what it is about. Releases that have
// the same image have a statement each.
func expectProvenance(t *testing.T, o options, reference name.Digest) {
	t.Helper()
	referrers, err := remote.Referrers(reference)
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := referrers.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	_, digest, _ := strings.Cut(reference.DigestStr(), ":")
	found := 0
	for _, referrer := range manifest.Manifests {
		attached, err := remote.Image(reference.Context().Digest(referrer.Digest.String()))
		if err != nil {
			t.Fatal(err)
		}
		var about statement
		decodeLayer(t, attached, string(statementMediaType), &about)
		if about.Type != statementType || about.PredicateType != predicateType || len(about.Subject) != 1 ||
			about.Subject[0].Digest["sha256"] != digest ||
			len(about.Predicate.BuildDefinition.ResolvedDependencies[0].Digest["gitCommit"]) != 40 {
			t.Errorf("the provenance of %s is %+v", reference, about)
		}
		if about.Predicate.BuildDefinition.ExternalParameters["version"] == o.version {
			found++
		}
	}
	if found != 1 {
		t.Errorf("%s has %d statements about %s, of %d", reference, found, o.version, len(manifest.Manifests))
	}
}

func decodeLayer(t *testing.T, image v1.Image, mediaType string, into any) {
	t.Helper()
	layers, err := image.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("%d layers, %v", len(layers), err)
	}
	if got, err := layers[0].MediaType(); err != nil || string(got) != mediaType {
		t.Errorf("the media type is %s, %v, want %s", got, err, mediaType)
	}
	reader, err := layers[0].Compressed()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = reader.Close() }()
	content, err := io.ReadAll(reader)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(content, into); err != nil {
		t.Fatal(err)
	}
}
