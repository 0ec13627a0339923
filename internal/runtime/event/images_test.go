package event

import (
	"bytes"
	"reflect"
	"strings"
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

// Rules: IMG-03. A refusal counts for the image, whether its message has its bytes or its id, and whichever build has
// recorded the refusal.
func TestARefusalCountsForAStoredImage(t *testing.T) {
	byValue := Part{Type: PartImage, MediaType: "image/png", Base64: "aW1n"}
	stored := Part{Type: PartImage, MediaType: "image/png", ImageID: ImageIDOf([]byte("img")), ImageBytes: 3}
	other := Part{Type: PartImage, MediaType: "image/png", ImageID: ImageIDOf(nil)}
	if byValue.ImageDigest() != stored.ImageDigest() || byValue.Size() != 3 || stored.Size() != 3 {
		t.Errorf("%s of %d bytes is stored as %s of %d bytes", byValue.ImageDigest(), byValue.Size(),
			stored.ImageDigest(), stored.Size())
	}
	const earlier = "23dafc1c4b911dea" // of byValue, as builds before stored images have recorded it
	for _, test := range []struct {
		digest string
		want   []Part
	}{
		{stored.ImageID, []Part{Text(noteImageRefused), Text(noteImageRefused), other}},
		{earlier, []Part{Text(noteImageRefused), stored, other}},
	} {
		kept := WithoutImages([]Message{{Role: RoleUser, Content: []Part{byValue, stored, other}}}, []string{test.digest})
		if !reflect.DeepEqual(kept[0].Content, test.want) {
			t.Errorf("without %s: %+v", test.digest, kept[0].Content)
		}
	}
}

// Rules: IMG-03. Images are replaced in users' messages and in results, and nothing else is changed.
func TestImagesOfEventsAreReplaced(t *testing.T) {
	image := Part{Type: PartImage, MediaType: "image/png", Base64: "aW1n"}
	f := NewFactory(Identity{Turn: "t"}, nil)
	events := []Event{
		f.RewrittenMessage(NewUserParts([]Part{Text("a"), image}), NewUserParts([]Part{image})),
		f.TurnStarted(`"type":"image"`),
		f.Step(1, 1).ToolCompleted(ToolCompleted{ToolCallID: "1-0", Result: []Part{image, Text("b")}, Success: true}),
		f.InputMessage(NewUserMessage(`{"type":"image"}`)),
	}
	seen := 0
	replaced, err := ReplaceImages(events, func(p Part) Part {
		seen++
		return Part{Type: PartImage, ImageID: ImageIDOf([]byte(p.Base64))}
	})
	if err != nil || seen != 3 {
		t.Fatalf("%d images, %v", seen, err)
	}
	for i, e := range events {
		if same := bytes.Equal(e.Data.Raw, replaced[i].Data.Raw); same != (i%2 == 1) ||
			strings.Contains(string(replaced[i].Data.Raw), "aW1n") {
			t.Errorf("event %d is %s", i, replaced[i].Data.Raw)
		}
		back, err := ReplaceImages(replaced[i:i+1], func(Part) Part { return image })
		if err != nil || !bytes.Equal(back[0].Data.Raw, e.Data.Raw) {
			t.Errorf("event %d was %s and is %s, %v", i, e.Data.Raw, back[0].Data.Raw, err)
		}
	}
	plain := events[3:]
	if kept, err := ReplaceImages(plain, func(p Part) Part { return p }); err != nil ||
		&kept[0].Data.Raw[0] != &plain[0].Data.Raw[0] {
		t.Errorf("an event without images is encoded again, %v", err)
	}
	events[0].Data.Raw = []byte(`{"message": "type":"image"`)
	if _, err := ReplaceImages(events, func(p Part) Part { return p }); err == nil {
		t.Error("an event that cannot be decoded is no error")
	}
}

// Rules: IMG-03, LLM-08. A stored image counts in the size of a conversation as one by value does.
func TestAStoredImageCountsAsOneByValue(t *testing.T) {
	byValue := Message{Role: RoleToolResult, Content: []Part{{Type: PartImage, Base64: strings.Repeat("aW1n", 1000)}}}
	stored := Message{Role: RoleToolResult, Content: []Part{{Type: PartImage, ImageID: ImageIDOf(nil), ImageBytes: 3000}}}
	if byValue.Bytes() != stored.Bytes() || stored.StoredBytes() != 4000 || byValue.StoredBytes() != 0 {
		t.Errorf("by value: %d bytes; stored: %d, of which stored are %d", byValue.Bytes(), stored.Bytes(),
			stored.StoredBytes())
	}
	if masked := stored.Masked().PlainText(); masked != byValue.Masked().PlainText() ||
		!strings.Contains(masked, "a result of 4000 bytes") {
		t.Errorf("masked, it is %q", masked)
	}
}
