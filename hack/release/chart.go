package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"go.yaml.in/yaml/v3"
	"helm.sh/helm/v4/pkg/action"
	"helm.sh/helm/v4/pkg/registry"
)

// chartRepository is where the chart is: beside the images, in a folder of its own, because its name is the product's.
func chartRepository(o options) string { return o.registry + "/charts/capstan" }

// chartVersion is a version as Helm writes it.
func chartVersion(version string) string { return strings.TrimPrefix(version, "v") }

// pushChart packages the chart with the images of the release as its defaults, and pushes it.
func pushChart(o options, images []artifact) (artifact, error) {
	folder, err := os.MkdirTemp("", "capstan-chart-")
	if err != nil {
		return artifact{}, fmt.Errorf("making a directory for the chart: %w", err)
	}
	defer os.RemoveAll(folder)
	folder = filepath.Join(folder, "capstan")
	if err := os.CopyFS(folder, os.DirFS(filepath.Join(o.root, "charts", "capstan"))); err != nil {
		return artifact{}, fmt.Errorf("copying the chart: %w", err)
	}
	if err := setImages(filepath.Join(folder, "values.yaml"), o.registry, images); err != nil {
		return artifact{}, err
	}
	packager := action.NewPackage()
	packager.Version, packager.AppVersion, packager.Destination = chartVersion(o.version), o.version, o.out
	epoch := time.Unix(0, 0).UTC()
	packager.SourceDateEpoch = &epoch
	file, err := packager.Run(folder, nil)
	if err != nil {
		return artifact{}, fmt.Errorf("packaging the chart: %w", err)
	}
	content, err := os.ReadFile(file)
	if err != nil {
		return artifact{}, fmt.Errorf("reading the package of the chart: %w", err)
	}
	repository, err := name.NewRepository(chartRepository(o))
	if err != nil {
		return artifact{}, fmt.Errorf("naming the chart: %w", err)
	}
	client, err := helmClient(repository.Registry)
	if err != nil {
		return artifact{}, err
	}
	result, err := client.Push(content, chartRepository(o)+":"+chartVersion(o.version),
		registry.PushOptCreationTime(epoch.Format(time.RFC3339)))
	if err != nil {
		return artifact{}, fmt.Errorf("pushing the chart: %w", err)
	}
	return artifact{name: "chart", reference: repository.Digest(result.Manifest.Digest)}, nil
}

// helmClient returns a client for a registry. One on this machine, or in a private network, may speak plain HTTP, by
// the same rule as for images.
func helmClient(host name.Registry) (*registry.Client, error) {
	options := []registry.ClientOption{registry.ClientOptWriter(io.Discard)}
	if host.Scheme() == "http" {
		options = append(options, registry.ClientOptPlainHTTP())
	}
	client, err := registry.NewClient(options...)
	if err != nil {
		return nil, fmt.Errorf("preparing the push of the chart: %w", err)
	}
	return client, nil
}

// setImages puts the registry and the digests into values.yaml, and keeps its comments.
func setImages(file, registry string, images []artifact) error {
	content, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("reading the values of the chart: %w", err)
	}
	var document yaml.Node
	if err := yaml.Unmarshal(content, &document); err != nil {
		return fmt.Errorf("reading the values of the chart: %w", err)
	}
	settings := map[string]string{"image.registry": registry}
	for _, image := range images {
		settings["image."+image.name+".digest"] = image.reference.DigestStr()
	}
	for path, value := range settings {
		node, err := lookUp(document.Content[0], strings.Split(path, "."))
		if err != nil {
			return fmt.Errorf("setting %s of the chart: %w", path, err)
		}
		node.SetString(value)
	}
	var out strings.Builder
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	if err := errors.Join(encoder.Encode(&document), encoder.Close()); err != nil {
		return fmt.Errorf("writing the values of the chart: %w", err)
	}
	return os.WriteFile(file, []byte(out.String()), 0o644)
}

func lookUp(node *yaml.Node, path []string) (*yaml.Node, error) {
	if len(path) == 0 {
		return node, nil
	}
	for i := 0; i+1 < len(node.Content); i += 2 {
		if node.Content[i].Value == path[0] {
			return lookUp(node.Content[i+1], path[1:])
		}
	}
	return nil, fmt.Errorf("there is no %s", path[0])
}
