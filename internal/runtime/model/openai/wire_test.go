package openai

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
	key    = "sk-proj-Abc123_secret"
	prompt = "the very private question"
)

// chunks are a stream of events as OpenAI sends it, to its end.
func chunks(data ...string) string {
	return unfinished(append(data, "[DONE]")...)
}

// unfinished is a stream that has not come to its end.
func unfinished(data ...string) string {
	var stream strings.Builder
	for _, d := range data {
		stream.WriteString("data: " + d + "\n\n")
	}
	return stream.String()
}

// delta is a chunk with a piece of the response, and finish one that ends it.
func delta(piece string) string {
	return `{"id":"chatcmpl-9","object":"chat.completion.chunk","created":1760000000,"model":"gpt-5-2026",` +
		`"service_tier":"default",` +
		`"choices":[{"index":0,"delta":` + piece + `,"logprobs":null,"finish_reason":null}],"usage":null,"obfuscation":"aX"}`
}

func finish(reason string) string {
	return `{"id":"chatcmpl-9","object":"chat.completion.chunk","created":1760000000,"model":"gpt-5-2026",` +
		`"choices":[{"index":0,"delta":{},"finish_reason":"` + reason + `"}],"usage":null}`
}

const usage = `{"id":"chatcmpl-9","object":"chat.completion.chunk","created":1760000000,"model":"gpt-5-2026",` +
	`"choices":[],` +
	`"usage":{"prompt_tokens":120,"completion_tokens":34,"total_tokens":154,` +
	`"prompt_tokens_details":{"cached_tokens":100,"cache_write_tokens":15},` +
	`"completion_tokens_details":{"reasoning_tokens":20}}}`

// hello is a response without anything special.
var hello = chunks(
	delta(`{"role":"assistant","content":""}`),
	delta(`{"content":"Hel"}`),
	delta(`{"content":"lo"}`),
	finish("stop"),
	usage,
)

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
	return model.Request{Model: "gpt-5", Messages: []event.Message{event.NewUserMessage(prompt)}}
}

func TestARequestGoesToOpenAIByDefault(t *testing.T) {
	for name, test := range map[string]struct{ base, want string }{
		"OpenAI":         {"", "https://api.openai.com/v1/chat/completions"},
		"another server": {"https://models.example.org/v1", "https://models.example.org/v1/chat/completions"},
		"one with a line at end": {
			"https://models.example.org:8443/openai/", "https://models.example.org:8443/openai/chat/completions",
		},
		"one without a path": {"https://models.example.org", "https://models.example.org/chat/completions"},
	} {
		t.Run(name, func(t *testing.T) {
			server := providertest.Serve(t, providertest.Answer{Body: hello})
			if _, err := driverOf(t, server, Options{BaseURL: test.base}).Generate(t.Context(), question()); err != nil {
				t.Fatal(err)
			}
			seen := server.One(t)
			if seen.Method != http.MethodPost || seen.URL != test.want {
				t.Errorf("asked %s %s, want POST %s", seen.Method, seen.URL, test.want)
			}
			if got := seen.Header.Get("Authorization"); got != "Bearer "+key {
				t.Errorf("Authorization is %q", got)
			}
			if got := seen.Header.Get("Content-Type"); got != "application/json" {
				t.Errorf("Content-Type is %q", got)
			}
		})
	}
}

func TestTheEnvironmentIsNotAsked(t *testing.T) {
	for name, value := range map[string]string{
		"OPENAI_API_KEY":        "sk-of-the-environment",
		"OPENAI_ADMIN_KEY":      "sk-admin-of-the-environment",
		"OPENAI_BASE_URL":       "https://environment.example.org/v1",
		"OPENAI_ORG_ID":         "org-of-the-environment",
		"OPENAI_PROJECT_ID":     "project-of-the-environment",
		"OPENAI_CUSTOM_HEADERS": "X-Of: the-environment",
		"OPENAI_WEBHOOK_SECRET": "secret-of-the-environment",
		"HTTPS_PROXY":           "http://environment.example.org:3128",
	} {
		t.Setenv(name, value)
	}
	server := providertest.Serve(t, providertest.Answer{Body: hello})
	if _, err := driverOf(t, server, Options{}).Generate(t.Context(), question()); err != nil {
		t.Fatal(err)
	}
	seen := server.One(t)
	if !strings.HasPrefix(seen.URL, "https://api.openai.com/") || seen.Header.Get("Authorization") != "Bearer "+key {
		t.Errorf("asked %s with %q", seen.URL, seen.Header.Get("Authorization"))
	}
	for name, values := range seen.Header {
		if strings.Contains(strings.Join(values, " "), "environment") {
			t.Errorf("the header %s is %q", name, values)
		}
	}
}

func TestNewRefusesWhatCannotWork(t *testing.T) {
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
		"no top p": {
			Options{HTTP: http.DefaultClient, Key: key, Parameters: v1alpha1.ModelParameters{TopP: &wrong}}, `topP "warm"`,
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
