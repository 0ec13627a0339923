package inprocess_test

import (
	"crypto/x509"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest/inprocess"
	testsite "github.com/capstan-dev/capstan/internal/testing/site"
)

// twoZones is a Session with a time zone, of an Agent with another one.
const twoZones = `
apiVersion: capstan.dev/v1alpha1
kind: Agent
metadata: {name: clock}
spec: {capabilities: [{builtin: current_time, config: {timezone: Europe/Berlin}}]}
---
apiVersion: capstan.dev/v1alpha1
kind: Session
metadata: {name: demo}
spec:
  harnessRef: {name: base}
  agentRef: {name: clock}
  capabilities: [{builtin: current_time, config: {timezone: Asia/Tokyo}}]
`

// Rules: CAP-04, CFG-03.
func TestACapabilityHasTheConfigurationOfTheLowestLayer(t *testing.T) {
	script := calling([]string{"get_current_time"})
	script.Response.Text = "{{tool:get_current_time}}"
	runtime := start(t, inprocess.WithYAML(twoZones), inprocess.WithSimulation(script))
	if turn := run(t, runtime, message("demo-1", "Go.")); !strings.Contains(turn.Status.Output, "Asia/Tokyo") {
		t.Errorf("the Turn ended as %+v", turn.Status)
	}
}

// Rules: CFG-10, INSPECT-01.
func TestACapabilityThatCannotBeUsedStopsATurn(t *testing.T) {
	runtime := start(t, inprocess.WithYAML(twoZones), inprocess.WithSimulation(calling([]string{"ask"})))
	run(t, runtime, message("demo-1", "Go."))
	found, err := runtime.LoadContext(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	found.Session.Spec.Capabilities[0].Config.Raw = []byte(`{"timezone":"Mars/Olympus"}`)
	if err := runtime.Apply(found.Session); err != nil {
		t.Fatal(err)
	}
	turn := await(t, runtime, "demo-1", func(turn *v1alpha1.Turn) bool {
		return turn.Status.Phase == v1alpha1.TurnPhaseFailed
	})
	if reason(turn) != "False DependencyUnavailable" {
		t.Errorf("the Turn ended as %+v", turn.Status)
	}
	if _, err := runtime.LoadContext(t.Context(), ""); err == nil || !strings.Contains(err.Error(), "Mars/Olympus") {
		t.Errorf("the context of the Session is loaded: %v", err)
	}
	broken, err := runtime.Inspect(t.Context(), "")
	if err != nil || broken.Problem != v1alpha1.ReasonCapabilityInvalid || len(broken.Messages) == 0 ||
		len(broken.Tools) != 4 {
		t.Errorf("the inspection shows %+v, %v", broken, err)
	}
	_, err = inprocess.New(t.Context(), inprocess.WithYAML(base),
		inprocess.WithYAML(strings.ReplaceAll(twoZones, "Asia/Tokyo", "Mars/Olympus")), inprocess.WithSimulation(calling()))
	if err == nil || !strings.Contains(err.Error(), "CapabilityInvalid") {
		t.Errorf("a runtime starts with it: %v", err)
	}
}

// Rules: CAP-01, CAP-05.
func TestAPageOfTheWebIsReadWithinTheNetworkAccessList(t *testing.T) {
	s := testsite.New(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/out" {
			http.Redirect(w, r, "/secret", http.StatusFound)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, "<h1>Home</h1>")
	})
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	for path, want := range map[string]string{"/": "# Home", "/secret": "network access list", "/out": "redirect"} {
		script := calling([]string{"web_fetch"})
		script.Response.Text = "{{tool:web_fetch}}"
		script.ToolCalls.Sequence[0].Calls[0].Arguments = &v1alpha1.JSON{Raw: []byte(`{"url":"` + s.URL + path + `"}`)}
		runtime := start(t, inprocess.WithSimulation(script), inprocess.WithEgressRoots(roots),
			inprocess.WithEgressAllow(netip.MustParsePrefix("127.0.0.0/8")), inprocess.WithYAML(`
apiVersion: capstan.dev/v1alpha1
kind: Session
metadata: {name: demo}
spec:
  harnessRef: {name: base}
  capabilities: [{builtin: web_fetch}]
  networkAccess: {blocked: ["`+s.URL+`/secret"], exemptTools: [{name: look}, {name: pay}, {name: guarded}]}
`))
		turn := run(t, runtime, message("demo-1", "Read."))
		if reason(turn) != "True EndTurn" || !strings.Contains(turn.Status.Output, want) {
			t.Errorf("%s: the Turn ended with %q, want %q", path, turn.Status.Output, want)
		}
		if offered, err := runtime.LoadContext(t.Context(), ""); err != nil || offered.Capabilities[0].Risk != "Medium" ||
			offered.Tools[len(offered.Tools)-1].Source != "web_fetch" ||
			!strings.HasPrefix(offered.SystemPrompt, "<capability id=\"web_fetch\">\nPages that web_fetch returns") ||
			!strings.Contains(offered.SystemPrompt, "</capability>\n\n<system-prompt>\nBe brief.\n</system-prompt>\n\n") {
			t.Errorf("the model is offered %+v, %v", offered, err)
		}
	}
}
