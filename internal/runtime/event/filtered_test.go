package event

import (
	"encoding/json"
	"reflect"
	"testing"
)

func TestWhatAFilterRefusedIsReplacedByANote(t *testing.T) {
	filtered := NewAssistantMessage("", nil)
	filtered.Metadata = map[string]any{MetadataPromptFiltered: true}
	result := Message{Role: RoleToolResult, ToolCallID: "1-0", Content: []Part{Text("bad")}, Error: "worse"}
	given := []Message{
		NewUserMessage("Look."), NewAssistantMessage("I look.", []ToolCall{{ID: "1-0"}}), result, NewUserMessage("Also bad."),
		recorded(t, filtered), NewUserMessage("Go on."),
	}
	kept := WithoutFiltered(given)
	note := []Part{Text(noteFiltered)}
	for i, want := range [][]Part{given[0].Content, given[1].Content, note, note, {}, given[5].Content} {
		if !reflect.DeepEqual(kept[i].Content, want) || kept[i].Error != "" || kept[i].Role != given[i].Role {
			t.Errorf("message %d is %+v", i, kept[i])
		}
	}
	if given[2].Error != "worse" || given[3].PlainText() != "Also bad." || kept[2].ToolCallID != "1-0" {
		t.Errorf("the given messages are %+v", given)
	}
	if plain := given[:4]; &WithoutFiltered(plain)[0] != &plain[0] || WithoutFiltered(nil) != nil {
		t.Error("messages that no filter refused are copied")
	}
}

// recorded is a message after it was written to the journal and read again.
func recorded(t *testing.T, m Message) Message {
	t.Helper()
	raw, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	var read Message
	if err := json.Unmarshal(raw, &read); err != nil {
		t.Fatal(err)
	}
	return read
}
