// Command dist makes the files for users without the source tree: dist/install.yaml, dist/schemas for kubeconform,
// and the health checks of Argo CD as a patch of its ConfigMap. A file is only written when it changes. It is a module
// of its own, so that kustomize stays out of the product's dependencies.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	root := flag.String("root", "../..", "the folder of the repository")
	flag.Parse()
	if err := run(*root, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// run updates every generated file and prints which ones it wrote.
func run(root string, progress io.Writer) error {
	files, err := generate(root)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		changed, err := replace(filepath.Join(root, name), files[name])
		if err != nil {
			return err
		}
		if changed {
			_, _ = fmt.Fprintf(progress, "    %s\n", name)
		}
	}
	return removeStale(root, files, progress)
}

// generate returns the content of every file, by its path in the repository.
func generate(root string) (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, make := range []func(root string, files map[string][]byte) error{installManifest, schemas, healthChecks} {
		if err := make(root, files); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// replace writes a file unless it has the content already.
func replace(path string, content []byte) (changed bool, err error) {
	if current, err := os.ReadFile(path); err == nil && bytes.Equal(current, content) {
		return false, nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return false, fmt.Errorf("making the folder of %s: %w", path, err)
	}
	if err := os.WriteFile(path, content, 0o644); err != nil {
		return false, fmt.Errorf("writing %s: %w", path, err)
	}
	return true, nil
}

// removeStale removes the schemas of kinds that no longer exist.
func removeStale(root string, files map[string][]byte, progress io.Writer) error {
	present, err := filepath.Glob(filepath.Join(root, schemaFolder, "*.json"))
	if err != nil {
		return fmt.Errorf("listing the schemas: %w", err)
	}
	for _, path := range present {
		name := schemaFolder + "/" + filepath.Base(path)
		if _, made := files[name]; made {
			continue
		}
		if err := os.Remove(path); err != nil {
			return fmt.Errorf("removing a schema of no kind: %w", err)
		}
		_, _ = fmt.Fprintf(progress, "    removed %s\n", name)
	}
	return nil
}

// indent puts spaces before each line that is not empty.
func indent(text, by string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if strings.TrimSpace(line) != "" {
			b.WriteString(by)
		}
		b.WriteString(line)
	}
	return b.String()
}
