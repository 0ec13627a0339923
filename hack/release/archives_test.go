//go:build e2e

package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// The archives of kubectl-capstan, for this machine or for those of INSTALL_PROGRAMS: krew's own tools accept the
// manifest and install each archive, and the program of this machine runs from its archive.
func TestArchives(t *testing.T) {
	o, err := parse(t.Context(), []string{
		"-registry", "registry.example.org/you", "-version", "v1.2.3", "-out", filepath.Join(t.TempDir(), "release"),
		"-programs", environment("INSTALL_PROGRAMS", runtime.GOOS+"/"+runtime.GOARCH),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := emptyDirectory(o.out); err != nil {
		t.Fatal(err)
	}
	if err := buildPrograms(t.Context(), o, t.Logf); err != nil {
		t.Fatal(err)
	}
	if err := writeChecksums(o.out); err != nil {
		t.Fatal(err)
	}
	check := exec.Command("sha256sum", "--check", "--strict", checksumsFile)
	check.Dir = o.out
	if output, err := check.CombinedOutput(); err != nil || strings.Count(string(output), ": OK") != len(o.programs)+1 {
		t.Errorf("the checksums: %v\n%s", err, output)
	}
	expectKrewInstalls(t, o)
	for _, m := range o.programs {
		expectArchive(t, o, m)
	}
}

// expectKrewInstalls lets krew check the manifest, and install each archive as on its machine.
func expectKrewInstalls(t *testing.T, o options) {
	t.Helper()
	tools := t.TempDir()
	build := exec.Command("go", "-C", "../checks", "build", "-o", tools,
		"sigs.k8s.io/krew/cmd/krew", "sigs.k8s.io/krew/cmd/validate-krew-manifest")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building krew: %v\n%s", err, output)
	}
	content, err := os.ReadFile(filepath.Join(o.out, "capstan.krew.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	// In krew's index a manifest has the name of the plugin.
	manifest := filepath.Join(t.TempDir(), "capstan.yaml")
	if err := os.WriteFile(manifest, content, 0o644); err != nil {
		t.Fatal(err)
	}
	validate := exec.Command(filepath.Join(tools, "validate-krew-manifest"), "-skip-install", "-manifest", manifest)
	if output, err := validate.CombinedOutput(); err != nil {
		t.Errorf("krew refuses the manifest: %v\n%s", err, output)
	}
	for _, m := range o.programs {
		root := t.TempDir()
		install := exec.Command(filepath.Join(tools, "krew"), "install", "--manifest="+manifest,
			"--archive="+filepath.Join(o.out, m.Archive(o.version)))
		install.Env = append(os.Environ(), "KREW_ROOT="+root, "KREW_OS="+m.OS, "KREW_ARCH="+m.Arch, "KREW_NO_UPGRADE_CHECK=1")
		if output, err := install.CombinedOutput(); err != nil {
			t.Errorf("krew does not install the archive of %s/%s: %v\n%s", m.OS, m.Arch, err, output)
			continue
		}
		if (m != machine{runtime.GOOS, runtime.GOARCH}) {
			continue
		}
		expectRuns(t, filepath.Join(root, "bin", cliName), o.version)
	}
}

// expectRuns checks that a program tells the version of the release.
func expectRuns(t *testing.T, program, version string) {
	t.Helper()
	output, err := exec.Command(program, "version").CombinedOutput()
	if err != nil || !strings.Contains(string(output), version) {
		t.Errorf("%s version: %v, %q, want one that names %s", program, err, output, version)
	}
}

// expectArchive checks what an archive has, against the platform in the manifest, and that the program in it is for its
// machine.
func expectArchive(t *testing.T, o options, m machine) {
	t.Helper()
	path := filepath.Join(o.out, m.Archive(o.version))
	files := unpacked(t, path)
	content, err := os.ReadFile(filepath.Join(o.out, "capstan.krew.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var manifest struct {
		Spec struct {
			Platforms []struct {
				URI, SHA256, Bin string
				Files            []struct{ From, To string }
			}
		}
	}
	if err := yaml.Unmarshal(content, &manifest); err != nil {
		t.Fatal(err)
	}
	sum, err := checksum(path)
	if err != nil {
		t.Fatal(err)
	}
	platform := manifest.Spec.Platforms[slices.Index(o.programs, m)]
	if platform.SHA256 != sum || platform.Bin != m.Binary() || len(platform.Files) != len(files) {
		t.Errorf("the manifest has %+v, the archive %s with %d files", platform, sum, len(files))
	}
	for _, file := range platform.Files {
		if _, found := files[file.From]; !found {
			t.Errorf("the archive of %s/%s lacks %s", m.OS, m.Arch, file.From)
		}
	}
	program := filepath.Join(t.TempDir(), m.Binary())
	if err := os.WriteFile(program, files[m.Binary()], 0o755); err != nil {
		t.Fatal(err)
	}
	list := exec.Command("go", "version", "-m", "-json", program)
	output, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	var build struct {
		Path     string
		Settings []struct{ Key, Value string }
	}
	if err := json.Unmarshal(output, &build); err != nil {
		t.Fatal(err)
	}
	for _, want := range []struct{ Key, Value string }{{"GOOS", m.OS}, {"GOARCH", m.Arch}, {"CGO_ENABLED", "0"}} {
		if !slices.Contains(build.Settings, want) {
			t.Errorf("the program of %s/%s is built with %+v, without %v", m.OS, m.Arch, build.Settings, want)
		}
	}
	if build.Path != module+"/"+cliPackage {
		t.Errorf("the program of %s/%s is %s", m.OS, m.Arch, build.Path)
	}
}

// unpacked returns the files of an archive by their names.
func unpacked(t *testing.T, path string) map[string][]byte {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	add := func(name string, from io.Reader) {
		if files[name], err = io.ReadAll(from); err != nil {
			t.Fatal(err)
		}
	}
	if strings.HasSuffix(path, ".zip") {
		reader, err := zip.NewReader(bytes.NewReader(content), int64(len(content)))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range reader.File {
			from, err := file.Open()
			if err != nil {
				t.Fatal(err)
			}
			add(file.Name, from)
		}
		return files
	}
	zipped, err := gzip.NewReader(bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	reader := tar.NewReader(zipped)
	for {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		add(header.Name, reader)
	}
}
