package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/capstan-dev/capstan/hack/cluster/image"
)

// projectImage is one image made of one of the project's own programs.
type projectImage struct {
	// name selects it on the command line.
	name, tag string
	// pkg is the package in the repository that is built, path where its binary is in the image.
	pkg, path string
	// stamped programs know their version. The others stay the same from commit to commit.
	stamped bool
}

// projectImages are all images of the project: a new one is a new line.
var projectImages = []projectImage{
	{name: "manager", tag: "capstan.dev/manager:dev", pkg: "./cmd/manager", path: "/ko-app/manager", stamped: true},
	{name: "launcher", tag: "capstan.dev/launcher:dev", pkg: "./cmd/launcher", path: "/ko-app/launcher"},
	{name: "toolbox", tag: "capstan.dev/toolbox:dev", pkg: "./hack/toolbox", path: "/toolbox"},
	{name: "mcpserver", tag: "capstan.dev/mcpserver:dev", pkg: "./test/mcpserver", path: "/mcpserver"},
}

func selectImages(names []string) ([]projectImage, error) {
	if len(names) == 0 {
		return projectImages, nil
	}
	var selected []projectImage
	for _, name := range names {
		i := slices.IndexFunc(projectImages, func(p projectImage) bool { return p.name == name })
		if i < 0 {
			var known []string
			for _, p := range projectImages {
				known = append(known, p.name)
			}
			return nil, fmt.Errorf("image %q is not known; there are %s", name, strings.Join(known, ", "))
		}
		selected = append(selected, projectImages[i])
	}
	return selected, nil
}

// buildImages builds the binaries from the repository and writes one tarball an image into out.
func buildImages(ctx context.Context, progress io.Writer, root, out string, wanted []projectImage) ([]string, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	temp, err := os.MkdirTemp("", "capstan-images-")
	if err != nil {
		return nil, fmt.Errorf("making a directory to build in: %w", err)
	}
	defer os.RemoveAll(temp)
	var tarballs []string
	for _, p := range wanted {
		flags, err := p.linkFlags(ctx, root)
		if err != nil {
			return nil, err
		}
		binary := filepath.Join(temp, p.name)
		err = runGo(ctx, progress, root, []string{"CGO_ENABLED=0", "GOOS=linux", "GOARCH=" + runtime.GOARCH},
			"build", "-trimpath", "-buildvcs=false", "-ldflags", flags, "-o", binary, p.pkg)
		if err != nil {
			return nil, fmt.Errorf("building %s for image %s: %w", p.pkg, p.tag, err)
		}
		file := filepath.Join(out, p.name+".tar")
		if err := writeImage(file, p.tag, binary, p.path); err != nil {
			return nil, err
		}
		fmt.Fprintf(progress, "image %s: %s\n", p.tag, file)
		tarballs = append(tarballs, file)
	}
	return tarballs, nil
}

// linkFlags are the linker flags of an image's program.
func (p projectImage) linkFlags(ctx context.Context, root string) (string, error) {
	if !p.stamped {
		return stripped, nil
	}
	stamps, err := exec.CommandContext(ctx, filepath.Join(root, "hack", "version.sh")).Output()
	if err != nil {
		return "", fmt.Errorf("reading the version of %s: %w", root, err)
	}
	return strings.TrimSpace(stripped + " " + string(stamps)), nil
}

// writeImage writes the tarball of an image that holds one binary and runs it.
func writeImage(file, tag, binary, target string) error {
	return image.Write(file, image.Spec{
		Tag:        tag,
		OS:         "linux",
		Arch:       runtime.GOARCH,
		Entrypoint: []string{target},
		Files:      []image.File{{Source: binary, Target: target}},
	})
}

// load imports image tarballs into the cluster's node.
func (c *cluster) load(ctx context.Context, progress io.Writer, tarballs []string) error {
	for _, file := range tarballs {
		if err := c.ctr(ctx, io.Discard, "images", "import", file); err != nil {
			return fmt.Errorf("loading %s: %w", file, err)
		}
		fmt.Fprintf(progress, "loaded %s into cluster %s\n", file, c.Name)
	}
	return nil
}
