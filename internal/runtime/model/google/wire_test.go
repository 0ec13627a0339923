package google

import (
	"net/http"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/runtime/model/provider/providertest"
)

const (
	key    = "AIzaSyAbc123_secret"
	prompt = "the very private question"
)

// stream are events as Google sends them. There is no event that ends them.
func stream(data ...string) string {
	var events strings.Builder
	for _, d := range data {
		events.WriteString("data: " + d + "\r\n\r\n")
	}
	return events.String()
}

// chunk is a chunk with parts of the response, and ended one that ends it.
func chunk(parts string) string {
	return `{"candidates": [{"content": {"parts": [` + parts + `],"role": "model"},"index": 0}],` +
		`"usageMetadata": {"promptTokenCount": 120,"totalTokenCount": 120},"modelVersion": "gemini-3-pro-001",` +
		`"responseId": "Wx9_a"}`
}

func ended(reason, parts string) string {
	return `{"candidates": [{"content": {"parts": [` + parts + `],"role": "model"},"finishReason": "` + reason +
		`","index": 0}],` +
		`"usageMetadata": {"promptTokenCount": 120,"candidatesTokenCount": 14,"thoughtsTokenCount": 20,` +
		`"cachedContentTokenCount": 100,` +
		`"totalTokenCount": 154,"promptTokensDetails": [{"modality": "TEXT","tokenCount": 120}]},` +
		`"modelVersion": "gemini-3-pro-001","responseId": "Wx9_a"}`
}

func text(text string) string {
	return `{"text": "` + text + `"}`
}

// hello is a response without anything special.
var hello = stream(chunk(text("Hel")), ended("STOP", text("lo")))

// driverOf makes a driver that calls a server.
func driverOf(t *testing.T, server *providertest.Server, o Options) model.Driver {
	t.Helper()
	o.HTTP, o.Key = server.Client(), key
	driver, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return driver
}

// ask calls a server that responds so.
func ask(t *testing.T, answer providertest.Answer) (*model.Response, error) {
	t.Helper()
	return driverOf(t, providertest.Serve(t, answer), Options{}).Generate(t.Context(), question())
}

func question() model.Request {
	return model.Request{Model: "gemini-3-pro", Messages: []event.Message{event.NewUserMessage(prompt)}}
}

func TestARequestGoesToGoogleByDefault(t *testing.T) {
	const path = "v1beta/models/gemini-3-pro:streamGenerateContent?alt=sse"
	for name, test := range map[string]struct{ base, model, want string }{
		"Google": {"", "gemini-3-pro", "https://generativelanguage.googleapis.com/" + path},
		"another server": {
			"https://models.example.org:8443/google", "gemini-3-pro", "https://models.example.org:8443/google/" + path,
		},
		"one with a line at end": {"https://models.example.org/", "gemini-3-pro", "https://models.example.org/" + path},
		"a model by its path": {
			"", "tunedModels/mine-1",
			"https://generativelanguage.googleapis.com/v1beta/tunedModels/mine-1:streamGenerateContent?alt=sse",
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := providertest.Serve(t, providertest.Answer{Body: hello})
			r := question()
			r.Model = test.model
			if _, err := driverOf(t, server, Options{BaseURL: test.base}).Generate(t.Context(), r); err != nil {
				t.Fatal(err)
			}
			seen := server.One(t)
			if seen.Method != http.MethodPost || seen.URL != test.want {
				t.Errorf("asked %s %s, want POST %s", seen.Method, seen.URL, test.want)
			}
			if got := seen.Header.Values(
				"X-Goog-Api-Key",
			); len(got) != 1 || got[0] != key ||
				seen.Header.Get("Authorization") != "" {
				t.Errorf("the keys are %q, and Authorization is %q", got, seen.Header.Get("Authorization"))
			}
			if got := seen.Header.Get("Content-Type"); got != "application/json" {
				t.Errorf("Content-Type is %q", got)
			}
		})
	}
}

func TestTheEnvironmentIsNotAsked(t *testing.T) {
	for name, value := range map[string]string{
		"GOOGLE_API_KEY":              "key-of-the-environment",
		"GEMINI_API_KEY":              "other-key-of-the-environment",
		"GOOGLE_GEMINI_BASE_URL":      "https://environment.example.org/",
		"GOOGLE_VERTEX_BASE_URL":      "https://vertex.environment.example.org/",
		"GOOGLE_GENAI_USE_VERTEXAI":   "true",
		"GOOGLE_GENAI_USE_ENTERPRISE": "true",
		"GOOGLE_CLOUD_PROJECT":        "project-of-the-environment",
		"GOOGLE_CLOUD_LOCATION":       "environment",
		"GOOGLE_CLOUD_REGION":         "environment",
		"HTTPS_PROXY":                 "http://environment.example.org:3128",
	} {
		t.Setenv(name, value)
	}
	server := providertest.Serve(t, providertest.Answer{Body: hello})
	if _, err := driverOf(t, server, Options{}).Generate(t.Context(), question()); err != nil {
		t.Fatal(err)
	}
	seen := server.One(t)
	if seen.URL != "https://generativelanguage.googleapis.com/v1beta/models/gemini-3-pro:streamGenerateContent?alt=sse" {
		t.Errorf("asked %s", seen.URL)
	}
	if seen.Header.Get("X-Goog-Api-Key") != key || strings.Contains(string(seen.Body), "environment") {
		t.Errorf("asked with the key %q:\n%s", seen.Header.Get("X-Goog-Api-Key"), seen.Body)
	}
	for name, values := range seen.Header {
		if strings.Contains(strings.Join(values, " "), "environment") {
			t.Errorf("the header %s is %q", name, values)
		}
	}
}

func TestNewRefusesWhatCannotWork(t *testing.T) {
	// The SDK would take a key from there.
	t.Setenv("GEMINI_API_KEY", "key-of-the-environment")
	wrong := "warm"
	for name, test := range map[string]struct {
		options Options
		message string
	}{
		"no client":        {Options{Key: key}, "missing HTTP client"},
		"no key":           {Options{HTTP: http.DefaultClient}, "missing API key"},
		"no address":       {Options{HTTP: http.DefaultClient, Key: key, BaseURL: "models"}, "base URL"},
		"no address again": {Options{HTTP: http.DefaultClient, Key: key, BaseURL: "https://" + key + "\x7f"}, "base URL"},
		"no temperature": {
			Options{HTTP: http.DefaultClient, Key: key, Parameters: v1alpha1.ModelParameters{Temperature: &wrong}},
			`temperature "warm"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			driver, err := New(test.options)
			if driver != nil || err == nil || !strings.Contains(err.Error(), test.message) ||
				strings.Contains(err.Error(), key) {
				t.Errorf("New = %v, %v", driver, err)
			}
		})
	}
}

func TestAModelWithAnInvalidNameIsNotRequested(t *testing.T) {
	for _, name := range []string{
		"", "../files", "a/../b", "gemini?key=x", "gemini&x", "gemini#", "gemini pro", "a%2e", "a..b", "gemini.", "/models/x",
	} {
		server := providertest.Serve(t, providertest.Answer{Body: hello})
		r := question()
		r.Model = name
		answer, err := driverOf(t, server, Options{}).Generate(t.Context(), r)
		if answer != nil || err == nil || err.Error() != "Google has no model "+name+" for this API key" ||
			len(server.Seen()) != 0 {
			t.Errorf("%q: Generate = %+v, %v after %d requests", name, answer, err, len(server.Seen()))
		}
	}
}
