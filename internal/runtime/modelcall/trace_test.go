package modelcall

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/model"
)

func TestOnlyServicesOfTheClusterGetATraceContext(t *testing.T) {
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	var got string
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		got = r.Header.Get("Traceparent")
	}))
	defer server.Close()
	for baseURL, want := range map[string]string{
		"https://gateway.team-a.svc/v1":                  parent,
		"https://gateway.team-a.svc.cluster.local:8443/": parent,
		"https://GATEWAY.team-a.SVC.":                    parent,
		"":                                               "",
		"https://api.openai.com/v1":                      "",
		"https://svc.example.com/":                       "",
		"https://a.b.svc.example.com:443/svc/x":          "",
		"https://a.b.svc.cluster.local.example.com/":     "",
		"https://gateway.svc":                            "",
		"https://a.svc.b":                                "",
		":":                                              "",
	} {
		got = ""
		m := &v1alpha1.Model{Spec: v1alpha1.ModelSpec{BaseURL: baseURL}}
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := traced(&http.Client{Transport: http.DefaultTransport}, m, parent).Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if got != want {
			t.Errorf("%s gets %q, want %q", baseURL, got, want)
		}
		m.Spec.ServiceRef = &v1alpha1.ServiceReference{Name: "gateway"}
		if !model.InCluster(m) {
			t.Error("a Model with a serviceRef is not in the cluster")
		}
		if request.Header.Get("Traceparent") != "" {
			t.Error("the caller's request was changed")
		}
	}
}
