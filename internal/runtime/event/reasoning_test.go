package event

import (
	"encoding/json"
	"reflect"
	"testing"
)

// TestPartsHaveCallsInTheirPlaces: those that the content names, and behind it all others, as journals from before
// parts for calls have them.
func TestPartsHaveCallsInTheirPlaces(t *testing.T) {
	calls := []ToolCall{{ID: "1-0"}, {ID: "1-1"}}
	place := func(id string) Part { return Part{Type: PartToolCall, ToolCallID: id} }
	for name, test := range map[string]struct{ content, want []Part }{
		"no parts for calls": {[]Part{Text("a")}, []Part{Text("a"), place("1-0"), place("1-1")}},
		"between texts": {
			[]Part{place("1-1"), Text("a"), place("1-0"), Text("b")},
			[]Part{place("1-1"), Text("a"), place("1-0"), Text("b")},
		},
		"only one of them": {[]Part{place("1-1"), Text("a")}, []Part{place("1-1"), Text("a"), place("1-0")}},
		"one twice":        {[]Part{place("1-1"), place("1-1")}, []Part{place("1-1"), place("1-0")}},
		"an unknown one":   {[]Part{place("9-9")}, []Part{place("1-0"), place("1-1")}},
	} {
		if got := (Message{Content: test.content, ToolCalls: calls}).Parts(); !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestAMessageOfAnEarlierJournalIsReadAndWrittenAsItWas(t *testing.T) {
	const recorded = `{"id":"m","role":"assistant","content":[{"type":"text","text":"Let me look."}],` +
		`"tool_calls":[{"id":"1-0","provider_id":"a","name":"look","arguments":"{}"}],"phase":"commentary"}`
	var m Message
	if err := json.Unmarshal([]byte(recorded), &m); err != nil {
		t.Fatal(err)
	}
	if parts := m.Parts(); len(parts) != 2 || parts[0].Text != "Let me look." || parts[1].ToolCallID != "1-0" ||
		m.HasReasoning() {
		t.Errorf("the parts are %+v", parts)
	}
	written, err := json.Marshal(m)
	if err != nil || string(written) != recorded {
		t.Errorf("it is written as %s, %v", written, err)
	}
}

func TestReasoningForLeavesTheGivenMessagesAlone(t *testing.T) {
	response := Message{Role: RoleAssistant, Origin: &Origin{Binding: "a"}, Content: []Part{
		{Type: PartReasoning, Reasoning: &Reasoning{Kind: "k", Data: "1"}},
		{Type: PartText, Text: "x", Reasoning: &Reasoning{Kind: "k", Data: "2"}},
	}}
	given := []Message{NewUserMessage("hello"), response}
	if kept, reasoning := ReasoningFor(given, "a"); !reasoning || &kept[0] != &given[0] {
		t.Error("its own model does not read the messages as they are")
	}
	for _, binding := range []string{"", "b"} {
		kept, reasoning := ReasoningFor(given, binding)
		if reasoning || !reflect.DeepEqual(kept[1].Content, []Part{Text("x")}) || kept[1].Origin != nil {
			t.Errorf("binding %q reads %+v", binding, kept[1])
		}
		if !given[1].HasReasoning() || len(given[1].Content) != 2 || given[1].Origin == nil {
			t.Fatalf("the given messages are %+v", given[1])
		}
	}
	if kept, reasoning := ReasoningFor(nil, ""); kept != nil || reasoning {
		t.Errorf("of nothing there is %+v", kept)
	}
}
