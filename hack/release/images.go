package main

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/google/ko/pkg/build"
	"github.com/google/ko/pkg/publish"
)

const (
	module      = "github.com/capstan-dev/capstan"
	project     = "https://" + module
	defaultBase = "gcr.io/distroless/static:nonroot"
	scratch     = "scratch"
	// user is the user and group of images on an empty base: the customary unprivileged one.
	user = "65532:65532"
)

// artifact is something that was pushed.
type artifact struct {
	// name is what it is called in a release: manager, launcher, chart.
	name string
	// reference has the registry and the digest.
	reference name.Digest
	// base is the digest of the base of an image, or nothing.
	base string
}

// programs are those that the images hold. The launcher does not know its version, so that it stays the same from
// version to version, and nodes do not pull it again.
var programs = []struct {
	name    string
	stamped bool
}{{"manager", true}, {"launcher", false}}

// pushImages builds the images and pushes them with their SBOMs.
func pushImages(ctx context.Context, o options, say func(string, ...any)) ([]artifact, error) {
	base, err := baseImage(ctx, o)
	if err != nil {
		return nil, err
	}
	sboms := filepath.Join(o.out, "sbom")
	if err := os.MkdirAll(sboms, 0o755); err != nil {
		return nil, fmt.Errorf("making the directory of SBOMs: %w", err)
	}
	builder, err := imageBuilder(ctx, o, base, sboms)
	if err != nil {
		return nil, err
	}
	publisher, err := publish.NewDefault(o.registry,
		publish.WithAuthFromKeychain(authn.DefaultKeychain),
		publish.WithNamer(func(base, path string) string { return base + "/" + path[strings.LastIndex(path, "/")+1:] }),
		publish.WithTags([]string{o.version}),
	)
	if err != nil {
		return nil, fmt.Errorf("preparing the pushes to %s: %w", o.registry, err)
	}
	baseDigest, err := base.result.Digest()
	if err != nil {
		return nil, fmt.Errorf("reading the digest of the base %s: %w", o.base, err)
	}
	var pushed []artifact
	for _, program := range programs {
		say("building the image of the %s for %s", program.name, strings.Join(o.platforms, " and "))
		path := build.StrictScheme + module + "/cmd/" + program.name
		built, err := builder.Build(ctx, path)
		if err != nil {
			return nil, fmt.Errorf("building the image of the %s: %w", program.name, err)
		}
		if _, err := publisher.Publish(ctx, built, path); err != nil {
			return nil, fmt.Errorf("pushing the image of the %s: %w", program.name, err)
		}
		digest, err := built.Digest()
		if err != nil {
			return nil, fmt.Errorf("reading the digest of the %s: %w", program.name, err)
		}
		reference, err := name.NewDigest(o.registry + "/" + program.name + "@" + digest.String())
		if err != nil {
			return nil, fmt.Errorf("naming the image of the %s: %w", program.name, err)
		}
		say("pushed %s", reference)
		pushed = append(pushed, artifact{name: program.name, reference: reference, base: baseDigest.String()})
	}
	return pushed, nil
}

func imageBuilder(ctx context.Context, o options, base base, sboms string) (build.Interface, error) {
	stamps, err := linkerStamps(ctx, o.root)
	if err != nil {
		return nil, err
	}
	configs := map[string]build.Config{}
	for _, program := range programs {
		flags := []string{"-s", "-w"}
		if program.stamped {
			flags = append(flags, strings.Fields(withVersion(stamps, o.version))...)
		}
		configs[module+"/cmd/"+program.name] = build.Config{
			ID: program.name, Main: "./cmd/" + program.name, Ldflags: flags,
		}
	}
	builder, err := build.NewGo(ctx, o.root,
		build.WithBaseImages(func(context.Context, string) (name.Reference, build.Result, error) {
			return base.reference, base.result, nil
		}),
		build.WithPlatforms(o.platforms...),
		build.WithTrimpath(true),
		build.WithDefaultEnv([]string{"CGO_ENABLED=0"}),
		build.WithDefaultFlags([]string{"-buildvcs=false"}),
		build.WithConfig(configs),
		build.WithSPDX(o.version),
		build.WithSBOMDir(sboms),
		build.WithJobs(1),
		build.WithLabel("org.opencontainers.image.source", project),
		build.WithLabel("org.opencontainers.image.licenses", "Apache-2.0"),
	)
	if err != nil {
		return nil, fmt.Errorf("preparing the builds: %w", err)
	}
	return builder, nil
}

// withVersion puts the version of the release into the linker flags of hack/version.sh.
func withVersion(stamps, version string) string {
	stamp := "-X " + module + "/internal/version.version=" + version
	if !versionStamp.MatchString(stamps) {
		return strings.TrimSpace(stamps + " " + stamp)
	}
	return strings.TrimSpace(versionStamp.ReplaceAllString(stamps, " "+stamp))
}

// base is what the programs are put on.
type base struct {
	reference name.Reference
	result    build.Result
}

func baseImage(ctx context.Context, o options) (base, error) {
	if o.base == scratch {
		return scratchBase(o)
	}
	reference, err := name.ParseReference(o.base)
	if err != nil {
		return base{}, fmt.Errorf("the base image: %w", err)
	}
	found, err := remote.Get(reference, remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain))
	if err != nil {
		return base{}, fmt.Errorf("pulling the base image %s (BASE=scratch needs none): %w", reference, err)
	}
	if found.MediaType.IsIndex() {
		index, err := found.ImageIndex()
		return base{reference, index}, err
	}
	image, err := found.Image()
	return base{reference, image}, err
}

// certificates are where distributions have the bundle of the public CAs.
var certificates = []string{
	"/etc/ssl/certs/ca-certificates.crt",
	"/etc/pki/tls/certs/ca-bundle.crt",
	"/etc/ssl/cert.pem",
}

// scratchBase is an index of images that have the CA certificates of this machine and nothing else.
func scratchBase(o options) (base, error) {
	layer, err := certificateLayer()
	if err != nil {
		return base{}, err
	}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, text := range o.platforms {
		platform, err := v1.ParsePlatform(text)
		if err != nil {
			return base{}, fmt.Errorf("the platform %q: %w", text, err)
		}
		image, err := mutate.AppendLayers(mutate.MediaType(empty.Image, types.OCIManifestSchema1), layer)
		if err != nil {
			return base{}, fmt.Errorf("making the base for %s: %w", text, err)
		}
		config, err := image.ConfigFile()
		if err != nil {
			return base{}, fmt.Errorf("making the base for %s: %w", text, err)
		}
		config = config.DeepCopy()
		config.OS, config.Architecture, config.Variant = platform.OS, platform.Architecture, platform.Variant
		config.Config = v1.Config{User: user, WorkingDir: "/", Env: []string{"SSL_CERT_FILE=/" + certificateFile}}
		if image, err = mutate.ConfigFile(image, config); err != nil {
			return base{}, fmt.Errorf("making the base for %s: %w", text, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add:        mutate.ConfigMediaType(image, types.OCIConfigJSON),
			Descriptor: v1.Descriptor{Platform: platform},
		})
	}
	reference, err := name.ParseReference(scratch)
	return base{reference, index}, err
}

const certificateFile = "etc/ssl/certs/ca-certificates.crt"

func certificateLayer() (v1.Layer, error) {
	var bundle []byte
	for _, file := range certificates {
		content, err := os.ReadFile(file)
		if err == nil {
			bundle = content
			break
		}
	}
	if bundle == nil {
		return nil, fmt.Errorf("this machine has no CA certificates in %s: install them, or name an image with -base",
			strings.Join(certificates, ", "))
	}
	var archive bytes.Buffer
	writer := tar.NewWriter(&archive)
	header := &tar.Header{Typeflag: tar.TypeReg, Name: certificateFile, Mode: 0o444, Size: int64(len(bundle))}
	if err := writer.WriteHeader(header); err != nil {
		return nil, fmt.Errorf("packing the CA certificates: %w", err)
	}
	if _, err := writer.Write(bundle); err != nil {
		return nil, fmt.Errorf("packing the CA certificates: %w", err)
	}
	if err := writer.Close(); err != nil {
		return nil, fmt.Errorf("packing the CA certificates: %w", err)
	}
	return tarball.LayerFromOpener(
		func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(archive.Bytes())), nil },
		tarball.WithMediaType(types.OCILayer),
	)
}
