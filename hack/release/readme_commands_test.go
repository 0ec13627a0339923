//go:build e2e

package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"
)

// README's commands for a cluster of one's own, word for word but for the registry, from a clean clone. It builds a
// whole release, programs included, so that make test-install-exhaustive runs it, and make test-install does not.
func TestTheCommandsOfReadme(t *testing.T) {
	r := newReader(t)
	commands := strings.Split(strings.TrimSpace(r.block("## On a cluster of your own", "sh")), "\n")
	if len(commands) != 3 {
		t.Fatalf("README has %d commands: %q", len(commands), commands)
	}
	manifest := r.block("## A turn in twenty lines", "yaml")
	if err := os.WriteFile(filepath.Join(r.clone, "demo.yaml"), []byte(manifest), 0o644); err != nil {
		t.Fatal(err)
	}

	host := startRegistry(t)
	r.expect(
		strings.ReplaceAll(commands[0], "registry.example.org", host),
		"",
		"pushed "+host+"/you/capstan/manager@sha256:",
		"kubectl apply --server-side -f "+filepath.Join(r.clone, "bin", "release", "install.yaml"),
	)
	r.expect("go install ./cmd/kubectl-capstan", "")
	r.expect(commands[1], "", "customresourcedefinition.apiextensions.k8s.io/turns.capstan.dev serverside-applied",
		"deployment.apps/capstan-manager serverside-applied")
	const message = "Is anyone there?"
	r.expect(commands[2], message+"\n", "turn.capstan.dev/demo-1 created", "You said: "+message)

	output := r.cluster.kubectl("--namespace", r.cluster.namespace, "get", "turn", "demo-1", "-o",
		"jsonpath={.status.output}")
	if output != "You said: How many words has this sentence?" {
		t.Errorf("the first Turn responded %q", output)
	}
}

// reader is someone who follows README, with a clean clone and a namespace of their own.
type reader struct {
	t             *testing.T
	clone, readme string
	environment   []string
	cluster       *cluster
}

func newReader(t *testing.T) *reader {
	t.Helper()
	r := &reader{t: t, clone: filepath.Join(t.TempDir(), "capstan"), cluster: newCluster(t)}
	if _, err := git("clone", "--quiet", ".", r.clone); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(filepath.Join(r.clone, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	r.readme = string(content)
	r.cluster.namespace = "readme-" + strconv.FormatInt(time.Now().Unix(), 36)

	home := t.TempDir()
	kubeconfig, err := os.ReadFile(r.cluster.kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(home, "kubeconfig")
	if err := os.WriteFile(path, kubeconfig, 0o600); err != nil {
		t.Fatal(err)
	}
	r.environment = append(os.Environ(),
		"KUBECONFIG="+path, "GOBIN="+home, "BASE="+scratch,
		"PLATFORMS="+environment("INSTALL_PLATFORMS", "linux/"+runtime.GOARCH),
		"PATH="+strings.Join([]string{home, filepath.Dir(r.cluster.binary), os.Getenv("PATH")}, ":"),
	)
	r.cluster.kubectl("create", "namespace", r.cluster.namespace)
	r.expect("kubectl config set-context --current --namespace="+r.cluster.namespace, "")
	t.Cleanup(func() {
		_, _ = r.cluster.run("", "delete", "namespace", r.cluster.namespace, "--timeout=1m")
		_, _ = r.cluster.run("", "delete", "--ignore-not-found", "--timeout=2m", "-f",
			filepath.Join(r.clone, "bin", "release", "install.yaml"))
	})
	return r
}

// block returns the first block of code of a language below a heading of README.
func (r *reader) block(heading, language string) string {
	r.t.Helper()
	_, rest, found := strings.Cut(r.readme, "\n"+heading+"\n")
	_, rest, hasBlock := strings.Cut(rest, "\n```"+language+"\n")
	content, _, ends := strings.Cut(rest, "\n```\n")
	if !found || !hasBlock || !ends {
		r.t.Fatalf("README has no %s below %s", language, heading)
	}
	return content
}

// expect runs a command as a reader does, and prints how long it took.
func (r *reader) expect(command, input string, outputs ...string) {
	r.t.Helper()
	began := time.Now()
	shell := exec.CommandContext(r.t.Context(), "bash", "-c", command)
	shell.Dir, shell.Env, shell.Stdin = r.clone, r.environment, strings.NewReader(input)
	var out bytes.Buffer
	shell.Stdout, shell.Stderr = &out, &out
	err := shell.Run()
	fmt.Fprintf(os.Stderr, "--- %5.1fs  $ %s\n", time.Since(began).Seconds(), command)
	if err != nil {
		r.t.Fatalf("%s: %v\n%s", command, err, out.String())
	}
	for _, want := range outputs {
		if !strings.Contains(out.String(), want) {
			r.t.Fatalf("%s prints no %q:\n%s", command, want, out.String())
		}
	}
}
