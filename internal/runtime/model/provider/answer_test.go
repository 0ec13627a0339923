package provider

import (
	"errors"
	"reflect"
	"testing"

	"github.com/capstan-dev/capstan/internal/runtime/model"
)

func calls(arguments ...string) []model.ToolCall {
	var made []model.ToolCall
	for _, a := range arguments {
		made = append(made, model.ToolCall{ProviderID: "id", Name: "tool", Arguments: a})
	}
	return made
}

// TestWhatCountsOfAnAnswer is LLM-05, and what it means for answers that a limit has ended.
func TestWhatCountsOfAnAnswer(t *testing.T) {
	for name, test := range map[string]struct {
		text  string
		calls []model.ToolCall
		// kept is nil where nothing counts.
		kept *model.Response
	}{
		"nothing": {},
		"a text":  {text: "Once", kept: &model.Response{Text: "Once"}},
		"whole calls": {
			calls: calls("{}", `{"a":1}`), kept: &model.Response{ToolCalls: calls("{}", `{"a":1}`)},
		},
		"a text and a whole call": {
			text: "I look.", calls: calls("{}"), kept: &model.Response{Text: "I look.", ToolCalls: calls("{}")},
		},
		"a whole call and a half one": {
			text: "I look.", calls: calls("{}", `{"a":1`), kept: &model.Response{Text: "I look.", ToolCalls: calls("{}")},
		},
		"half a call":              {calls: calls(`{"a":`)},
		"a text and half a call":   {text: "I look.", calls: calls(`{"a":`)},
		"a text and a call's name": {text: "I look.", calls: calls("")},
		"a call with no object":    {calls: calls("1", "null", `"{}"`, "[]", "{} {")},
	} {
		t.Run(name, func(t *testing.T) {
			given := model.Response{
				Text:         test.text,
				ToolCalls:    test.calls,
				FinishReason: "length",
				Usage:        model.Usage{InputTokens: 7},
				ResponseID:   "r",
				Model:        "m",
			}
			before := append([]model.ToolCall(nil), test.calls...)
			want := test.kept
			if want != nil {
				want.Usage, want.ResponseID, want.Model = given.Usage, "r", "m"
				if len(want.ToolCalls) == 0 {
					want.ToolCalls = nil
				}
			}
			cause := errors.New("the connection broke")
			got, err := Broken(given, cause)
			if (err != nil) != (want == nil) || err != nil && !errors.Is(err, cause) {
				t.Fatalf("Broken = %+v, %v", got, err)
			}
			same(t, "Broken", got, want)
			if want != nil {
				want.FinishReason = "length"
			}
			got, err = CutShort("Someone", given)
			if (err != nil) != (want == nil) {
				t.Fatalf("CutShort = %+v, %v", got, err)
			}
			same(t, "CutShort", got, want)
			got, err = OutOfContext("Someone", "large-1", given)
			if (err != nil) != (want == nil) {
				t.Fatalf("OutOfContext = %+v, %v", got, err)
			}
			same(t, "OutOfContext", got, want)
			if !reflect.DeepEqual(test.calls, before) {
				t.Errorf("the calls given have become %+v", test.calls)
			}
		})
	}
}

func TestWhatAFilterOrTheProviderEndsCallsNothing(t *testing.T) {
	given := model.Response{Text: "I look.", ToolCalls: calls("{}"), FinishReason: "SAFETY", ResponseID: "r"}
	same(
		t,
		"Filtered",
		Filtered(given),
		&model.Response{Text: "I look.", FinishReason: model.FinishFiltered, FinishWord: "SAFETY", ResponseID: "r"},
	)
	same(t, "Filtered again", Filtered(*Filtered(given)), Filtered(given))
	same(
		t,
		"Filtered with nothing",
		Filtered(model.Response{FinishReason: model.FinishFiltered}),
		&model.Response{FinishReason: model.FinishFiltered},
	)
	for want, r := range map[string]model.Response{
		"a call":  given,
		"nothing": {FinishReason: "OTHER"},
	} {
		if got, err := Stopped(
			"Someone",
			r,
		); err == nil || got != nil ||
			err.Error() != "Someone returned no response: "+r.FinishReason {
			t.Errorf("Stopped with %s = %+v, %v", want, got, err)
		}
	}
	got, err := Stopped("Someone", model.Response{Text: "Once", FinishReason: "OTHER"})
	if err != nil {
		t.Fatal(err)
	}
	same(t, "Stopped", got, &model.Response{Text: "Once", FinishReason: "OTHER"})
}

func same(t *testing.T, name string, got, want *model.Response) {
	t.Helper()
	if got != nil && len(got.ToolCalls) == 0 {
		got.ToolCalls = nil
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%s = %+v, want %+v", name, got, want)
	}
}

func TestAnEmptyResponseReportsWhy(t *testing.T) {
	for kind, want := range map[string]string{
		"SAFETY": "Someone returned no response: SAFETY", "(429)": "Someone returned no response",
		"": "Someone returned no response",
	} {
		if err := NoAnswer("Someone", kind, false); err.Error() != want {
			t.Errorf("the error is %q, want %q", err, want)
		}
	}
	var own *Error
	if !errors.As(NoAnswer("Someone", "", true), &own) || !own.Transient() {
		t.Error("the error is not transient")
	}
}
