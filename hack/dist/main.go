// Command dist makes the files for users without the source tree: dist/install.yaml, dist/schemas for kubeconform, the
// Helm chart, and the health checks of Argo CD as a patch of its ConfigMap. A file is only written when it changes. It
// is a module of its own, so that kustomize stays out of the product's dependencies.
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
	makers := []func(root string, files map[string][]byte) error{installManifest, schemas, healthChecks, chart}
	for _, make := range makers {
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

// removeStale removes the schemas of kinds that no longer exist, and templates of the chart that are no longer made.
func removeStale(root string, files map[string][]byte, progress io.Writer) error {
	present, err := generatedFiles(root)
	if err != nil {
		return err
	}
	for _, name := range present {
		if _, made := files[name]; made {
			continue
		}
		if err := os.Remove(filepath.Join(root, name)); err != nil {
			return fmt.Errorf("removing a file that is no longer generated: %w", err)
		}
		_, _ = fmt.Fprintf(progress, "    removed %s\n", name)
	}
	return nil
}

// generatedFiles lists the files of the folders in which the files that are made differ from time to time.
func generatedFiles(root string) ([]string, error) {
	present, err := filepath.Glob(filepath.Join(root, schemaFolder, "*.json"))
	if err != nil {
		return nil, fmt.Errorf("listing the schemas: %w", err)
	}
	templates, err := filepath.Glob(filepath.Join(root, chartFolder, "templates", "*.yaml"))
	if err != nil {
		return nil, fmt.Errorf("listing the templates: %w", err)
	}
	for _, path := range templates {
		content, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("reading a template: %w", err)
		}
		if bytes.HasPrefix(content, []byte(generatedNotice)) {
			present = append(present, path)
		}
	}
	for i, path := range present {
		if present[i], err = filepath.Rel(root, path); err != nil {
			return nil, err
		}
		present[i] = filepath.ToSlash(present[i])
	}
	return present, nil
}

// indentBy puts spaces before each line that is not empty.
func indentBy(text, by string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if strings.TrimSpace(line) != "" {
			b.WriteString(by)
		}
		b.WriteString(line)
	}
	return b.String()
}
