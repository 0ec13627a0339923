package model

import (
	"reflect"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/internal/runtime/event"
)

func TestDroppedCallsLeaveTheContentToo(t *testing.T) {
	r := Response{
		ToolCalls: []ToolCall{{Name: "a"}, {Name: "b"}, {Name: "c"}},
		Content:   []Content{CallPart(1), TextPart("x"), CallPart(2), TextPart("y"), CallPart(3), CallPart(4)},
	}
	r.KeepCalls(func(c ToolCall) bool { return c.Name != "b" })
	if len(r.ToolCalls) != 2 || r.ToolCalls[1].Name != "c" ||
		!reflect.DeepEqual(r.Content, []Content{CallPart(1), TextPart("x"), TextPart("y"), CallPart(2)}) {
		t.Errorf("the response is %+v", r)
	}
}

func TestTidyKeepsOnlyContentWithMoreThanText(t *testing.T) {
	thought := func(n int) Content {
		return ReasoningPart(event.Reasoning{Kind: "k", Data: strings.Repeat("x", n)})
	}
	large := event.MaxReasoningBytes/2 + 1
	for name, test := range map[string]struct{ given, want []Content }{
		"nothing":              {nil, nil},
		"a text":               {[]Content{TextPart("a")}, nil},
		"a text and calls":     {[]Content{TextPart("a"), CallPart(1), CallPart(2)}, nil},
		"empty texts":          {[]Content{TextPart(""), CallPart(1), TextPart("")}, nil},
		"a text behind a call": {[]Content{CallPart(1), TextPart("a")}, []Content{CallPart(1), TextPart("a")}},
		"reasoning":            {[]Content{thought(1), TextPart("a")}, []Content{thought(1), TextPart("a")}},
		"too much of reasoning": {
			[]Content{thought(large), thought(large), CallPart(1)}, []Content{thought(large), CallPart(1)},
		},
		"one that is too large": {[]Content{thought(event.MaxReasoningBytes), CallPart(1)}, nil},
		"an attached one that is too large": {
			[]Content{{Text: "a", Reasoning: thought(event.MaxReasoningBytes).Reasoning}, CallPart(1)}, nil,
		},
	} {
		r := Response{Content: test.given}
		r.Tidy()
		if !reflect.DeepEqual(r.Content, test.want) {
			t.Errorf("%s: %d parts, want %d", name, len(r.Content), len(test.want))
		}
	}
}

// Rules: LLM-09.
func TestAMessageHasThePhaseOfTheProvider(t *testing.T) {
	look := []event.ToolCall{{ID: "1-0", Name: "look"}}
	comment := Content{Text: "I look.", Phase: event.PhaseCommentary}
	final := Content{Text: "It rains.", Phase: event.PhaseFinalAnswer}
	for name, test := range map[string]struct {
		given Response
		calls []event.ToolCall
		want  event.Phase
		parts []event.Part
	}{
		"no mark":            {Response{Text: "a"}, nil, event.PhaseFinalAnswer, []event.Part{event.Text("a")}},
		"no mark, and calls": {Response{Text: "a"}, look, event.PhaseCommentary, []event.Part{event.Text("a")}},
		"commentary without calls": {
			Response{Text: "I look.", Phase: event.PhaseCommentary, Content: []Content{comment}},
			nil,
			event.PhaseCommentary,
			[]event.Part{event.Text("I look.")},
		},
		"two marks": {
			Response{Text: "I look.It rains.", Phase: event.PhaseFinalAnswer, Content: []Content{comment, final}},
			nil,
			event.PhaseFinalAnswer,
			[]event.Part{
				{Type: event.PartText, Text: "I look.", Phase: event.PhaseCommentary}, event.Text("It rains."),
			},
		},
	} {
		if m := test.given.Message(test.calls); m.Phase != test.want || !reflect.DeepEqual(m.Content, test.parts) {
			t.Errorf("%s: phase %s, content %+v", name, m.Phase, m.Content)
		}
	}
}
