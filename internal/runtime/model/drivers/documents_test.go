package drivers_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/runtime/model/drivers"
)

// document is the users' document about the drivers.
const document = "../../../../docs/models.md"

// rows returns the cells of the table in the document whose first row has these titles.
func rows(t *testing.T, titles ...string) [][]string {
	t.Helper()
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	var table [][]string
	found := false
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, "|") {
			if found {
				return table[1:] // Without the rule below the titles.
			}
			continue
		}
		var cells []string
		for cell := range strings.SplitSeq(strings.Trim(line, "|"), "|") {
			cells = append(cells, strings.TrimSpace(cell))
		}
		if found {
			table = append(table, cells)
		}
		found = found || slices.Equal(cells, titles)
	}
	t.Fatalf("no table of %s has the titles %q", document, titles)
	return nil
}

// code returns the texts in backquotes of a cell.
func code(cell string) []string {
	var texts []string
	for i, text := range strings.Split(cell, "`") {
		if i%2 == 1 {
			texts = append(texts, text)
		}
	}
	return texts
}

// recorder keeps the last request and responds to none.
type recorder struct {
	url  string
	body map[string]any
}

var errRecorded = errors.New("no provider is called")

// RoundTrip implements http.RoundTripper.
func (r *recorder) RoundTrip(request *http.Request) (*http.Response, error) {
	raw, err := io.ReadAll(request.Body)
	if err != nil {
		return nil, err
	}
	r.url, r.body = "https://"+request.URL.Host+request.URL.Path, map[string]any{}
	if err := json.NewDecoder(bytes.NewReader(raw)).Decode(&r.body); err != nil {
		return nil, fmt.Errorf("decoding the request: %w", err)
	}
	return nil, errRecorded
}

// sent returns the request that the driver of a Model makes; empty for a driver that makes none.
func sent(t *testing.T, spec v1alpha1.ModelSpec, tools ...model.ToolDefinition) recorder {
	t.Helper()
	var r recorder
	driver, err := drivers.All().Driver(
		&v1alpha1.Model{Spec: spec},
		model.Access{HTTP: &http.Client{Transport: &r}, Key: "key-of-the-test"},
	)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = driver.Generate(t.Context(), model.Request{
		Model: spec.Model, Messages: []event.Message{event.NewUserMessage("Hello")}, Tools: tools,
	})
	return r
}

// TestTheDocumentHasEveryDriver compares the providers, their addresses and their APIs.
func TestTheDocumentHasEveryDriver(t *testing.T) {
	documented := map[v1alpha1.ModelProvider]bool{}
	for _, row := range rows(t, "`provider`", "API", "default `baseURL`", "path below it") {
		provider := v1alpha1.ModelProvider(code(row[0])[0])
		documented[provider] = true
		bases, paths := code(row[2]), code(row[3])
		specs := []v1alpha1.ModelSpec{{Provider: provider, Model: "some-model"}}
		if provider == v1alpha1.ModelProviderOpenAI {
			specs = append(specs, specs[0])
			specs[0].API, specs[1].API = v1alpha1.ModelAPIResponses, v1alpha1.ModelAPIChatCompletions
		}
		if len(bases) == 0 {
			specs[0].Simulation = &v1alpha1.Simulation{Response: &v1alpha1.SimulatedResponse{Text: "Hello."}}
			if r := sent(t, specs[0]); r.url != "" {
				t.Errorf("%s calls %s, and the document names no address", provider, r.url)
			}
			continue
		}
		if len(paths) != len(specs) {
			t.Fatalf("%s has the paths %q, want %d", provider, paths, len(specs))
		}
		for i, spec := range specs {
			want, below := strings.CutSuffix(bases[0]+"/"+paths[i], "...")
			if got := sent(t, spec).url; got != want && (!below || !strings.HasPrefix(got, want)) {
				t.Errorf("%s calls %s, and the document names %s", provider, got, want)
			}
		}
	}
	for provider := range drivers.All() {
		if !documented[provider] {
			t.Errorf("the document lacks the provider %s", provider)
		}
		delete(documented, provider)
	}
	if len(documented) > 0 {
		t.Errorf("the document has providers without a driver: %v", slices.Collect(maps.Keys(documented)))
	}
}

// TestTheDocumentNamesTheDefaultAPI compares when OpenAI is called by which API.
func TestTheDocumentNamesTheDefaultAPI(t *testing.T) {
	stops := &v1alpha1.ModelParameters{StopSequences: []string{"END"}}
	for path, specs := range map[string][]v1alpha1.ModelSpec{
		"/v1/responses": {{}},
		"/v1/chat/completions": {
			{BaseURL: "https://models.example.org/v1"}, {Parameters: stops}, {API: v1alpha1.ModelAPIChatCompletions},
		},
	} {
		for _, spec := range specs {
			spec.Provider, spec.Model = v1alpha1.ModelProviderOpenAI, "gpt-5.6"
			r := sent(t, spec)
			if !strings.HasSuffix(r.url, path) {
				t.Errorf("a Model with %+v is called at %s, want %s", spec, r.url, path)
			}
			if stored := r.body["store"]; path == "/v1/responses" && stored != false {
				t.Errorf("the request has store: %v", stored)
			}
		}
	}
}

// field returns a field of the request, by its path; nil for none.
func (r recorder) field(path string) any {
	var at any = r.body
	for name := range strings.SplitSeq(path, ".") {
		object, ok := at.(map[string]any)
		if !ok {
			return nil
		}
		at = object[name]
	}
	return at
}

// effort has the fields of a request for a reasoningEffort, with their values, nil for one that is not sent.
type effort struct {
	models        []string
	api           v1alpha1.ModelAPI
	tools         bool
	none, low     map[string]any
	medium, large map[string]any
}

// efforts are the rows of the document's table of forms, by their first two cells, with what the drivers send.
var efforts = map[[2]string][]effort{
	{"`Anthropic`", "Sonnet 3.7 to 4.5, Opus 4 to 4.5, Haiku 4.5"}: {{
		models: []string{
			"claude-3-7-sonnet-20250219", "claude-sonnet-4-20250514", "claude-sonnet-4-5", "claude-opus-4-1",
			"claude-opus-4-5", "claude-haiku-4-5",
		},
		none:   map[string]any{"thinking": nil, "output_config": nil},
		low:    map[string]any{"thinking.type": "enabled", "thinking.budget_tokens": 2048.0},
		medium: map[string]any{"thinking.type": "enabled", "thinking.budget_tokens": 8192.0},
		large:  map[string]any{"thinking.type": "enabled", "thinking.budget_tokens": 16000.0},
	}},
	{"", "Sonnet 4.6, Opus 4.6 to 4.8, Sonnet 5, Opus 5"}: {
		{
			models: []string{"claude-sonnet-4-6", "claude-opus-4-6", "claude-opus-4-8"},
			none:   map[string]any{"thinking": nil, "output_config": nil},
			low:    map[string]any{"thinking.type": "adaptive", "output_config.effort": "low"},
			large:  map[string]any{"thinking.type": "adaptive", "output_config.effort": "high"},
		},
		{
			models: []string{"claude-sonnet-5", "claude-opus-5"},
			none:   map[string]any{"thinking.type": "disabled", "output_config": nil},
			medium: map[string]any{"thinking.type": "adaptive", "output_config.effort": "medium"},
		},
	},
	{"", "Opus, Sonnet and Haiku 5.5, Fable, Mythos"}: {{
		models: []string{
			"claude-opus-5-5", "claude-sonnet-5-5", "claude-haiku-5-5", "claude-fable-5-1", "claude-mythos-5",
		},
		none: map[string]any{"thinking": nil, "output_config": nil},
		low:  map[string]any{"thinking": nil, "output_config.effort": "low"},
	}},
	{"`OpenAI`", "o-series, gpt-5, gpt-5.1 to 5.6, gpt-oss"}: {{
		models: []string{"o3-mini", "o4-mini", "gpt-5", "gpt-5.1", "gpt-5.6", "gpt-oss-120b"},
		api:    v1alpha1.ModelAPIResponses, tools: true,
		low: map[string]any{"reasoning.effort": "low"}, large: map[string]any{"reasoning.effort": "high"},
	}},
	{"", "the same with `ChatCompletions`"}: {
		{
			models: []string{"o3-mini", "gpt-5", "gpt-5.1", "gpt-5.6", "gpt-oss-120b"}, api: v1alpha1.ModelAPIChatCompletions,
			low: map[string]any{"reasoning_effort": "low"}, large: map[string]any{"reasoning_effort": "high"},
		},
		{
			models: []string{"gpt-5.4", "gpt-5.5"}, api: v1alpha1.ModelAPIChatCompletions, tools: true,
			low: map[string]any{"reasoning_effort": nil}, large: map[string]any{"reasoning_effort": nil},
		},
		{
			models: []string{"gpt-5.6"}, api: v1alpha1.ModelAPIChatCompletions, tools: true,
			low: map[string]any{"reasoning_effort": "none"}, large: map[string]any{"reasoning_effort": "none"},
		},
	},
	{"`Google`", "Gemini 2.5"}: {{
		models: []string{"gemini-2.5-pro", "gemini-2.5-flash"},
		low:    map[string]any{"generationConfig.thinkingConfig.thinkingBudget": 1024.0},
		large:  map[string]any{"generationConfig.thinkingConfig.thinkingBudget": 24576.0},
	}},
	{"", "Gemini 3 to 3.x"}: {{
		models: []string{"gemini-3-pro", "gemini-3.1-pro", "gemini-3-flash"},
		low:    map[string]any{"generationConfig.thinkingConfig.thinkingLevel": "LOW"},
		large:  map[string]any{"generationConfig.thinkingConfig.thinkingLevel": "HIGH"},
	}},
}

// TestTheDocumentHasTheFormOfEveryEffort compares each row of the table with the requests of the drivers.
func TestTheDocumentHasTheFormOfEveryEffort(t *testing.T) {
	look := model.ToolDefinition{Name: "look", Description: "Looks.", InputSchema: json.RawMessage(`{"type":"object"}`)}
	documented, provider := map[[2]string]bool{}, v1alpha1.ModelProvider("")
	for _, row := range rows(t, "provider", "models", "form") {
		if named := code(row[0]); len(named) > 0 {
			provider = v1alpha1.ModelProvider(named[0])
		}
		key := [2]string{row[0], row[1]}
		documented[key] = true
		if len(efforts[key]) == 0 {
			t.Errorf("the test does not know the row %q", row)
		}
		for _, e := range efforts[key] {
			for level, want := range map[v1alpha1.ReasoningEffort]map[string]any{
				v1alpha1.ReasoningEffortNone: e.none, v1alpha1.ReasoningEffortLow: e.low,
				v1alpha1.ReasoningEffortMedium: e.medium, v1alpha1.ReasoningEffortHigh: e.large,
			} {
				for _, name := range e.models {
					spec := v1alpha1.ModelSpec{
						Provider: provider, Model: name, API: e.api,
						Parameters: &v1alpha1.ModelParameters{ReasoningEffort: level},
					}
					var tools []model.ToolDefinition
					if e.tools {
						tools = append(tools, look)
					}
					r := sent(t, spec, tools...)
					for path, value := range want {
						if got := r.field(path); got != value {
							t.Errorf("%s with effort %s is sent %s %v, want %v", name, level, path, got, value)
						}
					}
				}
			}
		}
	}
	for key := range efforts {
		if !documented[key] {
			t.Errorf("the document lacks the row %q", key)
		}
	}
}
