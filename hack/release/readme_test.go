package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestTheFirstCommandOfREADMEIsTaken passes what make release would run to the program.
func TestTheFirstCommandOfREADMEIsTaken(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`(?m)^make (release REGISTRY=(\S+))`).FindStringSubmatch(string(readme))
	if line == nil {
		t.Fatal("README has no make release")
	}
	arguments := append([]string{"--dry-run", "--directory", "../.."}, strings.Fields(line[1])...)
	output, err := exec.CommandContext(t.Context(), "make", arguments...).Output()
	if err != nil {
		t.Fatal(err)
	}
	_, flags, found := strings.Cut(string(output), "hack/release run . ")
	flags, _, _ = strings.Cut(flags, "\n")
	if !found {
		t.Fatalf("make release runs %s", output)
	}
	var words []string
	for _, word := range strings.Fields(flags) {
		words = append(words, strings.Trim(word, `"`))
	}
	o, err := parse(t.Context(), append(words, "-version", "v0.1.0"))
	if err != nil {
		t.Fatal(err)
	}
	out, err := filepath.Abs("../../bin/release")
	if err != nil {
		t.Fatal(err)
	}
	if o.registry != line[2] || o.out != out || len(o.programs) == 0 {
		t.Errorf("the release is %+v", o)
	}
	if !strings.Contains(string(readme), "kubectl apply --server-side -f bin/release/install.yaml") {
		t.Error("README does not apply what the release writes")
	}
}
