//go:build e2e

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// git runs in the repository, also if that belongs to another user.
func git(args ...string) (string, error) {
	output, err := exec.Command("git", append([]string{"-c", "safe.directory=*", "-C", "../.."}, args...)...).
		CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("git %v: %w\n%s", args, err, output)
	}
	return strings.TrimSpace(string(output)), nil
}

// sourceBefore checks out the version before the present source: INSTALL_BEFORE, or the commit before.
func sourceBefore(t *testing.T) string {
	t.Helper()
	ref, err := refBefore(os.Getenv("INSTALL_BEFORE"), git)
	if err != nil {
		t.Fatal(err)
	}
	subject, err := git("log", "-1", "--format=%h %s", ref)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(os.Stderr, "--- the version before is %s (%s)\n", ref, subject)
	folder := filepath.Join(t.TempDir(), "before")
	if _, err := git("worktree", "add", "--detach", folder, ref); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := git("worktree", "remove", "--force", folder); err != nil {
			t.Error(err)
		}
	})
	return folder
}
