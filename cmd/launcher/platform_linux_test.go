package main

import (
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/capstan-dev/capstan/internal/runtime/platform"
	"github.com/capstan-dev/capstan/internal/runtime/tool/result"
)

// Rules: SVC-04.
func TestTheLauncherIsTheProgramOfThePlatform(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, `{"metadata":{"name":"brief"},"spec":{"systemPrompt":"%s %s"}}`, r.Method, r.URL.Path)
	}))
	t.Cleanup(server.Close)
	address, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	tr := newTrial(t)
	tr.write("ca.crt", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})))
	claims := base64.RawURLEncoding.EncodeToString([]byte(`{"sub":"system:serviceaccount:team:bot"}`))
	tr.write("token", "e30."+claims+".x")
	tr.environment = []string{
		"KUBERNETES_SERVICE_HOST=" + address.Hostname(), "KUBERNETES_SERVICE_PORT=" + address.Port(),
		result.EnvTokenFile + "=" + tr.path("token"), result.EnvCAFile + "=" + tr.path("ca.crt"),
		result.EnvTool + "=" + platform.GetTool, result.EnvSession + "=own", result.EnvTurn + "=own-1",
		result.EnvIdempotencyKey + "=key",
	}
	tr.arguments = `{"kind":"agent","name":"brief"}`
	e := tr.runCommand(launcherPath, platform.Command)
	tr.want(e, result.Exited, 0, true)
	want := `{"archived":false,"created":"","kind":"agent","name":"brief","spec":{"systemPrompt":` +
		`"GET /apis/capstan.dev/v1alpha1/namespaces/team/agents/brief"},"status":{}}`
	if got := tr.result(e); got != want {
		t.Errorf("the result is %s", got)
	}

	tr = newTrial(t)
	tr.environment = []string{result.EnvTool + "=unheard_of"}
	e = tr.runCommand(launcherPath, platform.Command)
	tr.want(e, result.Exited, 1, true)
	if e.message.Stderr != "there is no tool \"unheard_of\" in the capability platform\n" {
		t.Errorf("the error is %q", e.message.Stderr)
	}
}
