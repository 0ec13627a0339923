package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// writeNotes writes the notes of the release: its section of the changelog, and what was pushed.
func writeNotes(o options, images []artifact, chart artifact) error {
	changelog, err := os.ReadFile(filepath.Join(o.root, "CHANGELOG.md"))
	if err != nil {
		return fmt.Errorf("reading the changelog: %w", err)
	}
	changes, err := section(string(changelog), o.version)
	if err != nil {
		return err
	}
	var out strings.Builder
	fmt.Fprintf(&out, "# Capstan %s\n\n%s\n\n## Install\n\n```sh\nkubectl apply --server-side -f install.yaml\n"+
		"# or\nhelm install capstan oci://%s --version %s --namespace capstan-system --create-namespace\n```\n\n"+
		"## Images and chart\n\n", o.version, changes, chartRepository(o), chartVersion(o.version))
	for _, a := range append(images, chart) {
		fmt.Fprintf(&out, "- %s: `%s`\n", a.name, a.reference)
	}
	fmt.Fprintf(&out, "\nImages are for %s. Each has an SBOM (SPDX), and, like the chart, a statement of its provenance "+
		"(SLSA) as a referrer. Neither is signed by `make release`.\n", strings.Join(o.platforms, " and "))
	return os.WriteFile(filepath.Join(o.out, "notes.md"), []byte(out.String()), 0o644)
}

// section returns the changes of a version. Those of a version that has not been given a section yet are Unreleased.
func section(changelog, version string) (string, error) {
	for _, title := range []string{"## [" + strings.TrimPrefix(version, "v") + "]", "## [Unreleased]"} {
		_, rest, found := strings.Cut(changelog, "\n"+title)
		if !found {
			continue
		}
		_, rest, _ = strings.Cut(rest, "\n")
		changes, _, _ := strings.Cut("\n"+rest, "\n## [")
		if changes = strings.TrimSpace(changes); changes == "" {
			return "", fmt.Errorf("the section of %s in CHANGELOG.md is empty", version)
		}
		return changes, nil
	}
	return "", fmt.Errorf("CHANGELOG.md has no section of %s, and none of unreleased changes", version)
}
