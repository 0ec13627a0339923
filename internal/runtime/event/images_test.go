package event

import (
	"reflect"
	"testing"
)

// shown is a message of the user with images.
func shown(urls ...string) Message {
	m := NewUserMessage("Look.")
	for _, url := range urls {
		m.Content = append(m.Content, Part{Type: PartImage, MediaType: "image/png", URL: url})
	}
	return m
}

func digestsOf(urls ...string) string {
	var text string
	for _, url := range urls {
		text += " " + Part{URL: url}.ImageDigest()
	}
	return text[1:]
}

func TestARefusedImageIsReplacedByANote(t *testing.T) {
	refusing := NewAssistantMessage("I see.", nil)
	refusing.Metadata = map[string]any{MetadataImagesRefused: digestsOf("https://a", "https://c")}
	given := []Message{
		shown("https://a", "https://b"), NewAssistantMessage("Two ships.", nil), shown("https://c"), recorded(t, refusing),
		shown("https://a"),
	}
	before := shown("https://a", "https://b").Content
	kept := WithoutRefusedImages(given)
	note := Text(noteImageRefused)
	for i, want := range [][]Part{
		{before[0], note, before[2]}, given[1].Content, {before[0], note}, given[3].Content, given[4].Content,
	} {
		if !reflect.DeepEqual(kept[i].Content, want) {
			t.Errorf("message %d is %+v", i, kept[i].Content)
		}
	}
	if !reflect.DeepEqual(given[0].Content, before) {
		t.Errorf("the given messages are %+v", given)
	}
	if plain := given[:3]; &WithoutRefusedImages(plain)[0] != &plain[0] || WithoutRefusedImages(nil) != nil {
		t.Error("messages without a refused image are copied")
	}
}

func TestOnlyTheNamedImagesAreReplaced(t *testing.T) {
	byValue := Part{Type: PartImage, MediaType: "image/png", Base64: "aW1n"}
	result := Message{Role: RoleToolResult, ToolCallID: "1-0", Content: []Part{Text("A chart."), byValue}}
	given := []Message{shown("https://a"), result}
	kept := WithoutImages(given, []string{byValue.ImageDigest()})
	if !reflect.DeepEqual(kept[0], given[0]) ||
		!reflect.DeepEqual(kept[1].Content, []Part{Text("A chart."), Text(noteImageRefused)}) {
		t.Errorf("kept %+v", kept)
	}
	if len(given[1].Images()) != 1 || &WithoutImages(given, nil)[0] != &given[0] {
		t.Error("the given messages have changed, or are copied for nothing")
	}
}
