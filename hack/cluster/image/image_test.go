package image

import (
	"archive/tar"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

func sample(t *testing.T) Spec {
	t.Helper()
	source := filepath.Join(t.TempDir(), "tool")
	if err := os.WriteFile(source, []byte("a static binary"), 0o600); err != nil {
		t.Fatal(err)
	}
	return Spec{
		Tag:        "capstan.dev/tool:dev",
		OS:         "linux",
		Arch:       "arm64",
		Entrypoint: []string{"/tool"},
		Files:      []File{{Source: source, Target: "/usr/bin/other"}, {Source: source, Target: "/tool"}},
	}
}

func TestConfigNamesPlatformUserAndEntrypoint(t *testing.T) {
	built, err := Build(sample(t))
	if err != nil {
		t.Fatal(err)
	}
	config, err := built.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if config.OS != "linux" || config.Architecture != "arm64" {
		t.Errorf("platform is %s/%s, want linux/arm64", config.OS, config.Architecture)
	}
	if config.Config.User != "65532:65532" {
		t.Errorf("user is %q", config.Config.User)
	}
	if !slices.Equal(config.Config.Entrypoint, []string{"/tool"}) {
		t.Errorf("entrypoint is %q", config.Config.Entrypoint)
	}
	if len(config.RootFS.DiffIDs) != 1 {
		t.Errorf("%d layers, want 1", len(config.RootFS.DiffIDs))
	}
}

func TestLayerHoldsExecutableFilesBelowTheirDirectories(t *testing.T) {
	built, err := Build(sample(t))
	if err != nil {
		t.Fatal(err)
	}
	headers := layerHeaders(t, built)
	var names []string
	for _, header := range headers {
		names = append(names, header.Name)
		if header.Mode != 0o755 || header.Uid != 0 || !header.ModTime.Equal(epoch) {
			t.Errorf("%s has mode %o, owner %d and date %s", header.Name, header.Mode, header.Uid, header.ModTime)
		}
	}
	if want := []string{"tool", "usr/", "usr/bin/", "usr/bin/other"}; !slices.Equal(names, want) {
		t.Errorf("the layer holds %q, want %q", names, want)
	}
}

func layerHeaders(t *testing.T, built v1.Image) []*tar.Header {
	t.Helper()
	layers, err := built.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("%d layers, %v", len(layers), err)
	}
	content, err := layers[0].Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	defer content.Close()
	var headers []*tar.Header
	for reader := tar.NewReader(content); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return headers
		}
		if err != nil {
			t.Fatal(err)
		}
		headers = append(headers, header)
	}
}

func TestSameInputGivesSameImage(t *testing.T) {
	spec := sample(t)
	first, err := Build(spec)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(spec.Files[0].Source, epoch, epoch); err != nil {
		t.Fatal(err)
	}
	second, err := Build(spec)
	if err != nil {
		t.Fatal(err)
	}
	a, err := first.Digest()
	if err != nil {
		t.Fatal(err)
	}
	b, err := second.Digest()
	if err != nil {
		t.Fatal(err)
	}
	if a != b {
		t.Errorf("digests differ: %s and %s", a, b)
	}
}

func TestWrittenTarballCarriesTheTag(t *testing.T) {
	spec := sample(t)
	file := filepath.Join(t.TempDir(), "out", "tool.tar")
	if err := Write(file, spec); err != nil {
		t.Fatal(err)
	}
	tag, err := name.NewTag(spec.Tag)
	if err != nil {
		t.Fatal(err)
	}
	read, err := tarball.ImageFromPath(file, &tag)
	if err != nil {
		t.Fatal(err)
	}
	built, err := Build(spec)
	if err != nil {
		t.Fatal(err)
	}
	got, err := read.ConfigName()
	if err != nil {
		t.Fatal(err)
	}
	want, err := built.ConfigName()
	if err != nil {
		t.Fatal(err)
	}
	if got != want {
		t.Errorf("the tarball holds image %s, want %s", got, want)
	}
	left, err := filepath.Glob(filepath.Join(filepath.Dir(file), "*.writing"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %q, %v", left, err)
	}
}

func TestBadSpecsAreRefused(t *testing.T) {
	tests := map[string]struct {
		spoil func(*Spec)
		want  string
	}{
		"no architecture":     {func(s *Spec) { s.Arch = "" }, "platform"},
		"no operating system": {func(s *Spec) { s.OS = "" }, "platform"},
		"no entrypoint":       {func(s *Spec) { s.Entrypoint = nil }, "entrypoint"},
		"no files":            {func(s *Spec) { s.Files = nil }, "files"},
		"relative target":     {func(s *Spec) { s.Files[0].Target = "tool" }, "clean absolute path"},
		"climbing target":     {func(s *Spec) { s.Files[0].Target = "/a/../../b" }, "clean absolute path"},
		"same target twice":   {func(s *Spec) { s.Files[0].Target = s.Files[1].Target }, "twice"},
		"missing source":      {func(s *Spec) { s.Files[0].Source += "-none" }, "reading the file"},
		"tag without version": {func(s *Spec) { s.Tag = "capstan.dev/tool" }, "name of an image"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			spec := sample(t)
			test.spoil(&spec)
			err := Write(filepath.Join(t.TempDir(), "image.tar"), spec)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error is %v, want one with %q", err, test.want)
			}
		})
	}
}
