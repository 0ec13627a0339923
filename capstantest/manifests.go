package capstantest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// fieldOwner is the field manager of applied manifests.
const fieldOwner client.FieldOwner = "capstantest"

// kustomizeGroup is that of kustomization files, which are not for a cluster.
const kustomizeGroup = "kustomize.config.k8s.io"

// Apply applies manifests in the given namespace, as `kubectl apply --server-side` does. A path is a file, or a
// directory, of which all files that end in .yaml, .yml or .json are applied, in the order of their names and not those
// of its directories. Kustomizations are left out.
func (k *Kit) Apply(ctx context.Context, namespace string, paths ...string) error {
	for _, path := range paths {
		files, err := manifestFiles(path)
		if err != nil {
			return err
		}
		for _, file := range files {
			if err := k.applyFile(ctx, namespace, file); err != nil {
				return err
			}
		}
	}
	return nil
}

// manifestFiles are the files of a path.
func manifestFiles(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("listing manifests: %w", err)
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return nil, fmt.Errorf("listing manifests: %w", err)
	}
	var files []string
	for _, entry := range entries {
		if !entry.IsDir() && slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(entry.Name())) {
			files = append(files, filepath.Join(path, entry.Name()))
		}
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("%s has no manifests", path)
	}
	return files, nil
}

func (k *Kit) applyFile(ctx context.Context, namespace, file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("reading a manifest: %w", err)
	}
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), 4096)
	for {
		object := &unstructured.Unstructured{}
		err := decoder.Decode(object)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading %s: %w", file, err)
		}
		if len(object.Object) == 0 || strings.HasPrefix(object.GetAPIVersion(), kustomizeGroup+"/") {
			continue
		}
		if err := k.applyObject(ctx, namespace, object); err != nil {
			return fmt.Errorf("applying %s %s of %s: %w", object.GetKind(), object.GetName(), file, err)
		}
	}
}

func (k *Kit) applyObject(ctx context.Context, namespace string, object *unstructured.Unstructured) error {
	namespaced, err := k.Client.IsObjectNamespaced(object)
	if err != nil {
		return err
	}
	if namespaced {
		object.SetNamespace(namespace)
	}
	return k.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), fieldOwner, client.ForceOwnership)
}
