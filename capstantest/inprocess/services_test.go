package inprocess_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest/inprocess"
	"github.com/capstan-dev/capstan/capstantest/providers"
	"github.com/capstan-dev/capstan/internal/testing/modelserver"
)

const servedModel = `
apiVersion: capstan.dev/v1alpha1
kind: Model
metadata: {name: served, annotations: {capstan.dev/is-default-model: "true"}}
spec: {provider: OpenAI, model: qwen3, serviceRef: {name: ollama, port: 11434}}
---
apiVersion: capstan.dev/v1alpha1
kind: Tool
metadata: {name: stock}
spec:
  description: Returns the stock.
  http: {serviceRef: {name: stock, port: 80, path: /v1/stock}}
---
apiVersion: capstan.dev/v1alpha1
kind: Harness
metadata: {name: served}
spec: {tools: [{name: stock}]}
---
apiVersion: capstan.dev/v1alpha1
kind: Session
metadata: {name: served}
spec: {harnessRef: {name: served}}
`

// addressOf is that of a server that ends with the test.
func addressOf(t *testing.T, handler http.Handler) netip.AddrPort {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return netip.MustParseAddrPort(server.Listener.Addr().String())
}

func TestServicesAreReachedWhereTheTestSays(t *testing.T) {
	var asked string
	stock := addressOf(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.Host + r.URL.Path
		fmt.Fprint(w, "12")
	}))
	options := []inprocess.Option{
		inprocess.WithYAML(servedModel), inprocess.WithProviders(providers.All()),
		inprocess.WithEgressAllow(netip.MustParsePrefix("127.0.0.0/8")), inprocess.WithDefaultSession("served"),
		inprocess.WithService("ollama", 11434, addressOf(t, modelserver.Ollama("qwen3"))),
	}
	turn := runWith(t, "served-1", append(options, inprocess.WithService("stock", 80, stock))...)
	if turn.Status.Output != "Good morning." || asked != "stock.default.svc:80/v1/stock" {
		t.Errorf("%q, asked %q", turn.Status.Output, asked)
	}
	asked = ""
	told := ""
	prompts := inprocess.WithPrompts(
		func(r inprocess.Request) { told = fmt.Sprintf("%+v", r.Messages[len(r.Messages)-1]) },
	)
	if turn = runWith(t, "served-2", append(options, prompts)...); turn.Status.Output != "Good morning." || asked != "" {
		t.Errorf("%q, asked %q", turn.Status.Output, asked)
	}
	if !strings.Contains(told, `Service "stock" with port 80 is not set`) {
		t.Errorf("the model is told %q", told)
	}
}

// runWith runs a Turn of the Session served.
func runWith(t *testing.T, name string, options ...inprocess.Option) *v1alpha1.Turn {
	t.Helper()
	runtime, err := inprocess.New(t.Context(), options...)
	if err != nil {
		t.Fatal(err)
	}
	turn := message(name, "Go.")
	turn.Spec.SessionRef.Name = "served"
	return run(t, runtime, turn)
}
