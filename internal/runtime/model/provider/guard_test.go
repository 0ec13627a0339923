package provider

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/model"
)

// driverFunc is a model.Driver.
type driverFunc func(ctx context.Context, r model.Request) (*model.Response, error)

func (f driverFunc) Generate(ctx context.Context, r model.Request) (*model.Response, error) {
	return f(ctx, r)
}

func TestAPanicIsAnErrorOfTheProvider(t *testing.T) {
	d := Guard(
		"Someone",
		"sk-secret",
		driverFunc(func(context.Context, model.Request) (*model.Response, error) { panic("a private question") }),
	)
	answer, err := d.Generate(t.Context(), model.Request{})
	var own *Error
	if answer != nil || !errors.As(err, &own) || !own.Transient() ||
		model.CodeOf(err) != v1alpha1.ErrorCodeProviderUnavailable {
		t.Fatalf("Generate = %+v, %v", answer, err)
	}
	if err.Error() != "Someone returned an invalid response" || errors.Unwrap(err) != nil {
		t.Errorf("the error is %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := d.Generate(ctx, model.Request{}); !errors.Is(err, context.Canceled) {
		t.Errorf("the error of a call that was cancelled is %v", err)
	}
}

func TestTheKeyIsInNoAnswer(t *testing.T) {
	const key = "sk-secret"
	given := model.Response{
		Text: "x-api-key: sk-secret, and sk-secret", ResponseID: "id-sk-secret", Model: "sk-secret", FinishReason: "stop",
		ToolCalls: []model.ToolCall{
			{
				ProviderID: "sk-secret",
				Name:       "sk-secret",
				Arguments:  `{"header":"Bearer sk-secret"}`,
			},
			{ProviderID: "b", Name: "look", Arguments: `{}`},
		},
	}
	for name, test := range map[string]struct {
		key  string
		want model.Response
	}{
		"a key": {key, model.Response{
			Text: "x-api-key: [API key], and [API key]", Model: "asked", FinishReason: "stop",
			ToolCalls: []model.ToolCall{
				{Name: "[API key]", Arguments: `{"header":"Bearer [API key]"}`}, {ProviderID: "b", Name: "look", Arguments: `{}`},
			},
		}},
		"another key":       {"sk-others", given},
		"a key that is one": {"secret", given},
	} {
		t.Run(name, func(t *testing.T) {
			answer := given
			answer.ToolCalls = slices.Clone(given.ToolCalls)
			d := Guard(
				"Someone",
				test.key,
				driverFunc(func(context.Context, model.Request) (*model.Response, error) { return &answer, nil }),
			)
			got, err := d.Generate(t.Context(), model.Request{Model: "asked"})
			if err != nil || !reflect.DeepEqual(*got, test.want) {
				t.Errorf("Generate =\n%+v, %v, want\n%+v", got, err, test.want)
			}
		})
	}
}

// TestNoStreamedTextHasTheKey: whatever the pieces, the text that is passed on only grows, and has too little of the
// key to be of use.
func TestNoStreamedTextHasTheKey(t *testing.T) {
	const key = "sk-secret-key"
	for name, test := range map[string]struct{ text, passed string }{
		"no key":              {"what is a secret?", "what is a secret?"},
		"a key":               {"it is sk-secret-key, not sk-secret-key", "it is "},
		"the beginning of it": {"it is sk-secret-kex!", "it is sk-secret-kex!"},
		"an end that may be":  {"it is sk-secret-k", "it is "},
		"an end that is not":  {"it is sk-sec", "it is sk-sec"},
	} {
		for size := 1; size <= len(test.text); size++ {
			passed, calls := "", false
			d := Guard("Someone", key, driverFunc(func(_ context.Context, r model.Request) (*model.Response, error) {
				for end := size; end < len(test.text); end += size {
					r.ReportPartial(model.Partial{Text: test.text[:end]})
				}
				r.ReportPartial(model.Partial{Text: test.text, ToolCalls: true})
				return nil, nil
			}))
			observe := func(p model.Partial) {
				if !strings.HasPrefix(p.Text, passed) {
					t.Errorf("%s, by %d: reported %q after %q", name, size, p.Text, passed)
				}
				passed, calls = p.Text, p.ToolCalls
			}
			_, err := d.Generate(t.Context(), model.Request{OnPartial: observe})
			shows, mayShow := strings.Contains(passed, key[:minKey]), strings.Contains(test.passed, key[:minKey])
			if err != nil || !strings.HasPrefix(passed, test.passed) || len(passed) >= len(test.passed)+minKey ||
				shows != mayShow || !calls {
				t.Errorf("%s, by %d: reported %q, with calls %t, want %q", name, size, passed, calls, test.passed)
			}
		}
	}
}

func TestTheKeyIsKeptOutOfContentToo(t *testing.T) {
	const key = "sk-secret-key"
	thought := func(data, summary string) model.Content {
		return model.ReasoningPart(event.Reasoning{Kind: "k", Data: data, Summary: summary})
	}
	for name, test := range map[string]struct {
		given, want []model.Content
		text        string
	}{
		"within a text": {
			[]model.Content{thought("a", ""), model.TextPart("x " + key)},
			[]model.Content{thought("a", ""), model.TextPart("x [API key]")},
			"x [API key]",
		},
		"within reasoning": {
			[]model.Content{thought(key, ""), thought("", "it is "+key), thought("a", ""), model.TextPart("x")},
			[]model.Content{thought("a", ""), model.TextPart("x")},
			"x",
		},
		"attached": {
			[]model.Content{thought("a", ""), {Text: "x", Reasoning: &event.Reasoning{Data: key}}},
			[]model.Content{thought("a", ""), model.TextPart("x")},
			"x",
		},
		"over two texts": {
			[]model.Content{thought("a", ""), model.TextPart(key[:6]), model.TextPart(key[6:])}, nil, "[API key]",
		},
	} {
		var text string
		for _, c := range test.given {
			text += c.Text
		}
		d := Guard("Someone", key, driverFunc(func(context.Context, model.Request) (*model.Response, error) {
			return &model.Response{Text: text, Content: test.given}, nil
		}))
		got, err := d.Generate(t.Context(), model.Request{})
		if err != nil || got.Text != test.text || !reflect.DeepEqual(got.Content, test.want) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}
