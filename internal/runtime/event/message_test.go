package event

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// Rules: MSG-02.
func TestMessagesOfEvents(t *testing.T) {
	f := factory()
	user, answer := NewUserMessage(
		"hi",
	), NewAssistantMessage(
		"hello",
		[]ToolCall{{ID: "1-0", ProviderID: "p", Name: "tool", Arguments: "{"}},
	)
	events := []Event{
		f.InputMessage(user), f.SessionActivated(), f.TurnStarted("hi"),
		f.Step(1, 1).OutputMessageStarted(OutputMessageStarted{MessageID: answer.ID}),
		f.Step(1, 1).OutputMessageCompleted(OutputMessageCompleted{Message: answer}),
		f.Step(2, 1).ToolStarted(ToolStarted{}),
		f.Step(2, 1).ToolCompleted(ToolCompleted{ToolCallID: "1-0", ToolName: "tool", Result: []Part{Text("done")}}),
		f.TurnCompleted(TurnCompleted{}),
	}
	got, err := MessagesOf(events)
	if err != nil {
		t.Fatal(err)
	}
	want := []Message{
		user,
		answer,
		{
			ID:         events[6].ID,
			Role:       RoleToolResult,
			ToolCallID: "1-0",
			ToolName:   "tool",
			Content:    []Part{Text("done")},
			Fence:      got[2].Fence,
		},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
}

// Rules: MSG-03, VEC-25.
func TestToolResultConversion(t *testing.T) {
	image := Part{Type: PartImage, Base64: "AA==", MediaType: "image/png"}
	for name, test := range map[string]struct {
		result []Part
		error  string
		want   string // the result as JSON, "absent" without any
		images []Part
	}{
		"no result":           {nil, "", "absent", nil},
		"no result, an error": {nil, "failed", "absent", nil},
		"nothing in it":       {[]Part{}, "", "null", nil},
		"one text":            {[]Part{Text("a \"b\"")}, "", `"a \"b\""`, nil},
		"an empty text":       {[]Part{Text("")}, "", `""`, nil},
		"two texts": {
			[]Part{Text("a"), Text("")}, "", `[{"type":"text","text":"a"},{"type":"text","text":""}]`, nil,
		},
		"an image alone": {[]Part{image}, "", "null", []Part{image}},
		"text and images in order": {
			[]Part{image, Text("a"), {Type: PartImage, Base64: "BB==", MediaType: "image/gif"}},
			"", `"a"`,
			[]Part{image, {Type: PartImage, Base64: "BB==", MediaType: "image/gif"}},
		},
		"image without a media type": {[]Part{{Type: PartImage, Base64: "AA=="}, Text("a")}, "", `"a"`, nil},
		"image by address": {
			[]Part{{Type: PartImage, URL: "https://example.org/a.png", MediaType: "image/png"}}, "", "null", nil,
		},
		"an image's address is left": {
			[]Part{{Type: PartImage, Base64: "AA==", MediaType: "image/png", URL: "x"}}, "", "null", []Part{image},
		},
		"images and an error (GAP-25)": {[]Part{image}, "failed", "null", []Part{image}},
		"a part of another type":       {[]Part{{Type: "audio", Text: "x"}}, "", "null", nil},
	} {
		t.Run(name, func(t *testing.T) {
			e := factory().Step(1, 1).
				ToolCompleted(ToolCompleted{ToolCallID: "1-0", ToolName: "tool", Result: test.result, Error: test.error})
			m, ok, err := MessageOf(e)
			if err != nil || !ok {
				t.Fatal(ok, err)
			}
			if m.ID != e.ID || m.Role != RoleToolResult || m.ToolCallID != "1-0" || m.ToolName != "tool" ||
				m.Error != test.error {
				t.Errorf("the message is %+v", m)
			}
			raw, present := m.Result()
			if !present {
				raw = json.RawMessage("absent")
			}
			if string(raw) != test.want {
				t.Errorf("the result is %s, not %s", raw, test.want)
			}
			if !reflect.DeepEqual(m.Images(), test.images) {
				t.Errorf("the images are %v, not %v", m.Images(), test.images)
			}
		})
	}
}

func TestMalformedDataIsAnError(t *testing.T) {
	for _, kind := range []string{TypeInputMessage, TypeOutputMessageCompleted, TypeToolCompleted} {
		for _, data := range []*v1alpha1.JSON{nil, {}, {Raw: []byte(`{"message":1,"tool_call_id":1}`)}} {
			if m, ok, err := MessageOf(Event{ID: "id", Type: kind, Data: data}); err == nil {
				t.Errorf("%s with data %v gives %v, %+v", kind, data, ok, m)
			}
		}
	}
	if _, err := MessagesOf([]Event{{Type: TypeInputMessage}}); err == nil {
		t.Error("a list with malformed data gives no error")
	}
	if _, err := Decode[TurnFailed](Event{Type: TypeTurnFailed}); err == nil {
		t.Error("decoding an event without data gives no error")
	}
	failed, err := Decode[TurnFailed](factory().TurnFailed(TurnFailed{Error: "why"}))
	if err != nil || failed.Error != "why" {
		t.Errorf("decoded %+v, %v", failed, err)
	}
}

// Rules: LLM-09.
func TestPhasesAndTextOfMessages(t *testing.T) {
	if m := NewAssistantMessage("x", nil); m.Phase != PhaseFinalAnswer || m.PlainText() != "x" {
		t.Errorf("an answer is %+v", m)
	}
	m := NewAssistantMessage("", []ToolCall{{ID: "1-0"}})
	if m.Phase != PhaseCommentary || m.Content == nil || len(m.Content) != 0 {
		t.Errorf("calls without text are %+v", m)
	}
	m.Content = []Part{Text("a"), {Type: PartImage, Text: "no"}, Text("b")}
	if m.PlainText() != "a\nb" {
		t.Errorf("the text is %q", m.PlainText())
	}
}

// Rules: ERR-03, LIFE-09.
func TestErrorMessagesAreKnownByTheirCode(t *testing.T) {
	m := NewErrorMessage("sorry", "blocked_by_hook", map[string]string{"a": "b"})
	e := factory().OutputMessage(OutputMessageCompleted{Message: m})
	read, _, err := MessageOf(e)
	if err != nil || read.ErrorCode() != "blocked_by_hook" || !reflect.DeepEqual(read, m) {
		t.Errorf("read back as %+v, %v", read, err)
	}
	if m := NewErrorMessage("sorry", "code", nil); len(m.Metadata) != 1 {
		t.Errorf("without fields the metadata is %v", m.Metadata)
	}
	if code := NewAssistantMessage("x", nil).ErrorCode(); code != "" {
		t.Errorf("an answer has the error code %q", code)
	}
}

// FuzzMessageOf holds for any data: no panic, and a message that is written and read again stays what it is.
// Rules: MSG-02.
func FuzzMessageOf(f *testing.F) {
	f.Add(
		TypeInputMessage,
		[]byte(`{"message":{"id":"a","role":"user","content":[{"type":"text","text":"x"}],"metadata":{"n":1e300}}}`),
	)
	f.Add(
		TypeOutputMessageCompleted,
		[]byte(`{"message":{"id":"a","role":"assistant","content":null,"tool_calls":[],"metadata":{}}}`),
	)
	f.Add(
		TypeToolCompleted,
		[]byte(
			`{"tool_call_id":"1-0","result":[{"type":"image","base64":"AA==","media_type":"image/png"},{"type":"text"}],`+
				`"error":"e"}`,
		),
	)
	f.Add(TypeToolCompleted, []byte(`{"result":null}`))
	f.Add("turn.started", []byte(`{`))
	f.Fuzz(func(t *testing.T, kind string, raw []byte) {
		m, ok, err := MessageOf(Event{ID: "event-id", Type: kind, Data: &v1alpha1.JSON{Raw: raw}})
		if err != nil || !ok {
			if !reflect.DeepEqual(m, Message{}) {
				t.Fatalf("no message, and yet %+v", m)
			}
			return
		}
		text, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		var again Message
		if err := json.Unmarshal(text, &again); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(again, m) {
			t.Fatalf("written and read again:\n%#v\nwas\n%#v", again, m)
		}
		result, present := m.Result()
		if present != (m.Content != nil) || (present && !json.Valid(result)) {
			t.Fatalf("the result is %s, %v, of the content %v", result, present, m.Content)
		}
		if kind != TypeToolCompleted {
			return
		}
		if m.ID != "event-id" || m.Role != RoleToolResult {
			t.Fatalf("the tool result is %+v", m)
		}
		for _, p := range m.Images() {
			if p.Base64 == "" || p.MediaType == "" {
				t.Fatalf("an image without bytes or media type: %+v", p)
			}
		}
	})
}
