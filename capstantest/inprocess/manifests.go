package inprocess

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/apivalidation"
)

// kustomizeGroup is that of kustomization files, which are not for a cluster.
const kustomizeGroup = "kustomize.config.k8s.io/"

// readFiles reads the manifests at the top of a file system, in the order of the names of their files.
func (b *builder) readFiles(files fs.FS) error {
	entries, err := fs.ReadDir(files, ".")
	if err != nil {
		return fmt.Errorf("listing manifests: %w", err)
	}
	found := false
	for _, entry := range entries {
		if entry.IsDir() || !slices.Contains([]string{".yaml", ".yml", ".json"}, path.Ext(entry.Name())) {
			continue
		}
		found = true
		text, err := fs.ReadFile(files, entry.Name())
		if err != nil {
			return fmt.Errorf("reading a manifest: %w", err)
		}
		if err := b.readText(text); err != nil {
			return fmt.Errorf("%s: %w", entry.Name(), err)
		}
	}
	if !found {
		return errors.New("no manifests: the directory must have files that end in .yaml, .yml or .json")
	}
	return nil
}

// readText reads the documents of one file.
func (b *builder) readText(text []byte) error {
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	for number := 1; ; number++ {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("document %d: %w", number, err)
		}
		if err := b.readDocument(document); err != nil {
			return fmt.Errorf("document %d: %w", number, err)
		}
	}
}

// readDocument reads one object, strictly: an unknown field is an error, as it is for kubectl.
func (b *builder) readDocument(document []byte) error {
	var kind metav1.TypeMeta
	if err := yaml.Unmarshal(document, &kind); err != nil {
		return err
	}
	switch {
	case kind == (metav1.TypeMeta{}) && isEmpty(document), strings.HasPrefix(kind.APIVersion, kustomizeGroup):
		return nil
	case kind.APIVersion == "v1" && kind.Kind == "Secret":
		secret := &corev1.Secret{}
		if err := yaml.UnmarshalStrict(document, secret); err != nil {
			return fmt.Errorf("reading a Secret: %w", err)
		}
		return b.objects.addSecret(secret)
	case kind.APIVersion == "v1" && kind.Kind == "ConfigMap":
		found := &corev1.ConfigMap{}
		if err := yaml.UnmarshalStrict(document, found); err != nil {
			return fmt.Errorf("reading a ConfigMap: %w", err)
		}
		return b.objects.addConfigMap(found)
	case kind.APIVersion != v1alpha1.GroupVersion.String() || apivalidation.New(kind.Kind) == nil:
		return fmt.Errorf("kind %q, apiVersion %q is not supported in process: leave it out, or use capstantest, "+
			"which has an API server", kind.Kind, kind.APIVersion)
	}
	object, err := apivalidation.Decode(kind.Kind, document)
	if err != nil {
		return err
	}
	return b.objects.apply(object)
}

// isEmpty reports whether a document has nothing but comments.
func isEmpty(document []byte) bool {
	var content any
	return yaml.Unmarshal(document, &content) == nil && content == nil
}
