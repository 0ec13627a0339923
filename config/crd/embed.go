// Package crd carries the CustomResourceDefinitions of Capstan inside the binary, so that tests and tools can install
// them without knowing where the source tree is. The manifests in bases/ are generated from the types of api/v1alpha1.
package crd

import (
	"embed"
	"fmt"
	"io/fs"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

//go:embed bases/*.yaml
var bases embed.FS

// Manifests returns the CustomResourceDefinitions as YAML, by file name.
func Manifests() (map[string][]byte, error) {
	files, err := fs.Glob(bases, "bases/*.yaml")
	if err != nil {
		return nil, fmt.Errorf("listing the embedded CustomResourceDefinitions: %w", err)
	}
	manifests := make(map[string][]byte, len(files))
	for _, file := range files {
		content, err := bases.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("reading the embedded file %s: %w", file, err)
		}
		manifests[file] = content
	}
	return manifests, nil
}

// Definitions returns every CustomResourceDefinition of group capstan.dev, in the order of their file names. Each call
// returns new objects, which the caller may change.
func Definitions() ([]*apiextensionsv1.CustomResourceDefinition, error) {
	files, err := fs.Glob(bases, "bases/*.yaml")
	if err != nil {
		return nil, fmt.Errorf("listing the embedded CustomResourceDefinitions: %w", err)
	}
	definitions := make([]*apiextensionsv1.CustomResourceDefinition, 0, len(files))
	for _, file := range files {
		content, err := bases.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("reading the embedded file %s: %w", file, err)
		}
		definition := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(content, definition); err != nil {
			return nil, fmt.Errorf("parsing the embedded file %s: %w", file, err)
		}
		definitions = append(definitions, definition)
	}
	return definitions, nil
}
