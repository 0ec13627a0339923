// Package demo_test tests what make demo decides before it changes anything: which cluster it uses, what it prints
// about it, and whether it asks.
package demo_test

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// decide runs functions of hack/lib.sh with a PATH that has a kubectl, but neither kind nor Docker, and returns what
// they print and the exit code.
func decide(t *testing.T, script string, environment ...string) (string, int) {
	t.Helper()
	folder := t.TempDir()
	for name, content := range map[string]string{
		"kubectl": "#!/bin/sh\n[ \"$1 $2\" = 'config current-context' ] && echo production || echo \"kubectl $*\" >&2\n",
		"go":      "#!/bin/sh\necho " + folder + "/programs\n",
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	command := exec.Command("/bin/bash", "-c", "set -euo pipefail; source ../lib.sh; "+script)
	command.Env = append([]string{"PATH=" + folder + ":/usr/bin:/bin", "HOME=" + folder}, environment...)
	command.Stdin = strings.NewReader("y\n")
	output, err := command.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return string(output), command.ProcessState.ExitCode()
}

const untilItStarts = "choose_cluster; announce_demo; confirm_cluster; echo started $cluster_type"

func TestAClusterOfTheDemosOwnNeedsNoQuestion(t *testing.T) {
	output, code := decide(t, untilItStarts)
	if code != 0 || !strings.Contains(output, "started local") {
		t.Errorf("exit code %d, output\n%s", code, output)
	}
	for _, want := range []string{"about 10 minutes", "make demo-down", "/.cache/capstan"} {
		if !strings.Contains(output, want) {
			t.Errorf("the announcement lacks %q:\n%s", want, output)
		}
	}
}

func TestProgramsThatExistMakeItShort(t *testing.T) {
	output, _ := decide(
		t,
		`mkdir -p $HOME/programs; printf '' >$HOME/programs/ctr; chmod +x $HOME/programs/ctr; `+untilItStarts,
	)
	if !strings.Contains(output, "about a minute; the programs") || strings.Contains(output, "10 minutes") {
		t.Errorf("the announcement is\n%s", output)
	}
}

func TestTheCacheFollowsTheVariable(t *testing.T) {
	if output, _ := decide(
		t,
		untilItStarts,
		"XDG_CACHE_HOME=/elsewhere",
	); !strings.Contains(
		output,
		"/elsewhere/capstan",
	) {
		t.Errorf("the announcement is\n%s", output)
	}
}

func TestAClusterThatWasFoundIsNotUsedWithoutATerminal(t *testing.T) {
	output, code := decide(t, untilItStarts, "KUBECONFIG=/etc/production.yaml")
	if code == 0 || strings.Contains(output, "started") {
		t.Errorf("the demo begins without a question:\n%s", output)
	}
	for _, want := range []string{"/etc/production.yaml", "context production", "DEMO_YES=1", "unset KUBECONFIG"} {
		if !strings.Contains(output, want) {
			t.Errorf("the refusal lacks %q:\n%s", want, output)
		}
	}
	if strings.Contains(output, "kubectl apply") {
		t.Errorf("the cluster was changed:\n%s", output)
	}
}

func TestAVariableAnswersTheQuestion(t *testing.T) {
	output, code := decide(t, untilItStarts, "KUBECONFIG=/etc/production.yaml", "DEMO_YES=1")
	if code != 0 || !strings.Contains(output, "started existing") {
		t.Errorf("exit code %d, output\n%s", code, output)
	}
}

func TestOnATerminalTheUserDecides(t *testing.T) {
	for reply, started := range map[string]bool{"y": true, "yes": true, "n": false, "": false, "perhaps": false} {
		t.Run("reply "+reply, func(t *testing.T) {
			// script gives the functions a terminal.
			inner := `KUBECONFIG=/etc/production.yaml bash -c "set -euo pipefail; source ../lib.sh; ` +
				strings.ReplaceAll(untilItStarts, "$", `\$`) + `"`
			output, code := onTerminal(t, inner, reply+"\n")
			if strings.Contains(output, "started existing") != started || (code == 0) != started {
				t.Errorf("exit code %d, output\n%s", code, output)
			}
			if !strings.Contains(output, "context production") {
				t.Errorf("the question does not name the context:\n%s", output)
			}
		})
	}
}

// onTerminal runs a command on a terminal of its own, with what the user types.
func onTerminal(t *testing.T, command, typed string) (string, int) {
	t.Helper()
	folder := t.TempDir()
	kubectl := "#!/bin/sh\n[ \"$1 $2\" = 'config current-context' ] && echo production\n"
	if err := os.WriteFile(filepath.Join(folder, "kubectl"), []byte(kubectl), 0o755); err != nil {
		t.Fatal(err)
	}
	run := exec.Command("script", "--quiet", "--return", "--command", command, "/dev/null")
	run.Env = []string{"PATH=" + folder + ":/usr/bin:/bin", "HOME=" + folder, "SHELL=/bin/bash"}
	input, err := run.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.WriteString(input, typed) }()
	output, err := run.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return string(output), run.ProcessState.ExitCode()
}

func TestRemovingAsksToo(t *testing.T) {
	output, code := decide(t, `choose_cluster; confirm_cluster "remove Capstan and every conversation from"; echo removed`,
		"KUBECONFIG=/etc/production.yaml")
	if code == 0 || strings.Contains(output, "removed") {
		t.Errorf("the demo is removed without a question:\n%s", output)
	}
}

// TestTheDemoEndsWithAChat runs the function with a kubectl that prints what it was asked, and looks for it at the end
// of the script.
func TestTheDemoEndsWithAChat(t *testing.T) {
	output, code := decide(t, `kubectl() { echo "kubectl $* with $PATH"; cat; }
		kubectl_bin=kubectl plugin_folder=/plugins; chat shop demo 'Hello there'`)
	for _, want := range []string{"$ kubectl capstan -n shop chat demo", "Hello there", "with /plugins:"} {
		if code != 0 || !strings.Contains(output, want) {
			t.Errorf("exit code %d, without %q:\n%s", code, want, output)
		}
	}
	script, err := os.ReadFile("../demo.sh")
	if err != nil {
		t.Fatal(err)
	}
	if _, end, found := strings.Cut(string(script), "the response:"); !found || !strings.Contains(end, "\nchat ") {
		t.Error("the demo does not end with a chat")
	}
}
