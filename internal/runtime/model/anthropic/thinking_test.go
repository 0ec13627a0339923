package anthropic

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"k8s.io/utils/ptr"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/runtime/model/provider"
	"github.com/capstan-dev/capstan/internal/runtime/model/provider/providertest"
)

// TestNoModelIsSentWhatItRefuses holds the table of generations: thinking and effort as they are sent, the limit of the
// response, and whether the temperature goes along.
func TestNoModelIsSentWhatItRefuses(t *testing.T) {
	const none, low, high = v1alpha1.ReasoningEffortNone, v1alpha1.ReasoningEffortLow, v1alpha1.ReasoningEffortHigh
	for _, test := range []struct {
		model    string
		effort   v1alpha1.ReasoningEffort
		limit    *int32
		thinking string
		words    string
		tokens   int64
		warm     bool
	}{
		{"claude-test", high, nil, "", "", 8192, true},
		{"claude-3-5-haiku-20241022", high, nil, "", "", 8192, true},
		{"claude-3-7-sonnet-20250219", low, nil, "enabled 2048", "", 32000, false},
		{"claude-3-7-sonnet-20250219", "", nil, "", "", 8192, true},
		{"claude-opus-4-20250514", high, nil, "enabled 16000", "", 32000, false},
		{"claude-sonnet-4-5-20250929", none, nil, "", "", 8192, true},
		{"claude-sonnet-4-5-20250929", high, nil, "enabled 16000", "", 32000, false},
		{"claude-haiku-4-5", high, ptr.To[int32](4096), "enabled 2048", "", 4096, false},
		{"claude-haiku-4-5", high, ptr.To[int32](1000), "", "", 1000, true},
		{"claude-opus-4-6", high, nil, "adaptive", "high", 32000, false},
		{"claude-opus-4-6", none, nil, "", "", 8192, true},
		{"claude-opus-4-7", "", nil, "", "", 8192, false},
		{"claude-opus-4-8", low, nil, "adaptive", "low", 32000, false},
		{"claude-sonnet-5", "", nil, "", "", 32000, false},
		{"claude-sonnet-5", none, nil, "disabled", "", 8192, false},
		{"claude-opus-5", high, nil, "adaptive", "high", 32000, false},
		{"claude-opus-5-5", none, nil, "", "", 32000, false},
		{"claude-sonnet-5-5-20260901", high, ptr.To[int32](512), "", "high", 512, false},
		{"claude-fable-5", none, nil, "", "", 32000, false},
		{"claude-fable-5-1", low, nil, "", "low", 32000, false},
		{"claude-haiku-5-5", high, nil, "", "high", 32000, false},
		{"anthropic/claude-opus-4.6", high, nil, "adaptive", "high", 32000, false},
		{"claude-opus-6", high, nil, "", "", 8192, true},
		{"claude-opus-4-9", high, nil, "", "", 8192, true},
		{"claude-sonnet-50", high, nil, "", "", 8192, true},
	} {
		d := newDouble(t, streams(start, textStart(0), text(0, "Hi"), blockStop(0), ends("end_turn"), stop))
		r := simple()
		r.Model = test.model
		parameters := v1alpha1.ModelParameters{
			ReasoningEffort: test.effort,
			MaxOutputTokens: test.limit,
			Temperature:     ptr.To("0.5"),
			TopP:            ptr.To("0.9"),
		}
		if _, err := d.driver(t, parameters).Generate(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		var body struct {
			MaxTokens   int64    `json:"max_tokens"`
			Temperature *float64 `json:"temperature"`
			TopP        *float64 `json:"top_p"`
			Thinking    struct {
				Type   string      `json:"type"`
				Budget json.Number `json:"budget_tokens"`
			} `json:"thinking"`
			Output struct {
				Effort string `json:"effort"`
			} `json:"output_config"`
		}
		_, raw := d.one(t)
		if err := json.Unmarshal([]byte(raw), &body); err != nil {
			t.Fatal(err)
		}
		thinking := strings.TrimSpace(body.Thinking.Type + " " + body.Thinking.Budget.String())
		warm := body.Temperature != nil
		if thinking != test.thinking || body.Output.Effort != test.words || body.MaxTokens != test.tokens ||
			warm != test.warm ||
			(body.TopP != nil) != warm {
			t.Errorf("%s, effort %q: %s", test.model, test.effort, raw)
		}
	}
}

func TestASchemaThatAnthropicRefusesIsFoundBeforeAnythingIsSent(t *testing.T) {
	answer := providertest.Answer{Body: stream(start, textStart(0), text(0, "Hi"), blockStop(0), ends("end_turn"), stop)}
	server := providertest.Serve(t, answer)
	made := func(base string) model.Driver {
		driver, err := New(Options{HTTP: server.Client(), BaseURL: base, Key: key})
		if err != nil {
			t.Fatal(err)
		}
		return driver
	}
	for schema, want := range map[string]string{
		`{"type":"object","anyOf":[{}]}`:              "it has anyOf at the top level",
		`{"type":"object","oneOf":[{}],"allOf":[{}]}`: "it has allOf, oneOf at the top level",
		`{"type":"array","items":{"type":"string"}}`:  "it has a type other than object at the top level",
		`{"type":["object","null"],"properties":{}}`:  "it has a type other than object at the top level",
	} {
		r := simple()
		r.Tools = []model.ToolDefinition{{Name: "odd", InputSchema: json.RawMessage(schema)}}
		_, err := made("").Generate(t.Context(), r)
		var refusal *provider.Error
		if !errors.As(err, &refusal) || refusal.Transient() || !strings.Contains(refusal.Problem, "tool odd: "+want) {
			t.Errorf("%s: %v", schema, err)
		}
	}
	if requests := server.Seen(); len(requests) > 0 {
		t.Errorf("the server got %d requests", len(requests))
	}
	// Other servers may accept it.
	r := simple()
	r.Tools = []model.ToolDefinition{{Name: "odd", InputSchema: json.RawMessage(`{"type":"object","anyOf":[{}]}`)}}
	if _, err := made("https://models.example.org").Generate(t.Context(), r); err != nil {
		t.Error(err)
	}
}

// TestTheProvidersTextAboutARefusedRequestIsForTheUser: the error's own text, which is logged, has none of it.
func TestTheProvidersTextAboutARefusedRequestIsForTheUser(t *testing.T) {
	const message = "tools.19.custom.input_schema: JSON schema is invalid"
	for name, test := range map[string]struct {
		status        int
		kind, message string
		want          string
	}{
		"a refused request":   {400, "invalid_request_error", message, message},
		"one with the key":    {400, "invalid_request_error", "bad header " + key, "bad header [API key]"},
		"one of many lines":   {400, "invalid_request_error", "a\nb\tc", "a b c"},
		"a refused key":       {401, "authentication_error", "invalid x-api-key " + key, ""},
		"a limit that passes": {429, "rate_limit_error", message, ""},
		"an outage":           {500, "api_error", message, ""},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDouble(t, refuses(test.status, test.kind, test.message))
			_, err := d.ask(t)
			var refusal *provider.Error
			if !errors.As(err, &refusal) || refusal.Problem != test.want {
				t.Errorf("problem %q of %v, want %q", refusal.Problem, err, test.want)
			}
			quiet(t, err, d)
		})
	}
}

func TestAResponseThatIsBlockedByAFilterIsARefusal(t *testing.T) {
	const message = `Output blocked by content filtering policy`
	for name, test := range map[string]struct {
		begun string
		d     *double
	}{
		"before it begins": {"", newDouble(t, refuses(400, "invalid_request_error", message))},
		"on the way": {"Once", newDouble(t, streams(start, textStart(0), text(0, "Once"), callStart(1, "a", "now"),
			`{"type":"error","error":{"details":null,"type":"invalid_request_error","message":"`+message+`"}}`))},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := test.d.ask(t)
			if err != nil || got.FinishReason != model.FinishFiltered || got.Text != test.begun || len(got.ToolCalls) > 0 {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
}
