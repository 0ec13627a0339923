// Package image builds container images from static binaries without a container engine or a registry: one layer on an
// empty base, written as a tarball that containerd imports.
package image

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// User is the user and group that images run as unless a pod sets others: the customary unprivileged one.
const User = "65532:65532"

// epoch dates every file and every image, so that the same binaries give the same image.
var epoch = time.Unix(0, 0).UTC()

// File is one file of an image.
type File struct {
	// Source is the file on disk.
	Source string
	// Target is its absolute path in the image. It is owned by root, executable and not writable by others.
	Target string
}

// Spec is the content of an image.
type Spec struct {
	// Tag is the image's full name, registry host and tag included.
	Tag string
	// OS and Arch are Go's names of the platform. Both are needed: an importer skips an image without them.
	OS, Arch string
	// Entrypoint is the command of a container that sets none.
	Entrypoint []string
	// Files are the image's whole content.
	Files []File
}

// Build makes the image in memory.
func Build(spec Spec) (v1.Image, error) {
	if spec.OS == "" || spec.Arch == "" || len(spec.Entrypoint) == 0 || len(spec.Files) == 0 {
		return nil, fmt.Errorf("image %s: platform, entrypoint and files are required", spec.Tag)
	}
	content, err := layer(spec.Files)
	if err != nil {
		return nil, fmt.Errorf("image %s: %w", spec.Tag, err)
	}
	packed, err := tarball.LayerFromOpener(
		func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil },
	)
	if err != nil {
		return nil, fmt.Errorf("packing the layer of image %s: %w", spec.Tag, err)
	}
	built, err := mutate.Append(empty.Image, mutate.Addendum{
		Layer:   packed,
		History: v1.History{Created: v1.Time{Time: epoch}, CreatedBy: "hack/cluster"},
	})
	if err != nil {
		return nil, fmt.Errorf("adding the layer of image %s: %w", spec.Tag, err)
	}
	config, err := built.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("reading the configuration of image %s: %w", spec.Tag, err)
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = spec.OS, spec.Arch
	config.Created = v1.Time{Time: epoch}
	config.Config = v1.Config{Entrypoint: slices.Clone(spec.Entrypoint), User: User, WorkingDir: "/"}
	return mutate.ConfigFile(built, config)
}

// Write builds the image and writes it as a tarball to file, whole or not at all.
func Write(file string, spec Spec) error {
	tag, err := name.NewTag(spec.Tag, name.StrictValidation)
	if err != nil {
		return fmt.Errorf("the name of an image: %w", err)
	}
	built, err := Build(spec)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return fmt.Errorf("making the directory of image tarballs: %w", err)
	}
	temp := file + ".writing"
	defer os.Remove(temp)
	if err := tarball.WriteToFile(temp, tag, built); err != nil {
		return fmt.Errorf("writing image %s: %w", spec.Tag, err)
	}
	return os.Rename(temp, file)
}

// layer is the tar archive of the files and of the directories above them.
func layer(files []File) ([]byte, error) {
	sorted := slices.Clone(files)
	slices.SortFunc(sorted, func(a, b File) int { return strings.Compare(a.Target, b.Target) })
	var archive bytes.Buffer
	writer := tar.NewWriter(&archive)
	made := map[string]bool{"/": true}
	for _, file := range sorted {
		if !path.IsAbs(file.Target) || path.Clean(file.Target) != file.Target || file.Target == "/" {
			return nil, fmt.Errorf("%q is not a clean absolute path", file.Target)
		}
		if made[file.Target] {
			return nil, fmt.Errorf("%q appears twice", file.Target)
		}
		made[file.Target] = true
		if err := addParents(writer, file.Target, made); err != nil {
			return nil, err
		}
		if err := addFile(writer, file); err != nil {
			return nil, err
		}
	}
	if err := writer.Close(); err != nil {
		return nil, fmt.Errorf("ending the layer: %w", err)
	}
	return archive.Bytes(), nil
}

func addParents(writer *tar.Writer, target string, made map[string]bool) error {
	var missing []string
	for dir := path.Dir(target); !made[dir]; dir = path.Dir(dir) {
		missing = append(missing, dir)
		made[dir] = true
	}
	slices.Reverse(missing)
	for _, dir := range missing {
		header := &tar.Header{Typeflag: tar.TypeDir, Name: strings.TrimPrefix(dir, "/") + "/", Mode: 0o755, ModTime: epoch}
		if err := writer.WriteHeader(header); err != nil {
			return fmt.Errorf("adding directory %s: %w", dir, err)
		}
	}
	return nil
}

func addFile(writer *tar.Writer, file File) error {
	content, err := os.ReadFile(file.Source)
	if err != nil {
		return fmt.Errorf("reading the file for %s: %w", file.Target, err)
	}
	if len(content) == 0 {
		return errors.New("the file for " + file.Target + " is empty")
	}
	header := &tar.Header{
		Typeflag: tar.TypeReg,
		Name:     strings.TrimPrefix(file.Target, "/"),
		Mode:     0o755,
		Size:     int64(len(content)),
		ModTime:  epoch,
	}
	if err := writer.WriteHeader(header); err != nil {
		return fmt.Errorf("adding %s: %w", file.Target, err)
	}
	if _, err := writer.Write(content); err != nil {
		return fmt.Errorf("adding %s: %w", file.Target, err)
	}
	return nil
}
