package plan

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

func TestClassifyRules(t *testing.T) {
	type fields = map[string]any
	tests := map[string]struct {
		text string
		want Failure
	}{
		"budget exhausted with details": {
			"Budget exhausted. 12.50 usd spent exceeded the 10.00 usd limit. Raise it.",
			Failure{CodeBudgetExhausted, fields{"spent": 12.5, "limit": 10.0, "currency": "usd"}},
		},
		"budget exhausted, limit reached": {
			"Budget exhausted. 3 eur spent reached the 3 eur limit.",
			Failure{CodeBudgetExhausted, fields{"spent": 3.0, "limit": 3.0, "currency": "eur"}},
		},
		"budget exhausted, plain":       {"Budget exhausted. Nothing else.", Failure{Code: CodeBudgetExhausted}},
		"budget exhausted, parentheses": {"Budget exhausted (429) for session", Failure{Code: CodeBudgetExhausted}},
		"budget exhausted, amount beyond every number": {
			"Budget exhausted. " + strings.Repeat("9", 400) + " usd spent reached the 1 usd limit.",
			Failure{CodeBudgetExhausted, fields{"limit": 1.0, "currency": "usd"}},
		},
		"budget exhausted without a mark": {"Budget exhausted", Failure{Code: CodeProcessingError}},
		"budget paused with details": {
			"Budget paused. 2.5 usd spent reached the 2 usd soft limit. Resume it.",
			Failure{CodeBudgetPaused, fields{"spent": 2.5, "soft_limit": 2.0, "currency": "usd"}},
		},
		"budget paused with amount": {
			"Budget paused with 2.5 usd spent. Resume it.",
			Failure{CodeBudgetPaused, fields{"spent": 2.5, "currency": "usd"}},
		},
		"budget paused with something else": {"Budget paused with care", Failure{Code: CodeBudgetPaused}},
		"budget paused, plain":              {"Budget paused. Resume it.", Failure{Code: CodeBudgetPaused}},
		"budget paused, parentheses":        {"Budget paused (by admin)", Failure{Code: CodeBudgetPaused}},
		"soft limit": {
			"Soft limit reached. Careful.",
			Failure{CodeSoftLimitReached, fields{"message": "Soft limit reached. Careful."}},
		},
		"model": {
			"Model not available: gpt (429) rate limit",
			Failure{CodeModelUnavailable, fields{"model_id": "gpt (429) rate limit"}},
		},
		"request too large":          {"Request too large: 9 MB (429)", Failure{Code: CodeRequestTooLarge}},
		"context length":             {"the maximum Context Length is 8k (429)", Failure{Code: CodeRequestTooLarge}},
		"quota before rate limit":    {"error (429): INSUFFICIENT_QUOTA", Failure{Code: CodeProviderQuotaExhausted}},
		"quota, words":               {"insufficient quota", Failure{Code: CodeProviderQuotaExhausted}},
		"quota, sentence":            {"You exceeded your current quota", Failure{Code: CodeProviderQuotaExhausted}},
		"429":                        {"error (429) (401)", Failure{Code: CodeProviderRateLimited}},
		"429 without parentheses":    {"error 429", Failure{Code: CodeProcessingError}},
		"rate limit":                 {"RATE LIMIT hit", Failure{Code: CodeProviderRateLimited}},
		"too many requests":          {"Too Many Requests", Failure{Code: CodeProviderRateLimited}},
		"401":                        {"error (401) (500)", Failure{Code: CodeProviderMisconfigured}},
		"403":                        {"error (403)", Failure{Code: CodeProviderMisconfigured}},
		"api key required":           {"An API key is required (500)", Failure{Code: CodeProviderMisconfigured}},
		"api key to configure":       {"please configure the API key", Failure{Code: CodeProviderMisconfigured}},
		"api key missing":            {"API key missing", Failure{Code: CodeProviderMisconfigured}},
		"missing api key":            {"Missing API key", Failure{Code: CodeProviderMisconfigured}},
		"invalid api key":            {"Invalid API key", Failure{Code: CodeProviderMisconfigured}},
		"500":                        {"(500)", Failure{Code: CodeProviderUnavailable}},
		"502":                        {"(502)", Failure{Code: CodeProviderUnavailable}},
		"503":                        {"(503)", Failure{Code: CodeProviderUnavailable}},
		"504":                        {"(504)", Failure{Code: CodeProviderUnavailable}},
		"529":                        {"(529)", Failure{Code: CodeProviderUnavailable}},
		"501 is not one of them":     {"(501)", Failure{Code: CodeProcessingError}},
		"nothing known":              {"boom", Failure{Code: CodeProcessingError}},
		"empty":                      {"", Failure{Code: CodeProcessingError}},
		"budget not at the start":    {"x Budget exhausted. y", Failure{Code: CodeProcessingError}},
		"prefixes are matched as is": {"budget exhausted. y", Failure{Code: CodeProcessingError}},
		"white space and activity prefixes go first": {
			"  ActAtom execution failed: ReasonAtom execution failed:  InputAtom execution failed: Model not available: m \n",
			Failure{CodeModelUnavailable, fields{"model_id": "m"}},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := Classify(test.text); !reflect.DeepEqual(got, test.want) {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}

func TestClassifyWithContext(t *testing.T) {
	context := ErrorContext{Provider: "p", ModelID: "m", RetryAfterSeconds: 7}
	provider := map[string]any{"provider": "p", "model_id": "m"}
	limited := map[string]any{"provider": "p", "model_id": "m", "retry_after": int64(7)}
	tests := map[string]Failure{
		"(429)":                    {CodeProviderRateLimited, limited},
		"(401)":                    {CodeProviderMisconfigured, provider},
		"(500)":                    {CodeProviderUnavailable, provider},
		"context length":           {CodeRequestTooLarge, provider},
		"boom":                     {CodeProcessingError, provider},
		"Budget exhausted. x":      {Code: CodeBudgetExhausted},
		"Model not available: abc": {CodeModelUnavailable, map[string]any{"model_id": "abc"}},
	}
	for text, want := range tests {
		if got := ClassifyWith(text, context); !reflect.DeepEqual(got, want) {
			t.Errorf("%q: got %+v, want %+v", text, got, want)
		}
	}
}

func TestVector09ClassificationPrecedence(t *testing.T) {
	const (
		plain  = "Budget exhausted. Sorry."
		richer = "Budget exhausted. 3 usd spent reached the 3 usd limit."
	)
	tests := map[string]struct {
		text, errorText string
		want            Failure
	}{
		"no error: the text":                          {"(429)", "", Classify("(429)")},
		"error of no known class: the text":           {"(429)", "boom", Classify("(429)")},
		"neither of a known class":                    {"sorry", "boom", Failure{Code: CodeProcessingError}},
		"same class, details in the text: the text":   {richer, plain, Classify(richer)},
		"same class, details in the error: the error": {plain, richer, Classify(richer)},
		"same class, details in both: the error": {
			"Model not available: a",
			"Model not available: b",
			Classify("Model not available: b"),
		},
		"other class, details in the text only: error":  {richer, "(500)", Classify("(500)")},
		"text of no known class: the error":             {"sorry", "(500)", Classify("(500)")},
		"same class, no details anywhere: same for all": {"(500)", "(502)", Failure{Code: CodeProviderUnavailable}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := ClassifyFailure(test.text, test.errorText); !reflect.DeepEqual(got, test.want) {
				t.Errorf("got %+v, want %+v", got, test.want)
			}
		})
	}
}

func TestFailureDropsNullFields(t *testing.T) {
	tests := map[string]Failure{
		`{"code":"x","fields":{"a":null,"b":1}}`: {"x", map[string]any{"b": 1.0}},
		`{"code":"x","fields":{"a":null}}`:       {Code: "x"},
		`{"code":"x","fields":{}}`:               {Code: "x"},
		`{"code":"x","fields":null}`:             {Code: "x"},
	}
	for text, want := range tests {
		var got Failure
		if err := json.Unmarshal([]byte(text), &got); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v", text, got)
		}
	}
}

func TestFailureDecodeRefusesOtherTypes(t *testing.T) {
	for _, text := range []string{`{"code":1}`, `{"code":"x","fields":[]}`, `"x"`} {
		got := Failure{Code: "before"}
		if err := json.Unmarshal([]byte(text), &got); err == nil || got.Code != "before" {
			t.Errorf("%s: error %v, failure %+v", text, err, got)
		}
	}
}

func TestEveryCodeHasItsOwnSentence(t *testing.T) {
	codes := []ErrorCode{
		CodeBudgetExhausted, CodeBudgetPaused, CodeSoftLimitReached, CodeModelUnavailable, CodeRequestTooLarge,
		CodeProviderRateLimited, CodeProviderMisconfigured, CodeProviderQuotaExhausted, CodeProviderUnavailable,
		CodeDependencyUnavailable, CodeProcessingError, CodeBlockedByHook, CodeMaxIterations, CodeCancelled,
	}
	seen := map[string]ErrorCode{}
	for _, code := range codes {
		sentence := Failure{Code: code}.Sentence()
		if other, twice := seen[sentence]; twice || sentence == "" {
			t.Errorf("%s has the sentence of %s: %q", code, other, sentence)
		}
		seen[sentence] = code
		// A user who cancels knows what to do.
		if code != CodeCancelled && strings.Count(sentence, ".") < 2 {
			t.Errorf("%s does not say what to do: %q", code, sentence)
		}
	}
	if got := (Failure{Code: "unheard_of"}).Sentence(); got != (Failure{Code: CodeProcessingError}).Sentence() {
		t.Errorf("unknown code: %q", got)
	}
}
