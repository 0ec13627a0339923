package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Media types and names of the specifications of in-toto, SLSA and OCI.
const (
	statementMediaType = types.MediaType("application/vnd.in-toto+json")
	statementType      = "https://in-toto.io/Statement/v1"
	predicateType      = "https://slsa.dev/provenance/v1"
	buildType          = project + "/tree/main/hack/release"
	provenanceFile     = "provenance.intoto.json"
)

type digests map[string]string

type resource struct {
	Name   string  `json:"name,omitempty"`
	URI    string  `json:"uri,omitempty"`
	Digest digests `json:"digest,omitempty"`
}

// statement is an in-toto statement with the provenance of SLSA. Nothing here signs it: it tells how the release was
// made, and proves it only as far as the registry and the release page are trusted.
type statement struct {
	Type          string     `json:"_type"`
	Subject       []resource `json:"subject"`
	PredicateType string     `json:"predicateType"`
	Predicate     predicate  `json:"predicate"`
}

type predicate struct {
	BuildDefinition buildDefinition `json:"buildDefinition"`
	RunDetails      runDetails      `json:"runDetails"`
}

type buildDefinition struct {
	BuildType            string         `json:"buildType"`
	ExternalParameters   map[string]any `json:"externalParameters"`
	InternalParameters   map[string]any `json:"internalParameters"`
	ResolvedDependencies []resource     `json:"resolvedDependencies"`
}

type runDetails struct {
	Builder  map[string]string `json:"builder"`
	Metadata map[string]string `json:"metadata"`
}

// stateProvenance writes the statement about everything that was pushed, and attaches one to each.
func stateProvenance(ctx context.Context, o options, pushed []artifact, began time.Time) error {
	whole, err := newStatement(ctx, o, pushed, began)
	if err != nil {
		return err
	}
	content, err := json.MarshalIndent(whole, "", "  ")
	if err != nil {
		return fmt.Errorf("writing the provenance: %w", err)
	}
	if err := os.WriteFile(filepath.Join(o.out, provenanceFile), append(content, '\n'), 0o644); err != nil {
		return fmt.Errorf("writing the provenance: %w", err)
	}
	for _, subject := range whole.Subject {
		one := whole
		one.Subject = []resource{subject}
		for _, a := range pushed {
			if a.reference.Context().Name() != subject.Name {
				continue
			}
			if err := attach(ctx, a, one); err != nil {
				return fmt.Errorf("attaching the provenance to %s: %w", a.reference, err)
			}
		}
	}
	return nil
}

func newStatement(ctx context.Context, o options, pushed []artifact, began time.Time) (statement, error) {
	commit, dirty := sourceCommit(ctx, o.root)
	source := resource{URI: "git+" + project, Digest: digests{"gitCommit": commit}}
	if commit == "" {
		source.Digest = nil
	}
	dependencies := []resource{source}
	var subjects []resource
	bases := map[string]bool{}
	for _, a := range pushed {
		hash, err := v1.NewHash(a.reference.DigestStr())
		if err != nil {
			return statement{}, fmt.Errorf("reading the digest of %s: %w", a.reference, err)
		}
		subjects = append(subjects, resource{Name: a.reference.Context().Name(), Digest: digests{hash.Algorithm: hash.Hex}})
		if a.base == "" || bases[a.base] {
			continue
		}
		bases[a.base] = true
		hash, err = v1.NewHash(a.base)
		if err != nil {
			return statement{}, fmt.Errorf("reading the digest of the base: %w", err)
		}
		dependencies = append(dependencies, resource{URI: "oci://" + o.base, Digest: digests{hash.Algorithm: hash.Hex}})
	}
	return statement{
		Type: statementType, Subject: subjects, PredicateType: predicateType,
		Predicate: predicate{
			BuildDefinition: buildDefinition{
				BuildType: buildType,
				ExternalParameters: map[string]any{
					"registry": o.registry, "version": o.version, "platforms": o.platforms, "base": o.base,
				},
				InternalParameters:   map[string]any{"go": runtime.Version(), "uncommittedChanges": dirty},
				ResolvedDependencies: dependencies,
			},
			RunDetails: runDetails{
				Builder: map[string]string{"id": builderID()},
				Metadata: map[string]string{
					"startedOn": began.UTC().Format(time.RFC3339), "finishedOn": time.Now().UTC().Format(time.RFC3339),
				},
			},
		},
	}, nil
}

// builderID names who built: the run of a workflow at GitHub, or a machine that nothing is known of.
func builderID() string {
	server, repository, run := os.Getenv("GITHUB_SERVER_URL"), os.Getenv("GITHUB_REPOSITORY"), os.Getenv("GITHUB_RUN_ID")
	if server == "" || repository == "" || run == "" {
		return project + "/tree/main/hack/release#local"
	}
	return server + "/" + repository + "/actions/runs/" + run
}

func sourceCommit(ctx context.Context, root string) (commit string, dirty bool) {
	git := func(args ...string) (string, error) {
		args = append([]string{"-c", "safe.directory=" + root, "-C", root}, args...)
		out, err := exec.CommandContext(ctx, "git", args...).Output()
		return strings.TrimSpace(string(out)), err
	}
	commit, err := git("rev-parse", "HEAD")
	if err != nil {
		return "", true
	}
	changes, err := git("status", "--porcelain")
	return commit, err != nil || changes != ""
}

// attach pushes a statement as a manifest that refers to its subject, by which registries list it (OCI 1.1).
func attach(ctx context.Context, a artifact, about statement) error {
	content, err := json.Marshal(about)
	if err != nil {
		return err
	}
	auth := []remote.Option{remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain)}
	subject, err := remote.Head(a.reference, auth...)
	if err != nil {
		return fmt.Errorf("reading the subject: %w", err)
	}
	image, err := mutate.AppendLayers(
		mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), statementMediaType),
		static.NewLayer(content, statementMediaType),
	)
	if err != nil {
		return err
	}
	annotated := mutate.Annotations(image, map[string]string{"in-toto.io/predicate-type": predicateType}).(v1.Image)
	attached := mutate.Subject(annotated, *subject).(v1.Image)
	digest, err := attached.Digest()
	if err != nil {
		return err
	}
	return remote.Write(a.reference.Context().Digest(digest.String()), attached, auth...)
}
