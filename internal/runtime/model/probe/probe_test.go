package probe

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"unicode"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/testing/modelserver"
)

const key = "sk-s3cret-value"

// probed probes a Model at a server.
func probed(t *testing.T, handler http.Handler, p v1alpha1.ModelProvider, name, path string) Result {
	t.Helper()
	server := httptest.NewServer(handler)
	defer server.Close()
	m := &v1alpha1.Model{Spec: v1alpha1.ModelSpec{Provider: p, Model: name, BaseURL: server.URL + path}}
	result, err := Do(t.Context(), m, model.Access{HTTP: server.Client(), Key: key})
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(result.Message, key) || strings.ContainsFunc(result.Message, unicode.IsControl) {
		t.Errorf("the message has the API key or control characters: %q", result.Message)
	}
	return result
}

func answering(status int, body string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	})
}

func TestServersThatListTheirModelsAreProbed(t *testing.T) {
	openAI := v1alpha1.ModelProviderOpenAI
	for name, test := range map[string]struct {
		handler http.Handler
		model   string
		want    string
	}{
		"Ollama":              {modelserver.Ollama("qwen3"), "qwen3", v1alpha1.ReasonProbeSucceeded},
		"Ollama without it":   {modelserver.Ollama("qwen3"), "llama3", v1alpha1.ReasonModelNotListed},
		"vLLM":                {modelserver.VLLM(key, true, "Qwen/Qwen3"), "Qwen/Qwen3", v1alpha1.ReasonProbeSucceeded},
		"vLLM of another key": {modelserver.VLLM("other", true, "m"), "m", v1alpha1.ReasonKeyRejected},
		"a server without it": {http.NotFoundHandler(), "m", v1alpha1.ReasonProbeFailed},
		"a web page":          {answering(200, "<html>"), "m", v1alpha1.ReasonProbeFailed},
		"an error with a key": {answering(401, `{"error":{"message":"bad key `+key+`"}}`), "m", v1alpha1.ReasonKeyRejected},
		"a rate limit":        {answering(429, `{"error":{"message":"slow down"}}`), "m", v1alpha1.ReasonProbeFailed},
		"a redirect":          {http.RedirectHandler("/elsewhere", http.StatusFound), "m", v1alpha1.ReasonProbeFailed},
		"an endless list":     {answering(200, `{"data":[`+strings.Repeat(" ", 2<<20)), "m", v1alpha1.ReasonProbeFailed},
		"a long error": {
			answering(500, `{"error":"`+strings.Repeat("x", 9000)+`"}`), "m", v1alpha1.ReasonProbeFailed,
		},
		"an error with control characters": {
			answering(500, `{"error":"\u001b]0;owned\u0007"}`), "m", v1alpha1.ReasonProbeFailed,
		},
		"an error of no shape": {answering(500, `{"error":[1]}`), "m", v1alpha1.ReasonProbeFailed},
	} {
		got := probed(t, test.handler, openAI, test.model, "/v1")
		reachable := test.want == v1alpha1.ReasonProbeSucceeded || test.want == v1alpha1.ReasonModelNotListed
		if got.Reason != test.want || got.Reachable != reachable || len(got.Message) > 1024 {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if got := probed(t, answering(429, `{"error":{"message":"slow down"}}`), openAI, "m", ""); !strings.Contains(
		got.Message, "status 429 (Too Many Requests): slow down") {
		t.Errorf("the message is %q", got.Message)
	}
}

func TestEachProviderIsAskedAsItDocuments(t *testing.T) {
	for p, want := range map[v1alpha1.ModelProvider]string{
		v1alpha1.ModelProviderOpenAI:    "GET /base/models Authorization=Bearer " + key,
		v1alpha1.ModelProviderAnthropic: "GET /base/v1/models X-Api-Key=" + key,
		v1alpha1.ModelProviderGoogle:    "GET /base/v1beta/models X-Goog-Api-Key=" + key,
	} {
		var got string
		result := probed(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			got = r.Method + " " + r.URL.Path
			for _, name := range []string{"Authorization", "X-Api-Key", "X-Goog-Api-Key"} {
				if value := r.Header.Get(name); value != "" {
					got += " " + name + "=" + value
				}
			}
			fmt.Fprint(w, `{"data":[{"id":"m"}],"models":[{"name":"models/m"}]}`)
		}), p, "m", "/base")
		if got != want || result.Reason != v1alpha1.ReasonProbeSucceeded {
			t.Errorf("%s: %q, %+v", p, got, result)
		}
	}
}

func TestADatedAPIOfAzureIsAskedForTheModelsOfItsResource(t *testing.T) {
	azure := modelserver.Azure(key, "2024-10-21", "gpt-5")
	for path, want := range map[string]string{
		"/openai/deployments/gpt-5?api-version=2024-10-21": v1alpha1.ReasonProbeSucceeded,
		"/openai?api-version=2024-10-21":                   v1alpha1.ReasonProbeSucceeded,
		"/openai/deployments/gpt-5?api-version=2020-01-01": v1alpha1.ReasonProbeFailed,
		"/openai/v1": v1alpha1.ReasonProbeSucceeded,
	} {
		if got := probed(t, azure, v1alpha1.ModelProviderOpenAI, "gpt-5", path); got.Reason != want {
			t.Errorf("%s: %+v", path, got)
		}
	}
	other := modelserver.Azure("another-key", "2024-10-21", "gpt-5")
	if got := probed(t, other, v1alpha1.ModelProviderOpenAI, "gpt-5",
		"/openai?api-version=2024-10-21"); got.Reason != v1alpha1.ReasonKeyRejected {
		t.Errorf("with another key: %+v", got)
	}
}

func TestAProbeEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	}))
	defer server.Close()
	m := &v1alpha1.Model{Spec: v1alpha1.ModelSpec{Provider: v1alpha1.ModelProviderOpenAI, Model: "m", BaseURL: server.URL}}
	if _, err := Do(ctx, m, model.Access{HTTP: server.Client()}); err == nil {
		t.Error("the probe has a result")
	}
}
