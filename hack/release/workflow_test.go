package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

const releaseWorkflow = "../../.github/workflows/release.yaml"

func TestActionlintAcceptsTheWorkflows(t *testing.T) {
	workflows, err := filepath.Glob("../../.github/workflows/*.y*ml")
	if err != nil || len(workflows) == 0 {
		t.Fatalf("no workflows: %v", err)
	}
	for _, path := range workflows {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if output, err := actionlint(t, content); err != nil {
			t.Errorf("%s: %v\n%s", path, err, output)
		}
		wrong := strings.Replace(string(content), "timeout-minutes:", "timeout-minute:", 1)
		if output, err := actionlint(t, []byte(wrong)); err == nil || !strings.Contains(output, "timeout-minute") {
			t.Errorf("%s with a misspelled key: %v\n%s", path, err, output)
		}
	}
}

// actionlint reads a workflow as GitHub does, without tools that this machine may have or not.
func actionlint(t *testing.T, workflow []byte) (string, error) {
	t.Helper()
	command := exec.CommandContext(t.Context(), "go", "-C", "../checks", "tool", "actionlint",
		"-no-color", "-shellcheck=", "-pyflakes=", "-")
	command.Env = append(os.Environ(), "CGO_ENABLED=0")
	command.Stdin = bytes.NewReader(workflow)
	output, err := command.CombinedOutput()
	return string(output), err
}

// The workflow releases what make release has written, and only after the tests.
func TestTheReleaseWorkflowUsesWhatMakeReleaseWrites(t *testing.T) {
	content, err := os.ReadFile(releaseWorkflow)
	if err != nil {
		t.Fatal(err)
	}
	var workflow struct {
		Permissions map[string]string
		Jobs        map[string]struct {
			Needs       string
			Permissions map[string]string
			Steps       []struct{ Run string }
		}
	}
	if err := yaml.Unmarshal(content, &workflow); err != nil {
		t.Fatal(err)
	}
	job := workflow.Jobs["release"]
	var scripts strings.Builder
	for _, step := range job.Steps {
		scripts.WriteString(step.Run + "\n")
	}
	for _, want := range []string{
		"make release", "gh release create", "--verify-tag", "--notes-file bin/release/notes.md",
	} {
		if !strings.Contains(scripts.String(), want) {
			t.Errorf("the scripts lack %q:\n%s", want, scripts.String())
		}
	}
	if job.Needs != "test" || len(workflow.Permissions) != 0 || workflow.Jobs["test"].Permissions["contents"] != "read" {
		t.Errorf("the jobs are %+v", workflow.Jobs)
	}
}
