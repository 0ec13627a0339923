package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// placeholder is the beginning of the names of the images in config, which no registry has.
const placeholder = "capstan.dev/"

// writeInstall writes install.yaml with the images of the release.
func writeInstall(o options, images []artifact) error {
	content, err := os.ReadFile(filepath.Join(o.root, "dist", "install.yaml"))
	if err != nil {
		return fmt.Errorf("reading the manifest of the install: %w", err)
	}
	_, objects, found := bytes.Cut(content, []byte("\napiVersion: "))
	if !found {
		return errors.New("dist/install.yaml has no objects")
	}
	manifest := fmt.Sprintf("# Capstan %s: the kinds, the manager and its account.\n#\n"+
		"#   kubectl apply --server-side -f install.yaml\napiVersion: %s", o.version, objects)
	for _, image := range images {
		manifest = strings.ReplaceAll(manifest, placeholder+image.name+":dev", image.reference.String())
	}
	if err := checkImages([]byte(manifest), images); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(o.out, "install.yaml"), []byte(manifest), 0o644)
}

// checkImages fails unless the manifest names every image of the release, and no other.
func checkImages(manifest []byte, images []artifact) error {
	named, err := namedImages(manifest)
	if err != nil {
		return err
	}
	var want []string
	for _, image := range images {
		want = append(want, image.reference.String())
	}
	slices.Sort(want)
	if !slices.Equal(named, want) {
		return fmt.Errorf("the manifest names the images %v, and the release has %v", named, want)
	}
	return nil
}

// namedImages returns the images of containers, and those in arguments such as --launcher-image.
func namedImages(manifest []byte) ([]string, error) {
	found := map[string]bool{}
	decoder := yaml.NewDecoder(bytes.NewReader(manifest))
	for {
		var document map[string]any
		err := decoder.Decode(&document)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("reading the manifest: %w", err)
		}
		if document["kind"] != "CustomResourceDefinition" {
			collectImages(document, found)
		}
	}
	var images []string
	for image := range found {
		images = append(images, image)
	}
	slices.Sort(images)
	return images, nil
}

func collectImages(value any, found map[string]bool) {
	switch value := value.(type) {
	case map[string]any:
		for key, below := range value {
			if image, isText := below.(string); isText && key == "image" {
				found[image] = true
			}
			collectImages(below, found)
		}
	case []any:
		for _, below := range value {
			collectImages(below, found)
		}
	case string:
		if flag, image, isFlag := strings.Cut(value, "="); isFlag && strings.HasPrefix(flag, "--") &&
			strings.HasSuffix(flag, "-image") {
			found[image] = true
		}
	}
}
