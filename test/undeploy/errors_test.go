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

// requests is the number of requests that the script makes before it has looked twice for running Turns.
const requests = 24

// TestAFailedRequestEndsNoTurn lets each of the first requests of the script fail: a list that could not be read must
// not pass for one without running Turns.
func TestAFailedRequestEndsNoTurn(t *testing.T) {
	for request := 1; request <= requests; request++ {
		t.Run(strconv.Itoa(request), func(t *testing.T) {
			t.Parallel()
			directory := t.TempDir()
			kubectl, calls := filepath.Join(directory, "kubectl"), filepath.Join(directory, "calls")
			if err := os.WriteFile(kubectl, []byte(failing), 0o700); err != nil {
				t.Fatal(err)
			}
			script := exec.CommandContext(t.Context(), "../../hack/undeploy.sh", "--wait", "2")
			script.Env = append(os.Environ(), "KUBECTL="+kubectl, "CALLS="+calls, "FAILS="+strconv.Itoa(request))
			output, err := script.CombinedOutput()
			if err == nil {
				t.Errorf("the script has succeeded:\n%s", output)
			}
			made, err := os.ReadFile(calls)
			if err != nil {
				t.Fatal(err)
			}
			lines := strings.Split(strings.TrimSpace(string(made)), "\n")
			if len(lines) < request {
				t.Errorf("the script has made %d requests only:\n%s", len(lines), made)
			}
			for _, call := range lines {
				if strings.Contains(call, " delete ") || strings.Contains(call, " scale ") {
					t.Errorf("removed while a Turn runs: kubectl %s\n%s", call, output)
				}
			}
		})
	}
}
