package main

import (
	"archive/zip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"sigs.k8s.io/yaml"
)

var someDigest = "sha256:" + strings.Repeat("ab", 32)

func someImages(t *testing.T) []artifact {
	t.Helper()
	var images []artifact
	for _, program := range programs {
		reference, err := name.NewDigest("registry.example.org/you/" + program.name + "@" + someDigest)
		if err != nil {
			t.Fatal(err)
		}
		images = append(images, artifact{name: program.name, reference: reference})
	}
	return images
}

func TestOptionsAreCheckedBeforeAnythingIsBuilt(t *testing.T) {
	for name, test := range map[string]struct {
		args  []string
		names string
	}{
		"no registry":                {nil, "REGISTRY"},
		"not a registry":             {[]string{"-registry", "Registry Of Mine"}, "registry"},
		"not a version":              {[]string{"-registry", "example.org/a", "-version", "1.2"}, "v1.2.3"},
		"a version with build data":  {[]string{"-registry", "example.org/a", "-version", "v1.2.3+4"}, "v1.2.3"},
		"an option that has no name": {[]string{"-registries", "example.org/a"}, "registries"},
		"a machine without programs": {[]string{"-registry", "example.org/a", "-programs", "plan9/mips"}, "plan9/mips"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := parse(t.Context(), test.args); err == nil || !strings.Contains(err.Error(), test.names) {
				t.Errorf("error = %v, want one that names %s", err, test.names)
			}
		})
	}
}

func TestTheVersionComesFromGitUnlessItIsGiven(t *testing.T) {
	o, err := parse(t.Context(), []string{"-registry", "example.org/a"})
	if err != nil || !strings.HasPrefix(o.version, "v") {
		t.Errorf("version = %q, %v", o.version, err)
	}
	o, err = parse(t.Context(), []string{"-registry", "example.org/a", "-version", "v1.2.3-rc.1"})
	if err != nil || o.version != "v1.2.3-rc.1" || !strings.HasSuffix(o.downloads, "/v1.2.3-rc.1") {
		t.Errorf("options = %+v, %v", o, err)
	}
}

func TestTheVersionIsStamped(t *testing.T) {
	variable := "-X " + module + "/internal/version."
	for stamps, want := range map[string]string{
		variable + "version=v0.0.0-dev.1 " + variable + "commit=1": variable + "version=v1.0.0 " + variable + "commit=1",
		"": variable + "version=v1.0.0",
	} {
		if got := withVersion(stamps, "v1.0.0"); got != want {
			t.Errorf("withVersion(%q) = %q, want %q", stamps, got, want)
		}
	}
}

func TestTheInstallNamesOnlyImagesOfTheRelease(t *testing.T) {
	o := options{root: "../..", out: t.TempDir(), registry: "registry.example.org/you", version: "v1.0.0"}
	if err := writeInstall(o, someImages(t)); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(filepath.Join(o.out, "install.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	named, err := namedImages(content)
	if err != nil || len(named) != 2 {
		t.Fatalf("the manifest names %v, %v", named, err)
	}
	for _, image := range named {
		if !strings.HasPrefix(image, "registry.example.org/you/") || !strings.HasSuffix(image, "@"+someDigest) {
			t.Errorf("the manifest names %s", image)
		}
	}
	if strings.Contains(string(content), ":dev") || !strings.HasPrefix(string(content), "# Capstan v1.0.0") {
		t.Errorf("the manifest begins with %.200q, or has images of the source tree", content)
	}
}

func TestAnImageThatTheReleaseDoesNotHaveIsAnError(t *testing.T) {
	images := someImages(t)
	manifest := "spec: {image: " + images[0].reference.String() + ", args: [--launcher-image=" +
		images[1].reference.String() + "]}\n"
	if err := checkImages([]byte(manifest), images); err != nil {
		t.Error(err)
	}
	for _, more := range []string{"---\nspec: {containers: [{image: other}]}", "---\nargs: [--helper-image=other:dev]"} {
		if err := checkImages([]byte(manifest+more), images); err == nil || !strings.Contains(err.Error(), "other") {
			t.Errorf("with %q the error is %v", more, err)
		}
	}
	if err := checkImages([]byte("spec: {image: "+images[0].reference.String()+"}"), images); err == nil {
		t.Error("a manifest without the launcher is accepted")
	}
}

func TestValuesGetTheImagesAndKeepTheirComments(t *testing.T) {
	file := filepath.Join(t.TempDir(), "values.yaml")
	content, err := os.ReadFile(filepath.Join(chartFolder, "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, content, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := setImages(file, "registry.example.org/you", someImages(t)); err != nil {
		t.Fatal(err)
	}
	if content, err = os.ReadFile(file); err != nil {
		t.Fatal(err)
	}
	var values struct {
		Image struct {
			Registry          string
			Manager, Launcher struct{ Digest string }
		}
	}
	if err := yaml.Unmarshal(content, &values); err != nil {
		t.Fatal(err)
	}
	if i := values.Image; i.Registry != "registry.example.org/you" || i.Manager.Digest != someDigest ||
		i.Launcher.Digest != someDigest {
		t.Errorf("values = %+v", values)
	}
	if !strings.Contains(string(content), "# The number of managers.") {
		t.Error("the comments are gone")
	}
}

func TestNotesAreTheSectionOfTheVersion(t *testing.T) {
	const changelog = "# Changelog\n\n## [Unreleased]\n\nNew.\n\n## [1.1.0] - 2026-01-01\n\nOlder.\n\n" +
		"## [1.0.0]\n\nFirst.\n"
	for version, want := range map[string]string{"v1.1.0": "Older.", "v1.0.0": "First.", "v1.2.0": "New."} {
		if got, err := section(changelog, version); err != nil || got != want {
			t.Errorf("section(%s) = %q, %v, want %q", version, got, err, want)
		}
	}
	if _, err := section("# Changelog\n", "v1.0.0"); err == nil {
		t.Error("a changelog without sections is accepted")
	}
}

// The notes are the section of the changelog in the source tree, and name what was pushed by digest.
func TestTheNotesOfAReleaseHaveItsChangesAndImages(t *testing.T) {
	changelog, err := os.ReadFile("../../CHANGELOG.md")
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	released := strings.Replace(
		string(changelog),
		"## [Unreleased]",
		"## [Unreleased]\n\nLater.\n\n## [1.2.3] - 2026-12-01",
		1,
	)
	if err := os.WriteFile(filepath.Join(root, "CHANGELOG.md"), []byte(released), 0o644); err != nil {
		t.Fatal(err)
	}
	o := options{
		root: root, out: t.TempDir(), registry: "registry.example.org/you", version: "v1.2.3",
		platforms: []string{"linux/amd64", "linux/arm64"},
	}
	images := someImages(t)
	if err := writeNotes(o, images, artifact{name: "chart", reference: images[0].reference}); err != nil {
		t.Fatal(err)
	}
	notes, err := os.ReadFile(filepath.Join(o.out, "notes.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, changes, _ := strings.Cut(string(changelog), "## [Unreleased]")
	changes, _, _ = strings.Cut(changes, "\n## [")
	for _, want := range []string{
		"# Capstan v1.2.3\n", strings.TrimSpace(changes), images[0].reference.String(), images[1].reference.String(),
		"oci://registry.example.org/you/charts/capstan --version 1.2.3", "linux/amd64 and linux/arm64",
	} {
		if want == "" || !strings.Contains(string(notes), want) {
			t.Errorf("the notes lack %.200q", want)
		}
	}
	if strings.Contains(string(notes), "Later.") {
		t.Error("the notes have changes that the release does not have")
	}
}

func TestAReleaseWithoutChangesHasNoNotes(t *testing.T) {
	if got, err := section("# Changelog\n\n## [1.0.0]\n\n## [0.9.0]\n\nOld.\n", "v1.0.0"); err == nil {
		t.Errorf("an empty section is accepted: %q", got)
	}
}

func TestTheKrewManifestNamesEveryArchive(t *testing.T) {
	o := options{out: t.TempDir(), version: "v1.0.0", downloads: "https://example.org/v1.0.0", programs: machines}
	sums := map[machine]string{}
	for _, m := range machines {
		sums[m] = m.OS + "-" + m.Arch
	}
	if err := writeKrewManifest(o, sums); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(filepath.Join(o.out, "capstan.krew.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var manifest struct {
		Spec struct {
			Platforms []struct {
				Selector         struct{ MatchLabels map[string]string }
				URI, SHA256, Bin string
			}
		}
	}
	if err := yaml.UnmarshalStrict(content, &map[string]any{}); err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(content, &manifest); err != nil {
		t.Fatal(err)
	}
	if len(manifest.Spec.Platforms) != len(machines) {
		t.Fatalf("the manifest has %d platforms", len(manifest.Spec.Platforms))
	}
	for i, p := range manifest.Spec.Platforms {
		m := machines[i]
		if p.Selector.MatchLabels["os"] != m.OS || p.Selector.MatchLabels["arch"] != m.Arch || p.SHA256 != sums[m] ||
			p.URI != o.downloads+"/"+m.Archive(o.version) || p.Bin != m.Binary() {
			t.Errorf("platform %v has %+v", m, p)
		}
	}
}

func TestArchivesHaveTheProgramAndTheLicense(t *testing.T) {
	folder := t.TempDir()
	program := filepath.Join(folder, "kubectl-capstan.exe")
	if err := os.WriteFile(program, []byte("program"), 0o755); err != nil {
		t.Fatal(err)
	}
	archive := filepath.Join(folder, machine{"windows", "amd64"}.Archive("v1.0.0"))
	if err := pack(archive, program, "../../LICENSE"); err != nil {
		t.Fatal(err)
	}
	first, err := checksum(archive)
	if err != nil {
		t.Fatal(err)
	}
	reader, err := zip.OpenReader(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = reader.Close() }()
	if len(reader.File) != 2 || reader.File[0].Name != "kubectl-capstan.exe" || reader.File[0].Mode() != 0o755 {
		t.Errorf("the archive has %+v", reader.File)
	}
	if err := pack(archive, program, "../../LICENSE"); err != nil {
		t.Fatal(err)
	}
	if second, err := checksum(archive); err != nil || second != first {
		t.Errorf("the same files give another archive: %v", err)
	}
}

func TestOnlyTheFilesOfAReleaseAreReplaced(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "release")
	for range 2 { // an unfinished release is replaced
		if err := emptyDirectory(folder); err != nil {
			t.Fatal(err)
		}
	}
	if err := writeChecksums(folder); err != nil {
		t.Fatal(err)
	}
	if err := emptyDirectory(folder); err != nil {
		t.Errorf("a finished release is not replaced: %v", err)
	}
	other := t.TempDir()
	if err := os.WriteFile(filepath.Join(other, "thesis.txt"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := emptyDirectory(other); err == nil {
		t.Error("files that are not ours are removed")
	}
}
