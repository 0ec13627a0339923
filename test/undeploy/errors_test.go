package undeploy_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// failing is a kubectl for a cluster in which a Turn runs. It notes its arguments, and one request fails, as it does
// when the API server does not respond for a moment.
const failing = `#!/usr/bin/env bash
echo "$*" >>"$CALLS"
if [ "$(wc -l <"$CALLS")" -eq "$FAILS" ]; then
  echo "Unable to connect to the server: context deadline exceeded" >&2
  exit 1
fi
case "$*" in
*customresourcedefinitions/*) echo customresourcedefinition.apiextensions.k8s.io/sessions.capstan.dev ;;
*"get sessions.capstan.dev"*go-template*) echo default demo demo-1 ;;
*"get deployment/capstan-manager"*availableReplicas*) echo 1 ;;
esac
`

// unattended is a kubectl for a cluster without a manager, in which a Session has hooks at its end.
const unattended = `#!/usr/bin/env bash
echo $* >>"$CALLS"
case "$*" in
*customresourcedefinitions/*) echo customresourcedefinition.apiextensions.k8s.io/sessions.capstan.dev ;;
*"get sessions.capstan.dev"*session-end*) echo default demo 1 ;;
esac
`

// TestWithoutAManagerSessionsAreReleased looks for the patch that removes the finalizer of a Session: no manager would,
// and the deletion of the Sessions and of their definition would hang.
func TestWithoutAManagerSessionsAreReleased(t *testing.T) {
	for _, arguments := range [][]string{{}, {"--force"}, {"--definitions-only"}} {
		t.Run(strings.Join(arguments, " "), func(t *testing.T) {
			t.Parallel()
			calls, output, err := runWith(t, unattended, 0, arguments...)
			if err != nil {
				t.Fatalf("%v\n%s", err, output)
			}
			patched, deleted := -1, -1
			for i, call := range calls {
				if strings.Contains(call, "-n default patch sessions.capstan.dev/demo --type=json") &&
					strings.Contains(call, `"remove", "path": "/metadata/finalizers/1"`) && patched < 0 {
					patched = i
				}
				if deleted < 0 && strings.Contains(call, " delete ") {
					deleted = i
				}
			}
			if patched < 0 || deleted < patched {
				t.Errorf("released by call %d, and call %d deletes:\n%s", patched, deleted, strings.Join(calls, "\n"))
			}
		})
	}
}

// runWith runs the script with a program in place of kubectl, and returns the requests that it has made.
func runWith(
	t *testing.T, program string, fails int, arguments ...string,
) (requests []string, output string, err error) {
	t.Helper()
	directory := t.TempDir()
	kubectl, calls := filepath.Join(directory, "kubectl"), filepath.Join(directory, "calls")
	if err := os.WriteFile(kubectl, []byte(program), 0o700); err != nil {
		t.Fatal(err)
	}
	script := exec.CommandContext(t.Context(), "../../hack/undeploy.sh", arguments...)
	script.Env = append(os.Environ(), "KUBECTL="+kubectl, "CALLS="+calls, "FAILS="+strconv.Itoa(fails))
	printed, err := script.CombinedOutput()
	made, readErr := os.ReadFile(calls)
	if readErr != nil {
		t.Fatal(readErr)
	}
	return strings.Split(strings.TrimSpace(string(made)), "\n"), string(printed), err
}

// requests is the number of requests that the script makes before it has looked twice for running Turns.
const requests = 24

// TestAFailedRequestEndsNoTurn lets each of the first requests of the script fail: a list that could not be read must
// not pass for one without running Turns.
func TestAFailedRequestEndsNoTurn(t *testing.T) {
	for request := 1; request <= requests; request++ {
		t.Run(strconv.Itoa(request), func(t *testing.T) {
			t.Parallel()
			lines, output, err := runWith(t, failing, request, "--wait", "2")
			if err == nil {
				t.Errorf("the script has succeeded:\n%s", output)
			}
			if len(lines) < request {
				t.Errorf("the script has made %d requests only:\n%s", len(lines), strings.Join(lines, "\n"))
			}
			for _, call := range lines {
				if strings.Contains(call, " delete ") || strings.Contains(call, " scale ") {
					t.Errorf("removed while a Turn runs: kubectl %s\n%s", call, output)
				}
			}
		})
	}
}
