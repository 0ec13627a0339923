// Command release builds everything that a release consists of, from a checkout: images for several platforms in a
// registry, with SBOMs and a statement of their provenance, the chart beside them, and a directory with install.yaml,
// the chart, the binaries of kubectl-capstan with their krew manifest, notes and checksums. It is a module of its own,
// so that ko and Helm stay out of the product's dependencies.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
)

// options say what is released, and where.
type options struct {
	// root is the repository, out the directory of the files.
	root, out string
	// registry is the host, and the path before the names of the images and of the chart.
	registry string
	// version is that of the release: v1.2.3.
	version string
	// base is the reference of the images' base, or scratch.
	base string
	// platforms are those of the images.
	platforms []string
	// downloads is the address at which the files of a release are published, for the krew manifest.
	downloads string
	// programs are the machines for which kubectl-capstan is built.
	programs []machine
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := command(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func command(ctx context.Context, args []string, progress io.Writer) error {
	o, err := parse(ctx, args)
	if err != nil {
		return err
	}
	return release(ctx, o, progress)
}

func parse(ctx context.Context, args []string) (options, error) {
	o := options{}
	flags := flag.NewFlagSet("release", flag.ContinueOnError)
	flags.StringVar(&o.root, "root", "../..", "Read the repository in this `directory`.")
	flags.StringVar(&o.out, "out", "../../bin/release", "Write the files into this `directory`, which is emptied first.")
	flags.StringVar(&o.registry, "registry", "", "Push to this registry and `path`, such as registry.example.org/capstan.")
	flags.StringVar(
		&o.version,
		"version",
		"",
		"Release this `version`, such as v1.2.3. The default is that of git's tags.",
	)
	flags.StringVar(&o.base, "base", environment("KO_DEFAULTBASEIMAGE", defaultBase),
		"Put the programs on this `image`, or, if it is scratch, beside nothing but the CA certificates of this machine.")
	platforms := flags.String("platforms", "linux/amd64,linux/arm64", "Build images for these platforms.")
	flags.StringVar(&o.downloads, "downloads", "",
		"Expect the files at this `address` in the krew manifest. The default is the release at GitHub.")
	programs := flags.String("programs", strings.Join(machineNames(), ","),
		"Build kubectl-capstan for these users' `machines`. None: no programs, and no krew manifest.")
	if err := flags.Parse(args); err != nil {
		return options{}, err
	}
	o.platforms = strings.Split(*platforms, ",")
	var err error
	if o.programs, err = machinesOf(*programs); err != nil {
		return options{}, err
	}
	if err := o.complete(ctx); err != nil {
		return options{}, err
	}
	return o, nil
}

func environment(name, byDefault string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return byDefault
}

// versionPattern is that of Semantic Versioning without build metadata, which a tag of an image cannot have.
var versionPattern = regexp.MustCompile(`^v[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?$`)

// complete checks the options, and fills in what follows from the repository.
func (o *options) complete(ctx context.Context) error {
	if o.registry == "" {
		return errors.New("no registry: make release REGISTRY=registry.example.org/capstan")
	}
	if _, err := name.NewRepository(o.registry + "/manager"); err != nil {
		return fmt.Errorf("the registry: %w", err)
	}
	var err error
	if o.root, err = filepath.Abs(o.root); err != nil {
		return err
	}
	if o.out, err = filepath.Abs(o.out); err != nil {
		return err
	}
	if o.version == "" {
		if o.version, err = describedVersion(ctx, o.root); err != nil {
			return err
		}
	}
	if !versionPattern.MatchString(o.version) {
		return fmt.Errorf("%q is not a version such as v1.2.3", o.version)
	}
	if o.downloads == "" {
		o.downloads = project + "/releases/download/" + o.version
	}
	return nil
}

// describedVersion is the version that hack/version.sh derives from git.
func describedVersion(ctx context.Context, root string) (string, error) {
	stamps, err := linkerStamps(ctx, root)
	if err != nil {
		return "", err
	}
	match := versionStamp.FindStringSubmatch(stamps)
	if match == nil {
		return "", errors.New("git does not tell the version: set VERSION=v1.2.3")
	}
	return match[1], nil
}

var versionStamp = regexp.MustCompile(`(?:^| )-X \S+/internal/version\.version=(\S+)`)

func linkerStamps(ctx context.Context, root string) (string, error) {
	stamps, err := exec.CommandContext(ctx, filepath.Join(root, "hack", "version.sh")).Output()
	if err != nil {
		return "", fmt.Errorf("reading the version of %s: %w", root, err)
	}
	return strings.TrimSpace(string(stamps)), nil
}

// release builds and pushes everything. It writes install.yaml last, so that one which is there can be installed.
func release(ctx context.Context, o options, progress io.Writer) error {
	began := time.Now()
	say := func(format string, values ...any) {
		fmt.Fprintf(progress, "==> [%3.0fs] %s\n", time.Since(began).Seconds(), fmt.Sprintf(format, values...))
	}
	if err := emptyDirectory(o.out); err != nil {
		return err
	}
	say("releasing %s to %s", o.version, o.registry)
	images, err := pushImages(ctx, o, say)
	if err != nil {
		return err
	}
	say("packaging the chart")
	chart, err := pushChart(o, images)
	if err != nil {
		return err
	}
	say("pushed %s", chart.reference)
	if err := stateProvenance(ctx, o, append(images, chart), began); err != nil {
		return err
	}
	if len(o.programs) > 0 {
		if err := buildPrograms(ctx, o, say); err != nil {
			return err
		}
	}
	if err := writeNotes(o, images, chart); err != nil {
		return err
	}
	if err := writeInstall(o, images); err != nil {
		return err
	}
	if err := writeChecksums(o.out); err != nil {
		return err
	}
	say("the files are in %s:", o.out)
	entries, err := os.ReadDir(o.out)
	if err != nil {
		return fmt.Errorf("listing the files: %w", err)
	}
	for _, entry := range entries {
		fmt.Fprintf(progress, "      %s\n", entry.Name())
	}
	fmt.Fprintf(
		progress,
		"Install them with one of:\n  kubectl apply --server-side -f %s\n  helm install capstan oci://%s "+
			"--version %s --namespace capstan-system --create-namespace\n",
		filepath.Join(o.out, "install.yaml"),
		chartRepository(o),
		chartVersion(o.version),
	)
	return nil
}

// emptyDirectory removes the files of an earlier release. A directory that has something else is left alone.
func emptyDirectory(path string) error {
	entries, err := os.ReadDir(path)
	if err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("reading %s: %w", path, err)
	}
	if len(entries) > 0 {
		if _, err := os.Stat(filepath.Join(path, checksumsFile)); err != nil {
			if _, err := os.Stat(filepath.Join(path, unfinishedFile)); err != nil {
				return fmt.Errorf("%s has files that are not those of a release: choose another directory", path)
			}
		}
		if err := os.RemoveAll(path); err != nil {
			return fmt.Errorf("removing the files of an earlier release: %w", err)
		}
	}
	if err := os.MkdirAll(path, 0o755); err != nil {
		return fmt.Errorf("making the directory of the release: %w", err)
	}
	return os.WriteFile(filepath.Join(path, unfinishedFile), nil, 0o644)
}
