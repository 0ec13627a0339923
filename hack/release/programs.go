package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"text/template"
	"time"
)

const (
	checksumsFile  = "checksums.txt"
	unfinishedFile = "UNFINISHED"
	cliPackage     = "cmd/kubectl-capstan"
	cliName        = "kubectl-capstan"
)

// machines are those for which kubectl-capstan is built.
var machines = []machine{
	{"linux", "amd64"},
	{"linux", "arm64"},
	{"darwin", "amd64"},
	{"darwin", "arm64"},
	{"windows", "amd64"},
	{"windows", "arm64"},
}

type machine struct{ OS, Arch string }

func machineNames() []string {
	var names []string
	for _, m := range machines {
		names = append(names, m.OS+"/"+m.Arch)
	}
	return names
}

// machinesOf reads a list such as linux/amd64,darwin/arm64.
func machinesOf(list string) ([]machine, error) {
	var found []machine
	for name := range strings.SplitSeq(list, ",") {
		if name == "" {
			continue
		}
		i := slices.Index(machineNames(), name)
		if i < 0 {
			return nil, fmt.Errorf("no programs for %q; there are those for %s", name, strings.Join(machineNames(), ", "))
		}
		found = append(found, machines[i])
	}
	return found, nil
}

// Binary is the name of the program in its archive.
func (m machine) Binary() string {
	if m.OS == "windows" {
		return cliName + ".exe"
	}
	return cliName
}

// Archive is the file that users download.
func (m machine) Archive(version string) string {
	ending := ".tar.gz"
	if m.OS == "windows" {
		ending = ".zip"
	}
	return fmt.Sprintf("%s_%s_%s_%s%s", cliName, version, m.OS, m.Arch, ending)
}

// buildPrograms builds kubectl-capstan for users' machines, and the manifest by which krew installs it.
func buildPrograms(ctx context.Context, o options, say func(string, ...any)) error {
	if _, err := os.Stat(filepath.Join(o.root, cliPackage)); errors.Is(err, os.ErrNotExist) {
		say("this source has no %s: no programs, and no krew manifest", cliPackage)
		return nil
	}
	stamps, err := linkerStamps(ctx, o.root)
	if err != nil {
		return err
	}
	temp, err := os.MkdirTemp("", "capstan-programs-")
	if err != nil {
		return fmt.Errorf("making a directory to build in: %w", err)
	}
	defer os.RemoveAll(temp)
	sums := map[machine]string{}
	for _, m := range o.programs {
		say("building %s for %s/%s", cliName, m.OS, m.Arch)
		binary := filepath.Join(temp, m.OS+"-"+m.Arch, m.Binary())
		command := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags",
			"-s -w "+withVersion(stamps, o.version), "-o", binary, "./"+cliPackage)
		command.Dir = o.root
		command.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+m.OS, "GOARCH="+m.Arch)
		if output, err := command.CombinedOutput(); err != nil {
			return fmt.Errorf("building %s for %s/%s: %w\n%s", cliName, m.OS, m.Arch, err, output)
		}
		archive := filepath.Join(o.out, m.Archive(o.version))
		if err := pack(archive, binary, filepath.Join(o.root, "LICENSE")); err != nil {
			return fmt.Errorf("packing %s: %w", archive, err)
		}
		if sums[m], err = checksum(archive); err != nil {
			return err
		}
	}
	return writeKrewManifest(o, sums)
}

// epoch dates every file of an archive, so that the same source gives the same archive.
var epoch = time.Unix(315532800, 0).UTC()

// pack writes an archive of files, in the format that its name tells.
func pack(archive string, files ...string) error {
	var out bytes.Buffer
	add, finish := tarWriter(&out)
	if strings.HasSuffix(archive, ".zip") {
		add, finish = zipWriter(&out)
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		mode := int64(0o644)
		if strings.HasPrefix(filepath.Base(file), cliName) {
			mode = 0o755
		}
		if err := add(filepath.Base(file), mode, content); err != nil {
			return err
		}
	}
	if err := finish(); err != nil {
		return err
	}
	return os.WriteFile(archive, out.Bytes(), 0o644)
}

type adder func(name string, mode int64, content []byte) error

func tarWriter(out *bytes.Buffer) (adder, func() error) {
	zipped := gzip.NewWriter(out)
	writer := tar.NewWriter(zipped)
	add := func(name string, mode int64, content []byte) error {
		header := &tar.Header{
			Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: int64(len(content)), ModTime: epoch,
		}
		if err := writer.WriteHeader(header); err != nil {
			return err
		}
		_, err := writer.Write(content)
		return err
	}
	return add, func() error { return errors.Join(writer.Close(), zipped.Close()) }
}

func zipWriter(out *bytes.Buffer) (adder, func() error) {
	writer := zip.NewWriter(out)
	add := func(name string, mode int64, content []byte) error {
		header := &zip.FileHeader{Name: name, Method: zip.Deflate, Modified: epoch}
		header.SetMode(os.FileMode(mode))
		file, err := writer.CreateHeader(header)
		if err != nil {
			return err
		}
		_, err = file.Write(content)
		return err
	}
	return add, writer.Close
}

func checksum(file string) (string, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("reading a file for its checksum: %w", err)
	}
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:]), nil
}

var krewManifest = template.Must(template.New("").Parse(`apiVersion: krew.googlecontainertools.github.com/v1alpha2
kind: Plugin
metadata:
  name: capstan
spec:
  version: {{ .Version }}
  homepage: {{ .Home }}
  shortDescription: Talk to agents, and watch their turns
  description: |
    Talks to agents that run as Kubernetes objects (Capstan), shows what they
    do, and decides about their tool calls.
  platforms:
{{- range .Platforms }}
  - selector:
      matchLabels:
        os: {{ .OS }}
        arch: {{ .Arch }}
    uri: {{ $.Downloads }}/{{ .Archive $.Version }}
    sha256: {{ index $.Sums . }}
    bin: {{ .Binary }}
    files:
    - from: {{ .Binary }}
      to: .
    - from: LICENSE
      to: .
{{- end }}
`))

func writeKrewManifest(o options, sums map[machine]string) error {
	var out bytes.Buffer
	err := krewManifest.Execute(&out, map[string]any{
		"Version": o.version, "Home": project, "Platforms": o.programs, "Downloads": o.downloads, "Sums": sums,
	})
	if err != nil {
		return fmt.Errorf("writing the krew manifest: %w", err)
	}
	return os.WriteFile(filepath.Join(o.out, "capstan.krew.yaml"), out.Bytes(), 0o644)
}

// writeChecksums lists the files for sha256sum --check. It marks the release as complete.
func writeChecksums(folder string) error {
	if err := os.Remove(filepath.Join(folder, unfinishedFile)); err != nil {
		return fmt.Errorf("removing the mark of an unfinished release: %w", err)
	}
	var files []string
	err := filepath.WalkDir(folder, func(path string, entry os.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("listing the files of the release: %w", err)
	}
	slices.Sort(files)
	var out strings.Builder
	for _, file := range files {
		sum, err := checksum(file)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(folder, file)
		if err != nil {
			return err
		}
		fmt.Fprintf(&out, "%s  %s\n", sum, filepath.ToSlash(relative))
	}
	return os.WriteFile(filepath.Join(folder, checksumsFile), []byte(out.String()), 0o644)
}
