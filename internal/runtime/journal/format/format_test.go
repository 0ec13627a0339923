package format

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/event"
)

// fill sets every field below a value to something, so that a field that a conversion forgets shows.
func fill(v reflect.Value, random *rand.Rand) {
	switch v.Interface().(type) {
	case metav1.MicroTime:
		v.Set(reflect.ValueOf(metav1.NewMicroTime(time.UnixMicro(1_700_000_000_000_000 + random.Int64N(1e12)))))
		return
	case metav1.Time:
		v.Set(reflect.ValueOf(metav1.NewTime(time.Unix(1_700_000_000+random.Int64N(1e6), 0))))
		return
	case v1alpha1.JSON:
		v.Set(reflect.ValueOf(v1alpha1.JSON{Raw: fmt.Appendf(nil, `{"n":%d}`, random.Int32())}))
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(fmt.Sprintf("text-%d", random.Int32()))
	case reflect.Int32, reflect.Int64:
		v.SetInt(1 + random.Int64N(1_000_000))
	case reflect.Uint8:
		v.SetUint(uint64(random.IntN(256)))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Interface:
		v.Set(reflect.ValueOf(fmt.Sprintf("value-%d", random.Int32())))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), random)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			fill(v.Index(i), random)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key, random)
		fill(value, random)
		v.SetMapIndex(key, value)
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), random)
		}
	default:
		panic(fmt.Sprintf("nothing to fill a %s with", v.Type()))
	}
}

// through returns an entry as it is read back from a store.
func through(t *testing.T, e *Entry) *Entry {
	t.Helper()
	spec, err := Encode(e)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	if spec, err = FromJSON(raw); err != nil {
		t.Fatal(err)
	}
	read, err := Decode(spec)
	if err != nil {
		t.Fatal(err)
	}
	return read
}

func asText(t *testing.T, v any) string {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// TestEveryFieldIsReadBack fails for a field of Turn.status, or of any other content of an entry, that has no place in
// the format.
// Rules: LLM-01, TURN-01.
func TestEveryFieldIsReadBack(t *testing.T) {
	for seed := range uint64(20) {
		e := &Entry{}
		fill(reflect.ValueOf(e).Elem(), rand.New(rand.NewPCG(seed, 1)))
		if got, want := asText(t, through(t, e)), asText(t, e); got != want {
			t.Fatalf("read back:\n got %s\nwant %s", got, want)
		}
	}
}

// step is an entry with the events of a plain Turn.
func step(of v1alpha1.JournalTurn) *Entry {
	at := time.UnixMicro(1_700_000_000_123_456)
	f := event.NewFactory(event.Identity{Session: "s", Turn: of.UID, InputMessage: string(of.UID)},
		func() time.Time { return at })
	run := f.Step(2, 1)
	message := event.NewAssistantMessage("Hello.", nil)
	message.ID = event.MessageID(of.UID, 2)
	input := event.NewUserMessage("Hi")
	input.ID = string(of.UID)
	e := &Entry{
		Session: "demo", Ordinal: 3, Time: event.MicroTime(at.Add(time.Second)), Turn: &of, Step: 2, Final: true,
		Transition: &v1alpha1.TurnProgress{},
	}
	e.Events = []event.Event{
		f.InputMessage(input), f.SessionActivated(), f.TurnStarted("Hi"),
		run.ReasonStarted(event.ReasonStarted{Iteration: 1}),
		run.OutputMessageStarted(event.OutputMessageStarted{MessageID: message.ID}),
		run.ToolStarted(event.ToolStarted{ToolCall: event.ToolCall{ID: "1-0"}}),
		run.ToolCompleted(event.ToolCompleted{ToolCallID: "1-0"}),
		run.At(at.Add(-time.Hour)).OutputMessageCompleted(event.OutputMessageCompleted{Message: message}),
		f.TurnCompleted(event.TurnCompleted{FinalMessageID: message.ID}), f.SessionIdled(event.SessionIdled{}),
	}
	for i := range e.Events {
		e.Events[i].ID = ""
	}
	event.Identify(of.UID, 2, e.Events)
	for i := range e.Events {
		// As the journal has it: keys sorted.
		var value any
		if err := json.Unmarshal(e.Events[i].Data.Raw, &value); err != nil {
			panic(err)
		}
		raw, err := json.Marshal(value)
		if err != nil {
			panic(err)
		}
		e.Events[i].Data.Raw = raw
	}
	return e
}

func TestThePayloadRepeatsNothingOfTheEnvelope(t *testing.T) {
	of := v1alpha1.JournalTurn{Name: "the-turn", UID: "0c7e1f3a-3333-4444-8888-0123456789ab"}
	e := step(of)
	spec, err := Plain(e)
	if err != nil {
		t.Fatal(err)
	}
	for what, text := range map[string]string{
		"the UID of the Turn": string(of.UID), "the name of the Turn": of.Name, "the Session": "demo",
		"a time": "2023", "a span": event.TurnSpan(of.UID), "the id of the message": event.MessageID(of.UID, 2),
		"an event's id": e.Events[0].ID,
	} {
		if bytes.Contains(spec.Payload.Raw, []byte(text)) {
			t.Errorf("the payload has %s: %s", what, spec.Payload.Raw)
		}
	}
	if got, want := asText(t, through(t, e)), asText(t, e); got != want {
		t.Errorf("read back:\n got %s\nwant %s", got, want)
	}
}

// TestWhatDoesNotFollowIsKept changes each thing that usually follows from the envelope.
func TestWhatDoesNotFollowIsKept(t *testing.T) {
	of := v1alpha1.JournalTurn{Name: "demo-1", UID: "turn-uid"}
	for name, change := range map[string]func(*event.Event){
		"another id":      func(e *event.Event) { e.ID = "another" },
		"another subject": func(e *event.Event) { e.Subject = "another" },
		"no context":      func(e *event.Event) { e.Context = nil },
		"another turn":    func(e *event.Event) { e.Context[event.ContextTurn] = "another" },
		"no input":        func(e *event.Event) { delete(e.Context, event.ContextInputMessage) },
		"a further key":   func(e *event.Event) { e.Context["tool_image"] = "example.org/tool@sha256:00" },
		"another span":    func(e *event.Event) { e.Context[event.ContextSpan] = "0123456789abcdef" },
		"no data":         func(e *event.Event) { e.Data = nil },
		"a part of data":  func(e *event.Event) { e.Data = &v1alpha1.JSON{Raw: []byte(`"{\"turn_id\":\"turn-"`)} },
		"null data":       func(e *event.Event) { e.Data = &v1alpha1.JSON{Raw: []byte(`null`)} },
		"null ids": func(e *event.Event) {
			e.Data = &v1alpha1.JSON{Raw: []byte(`{"message":{"id":null},"message_id":null,"turn_id":null}`)}
		},
		"another id in data": func(e *event.Event) {
			e.Data = &v1alpha1.JSON{Raw: []byte(`{"final_message_id":"","message":{"id":"x"},"message_id":"y","turn_id":"z"}`)}
		},
		"no ids in data": func(e *event.Event) { e.Data = &v1alpha1.JSON{Raw: []byte(`{}`)} },
		"equal values": func(e *event.Event) {
			e.Data = &v1alpha1.JSON{Raw: []byte(`{"final_answer_preview":"Hi","input_content":"Hi","message":{"content":` +
				`[{"text":"Hi"}],"id":"turn-uid"},"response_id":null,"text_preview":"Hi","usage":{"input_tokens":1}}`)}
		},
		"a time long before": func(e *event.Event) { e.Time = metav1.NewMicroTime(time.UnixMicro(1)) },
	} {
		e := step(of)
		for i := range e.Events {
			e.Events[i].Context = clone(e.Events[i].Context)
			change(&e.Events[i])
		}
		if got, want := asText(t, through(t, e)), asText(t, e); got != want {
			t.Errorf("%s: read back:\n got %s\nwant %s", name, got, want)
		}
	}
}

func clone(m map[string]string) map[string]string {
	c := map[string]string{}
	for k, v := range m {
		c[k] = v
	}
	return c
}

// Rules: TURN-05.
func TestWhatThisBuildDoesNotKnowIsNotGuessedAt(t *testing.T) {
	for name, spec := range map[string]string{
		"a later format":             `{"format":3,"final":true,"payload":{}}`,
		"a kind of part":             `{"format":2,"payload":{"later":{}}}`,
		"a field of a part":          `{"format":2,"payload":{"claimed":{"id":"1","holder":"h","later":1}}}`,
		"a field of a final entry":   `{"format":2,"final":true,"payload":{"later":1}}`,
		"a field of the progress":    `{"format":2,"final":true,"payload":{"transition":{"later":1}}}`,
		"a field of an event":        `{"format":2,"final":true,"payload":{"events":[{"type":"a","later":1}]}}`,
		"a part without content":     `{"format":2,"payload":{}}`,
		"a part without payload":     `{"format":2}`,
		"a kind of part of format 1": `{"later":{}}`,
		"two values":                 `{"format":2,"final":true,"payload":"{}{}"}`,
	} {
		read, err := FromJSON([]byte(spec))
		if err != nil {
			t.Fatal(err)
		}
		if e, err := Decode(read); !errors.Is(err, ErrUnknown) || !strings.HasPrefix(err.Error(), ErrUnknown.Error()) {
			t.Errorf("%s: %+v, %v", name, e, err)
		}
	}
}

// Rules: EVT-01.
func TestIDsOfEventsDifferByTurnStepTypeAndSubject(t *testing.T) {
	seen := map[string]bool{}
	for _, turn := range []types.UID{"a", "b"} {
		for _, n := range []int32{1, 2} {
			events := []event.Event{
				{Type: "x"}, {Type: "x"}, {Type: "x"}, {Type: "y"}, {Type: "y", Subject: "1-0"}, {Type: "y", Subject: "1-0"},
			}
			event.Identify(turn, n, events)
			for _, e := range events {
				if seen[e.ID] || len(e.ID) != 36 || e.ID[14] != '8' || !strings.ContainsAny(e.ID[19:20], "89ab") {
					t.Errorf("the id %s of %+v is there twice, or no UUIDv8", e.ID, e)
				}
				seen[e.ID] = true
			}
			again := []event.Event{{Type: "x"}, {Type: "x", ID: "kept"}}
			event.Identify(turn, n, again)
			if again[0].ID != events[0].ID || again[1].ID != "kept" {
				t.Errorf("identified again: %+v", again)
			}
		}
	}
}

func TestAFinalEntryWithoutItsTransitionIsUnknown(t *testing.T) {
	for name, payload := range map[string]*v1alpha1.JSON{"no payload": nil, "an empty one": {Raw: []byte(`{}`)}} {
		t.Run(name, func(t *testing.T) {
			spec := &v1alpha1.JournalEntrySpec{Format: plain, Final: true, Payload: payload}
			if _, err := Decode(spec); !errors.Is(err, ErrUnknown) {
				t.Errorf("decoded with %v", err)
			}
		})
	}
}

// TestTheTimeToTheFirstTokenIsStoredOnce: the events behind the model call have its value, or keep what they have.
func TestTheTimeToTheFirstTokenIsStoredOnce(t *testing.T) {
	kinds := []string{event.TypeLLMGeneration, event.TypeReasonCompleted, event.TypeTurnCompleted, event.TypeLLMGeneration}
	for name, test := range map[string]struct {
		values []string
		stored int
	}{
		"the same":         {[]string{"412", "412", "412", ""}, 1},
		"another one":      {[]string{"412", "412", "99", "99"}, 3},
		"none in between":  {[]string{"412", "", "412", "412"}, 2},
		"none at the end":  {[]string{"412", "412", "", ""}, 1},
		"none at first":    {[]string{"", "", "99", ""}, 1},
		"null":             {[]string{"null", "null", "", "1"}, 2},
		"none at all":      {[]string{"", "", "", ""}, 0},
		"no number at all": {[]string{`"x"`, `"x"`, `{"a":1}`, "[]"}, 3},
	} {
		e := &Entry{
			Session: "demo", Ordinal: 1, Turn: &v1alpha1.JournalTurn{Name: "demo-1", UID: "turn-uid"}, Step: 1, Final: true,
			Transition: &v1alpha1.TurnProgress{},
		}
		for i, value := range test.values {
			data := `{"turn_id":"turn-uid","final_message_id":"m"}`
			if value != "" {
				data = `{"final_message_id":"m","time_to_first_token_ms":` + value + `,"turn_id":"turn-uid"}`
			}
			e.Events = append(e.Events, event.Event{Type: kinds[i], Data: &v1alpha1.JSON{Raw: []byte(data)}})
		}
		event.Identify(e.Turn.UID, e.Step, e.Events)
		spec, err := Plain(e)
		if err != nil {
			t.Fatal(err)
		}
		if n := bytes.Count(spec.Payload.Raw, []byte("time_to_first_token_ms")); n != test.stored {
			t.Errorf("%s: stored %d times: %s", name, n, spec.Payload.Raw)
		}
		read := through(t, e)
		for i := range e.Events {
			if got, want := value(t, read.Events[i]), value(t, e.Events[i]); !reflect.DeepEqual(got, want) {
				t.Errorf("%s: event %d is %v, want %v", name, i, got, want)
			}
		}
	}
}

// value is the data of an event, decoded.
func value(t *testing.T, e event.Event) map[string]any {
	t.Helper()
	var data map[string]any
	if err := json.Unmarshal(e.Data.Raw, &data); err != nil {
		t.Fatal(err)
	}
	return data
}

// TestAnEntryIsCompressedWhereThatIsShorter: people can read what is stored with base64 and gunzip.
func TestAnEntryIsCompressedWhereThatIsShorter(t *testing.T) {
	short := &Entry{
		Session: "demo", Ordinal: 1, Turn: &v1alpha1.JournalTurn{Name: "t", UID: "u"}, Step: 1,
		Claimed: &ClaimedCall{ID: "1-0", Holder: "h"},
	}
	long := step(v1alpha1.JournalTurn{Name: "the-turn", UID: "0c7e1f3a-3333-4444-8888-0123456789ab"})
	for name, test := range map[string]struct {
		entry  *Entry
		format int32
	}{"a claim": {short, plain}, "a step": {long, packed}} {
		t.Run(name, func(t *testing.T) {
			full, err := Plain(test.entry)
			if err != nil {
				t.Fatal(err)
			}
			spec, err := Pack(full)
			if err != nil {
				t.Fatal(err)
			}
			if spec.Format != test.format || len(spec.Payload.Raw) > len(full.Payload.Raw) {
				t.Errorf("format %d with %d bytes for %d", spec.Format, len(spec.Payload.Raw), len(full.Payload.Raw))
			}
			again, err := Unpack(spec)
			if err != nil || !reflect.DeepEqual(again, full) {
				t.Errorf("unpacked %+v, %v; want %+v", again, err, full)
			}
		})
	}
}

func TestACompressedPayloadThatCannotBeReadIsUnknown(t *testing.T) {
	packedOf := func(payload []byte) []byte {
		text, err := pack(payload)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	whole := packedOf([]byte(`{"digest":"d"}`))
	var compressed []byte
	if err := json.Unmarshal(whole, &compressed); err != nil {
		t.Fatal(err)
	}
	cut, err := json.Marshal(compressed[:len(compressed)-1])
	if err != nil {
		t.Fatal(err)
	}
	for name, payload := range map[string][]byte{
		"an object":     []byte(`{"digest":"d"}`),
		"no base64":     []byte(`"-"`),
		"no gzip":       []byte(`"AAAA"`),
		"cut":           cut,
		"too large":     packedOf(append([]byte(`{"digest":"d"}`), bytes.Repeat([]byte(" "), maxPayloadBytes)...)),
		"unknown field": packedOf([]byte(`{"digest":"d","later":true}`)),
	} {
		t.Run(name, func(t *testing.T) {
			spec := &v1alpha1.JournalEntrySpec{Format: packed, Payload: &v1alpha1.JSON{Raw: payload}}
			if _, err := Decode(spec); !errors.Is(err, ErrUnknown) {
				t.Errorf("decoded with %v", err)
			}
		})
	}
}

// Rules: IMG-03. An event that names stored images is marked with a field that a build before them does not know. Such
// a build would take the image for one without bytes.
func TestEventsWithStoredImagesAreMarked(t *testing.T) {
	data := func(text string) *v1alpha1.JSON { return &v1alpha1.JSON{Raw: []byte(text)} }
	e := &Entry{
		Session: "s", Ordinal: 1, Final: true, Turn: &v1alpha1.JournalTurn{Name: "t", UID: "u"}, Step: 1,
		Transition: &v1alpha1.TurnProgress{},
		Events: []event.Event{
			{Type: event.TypeInputMessage, ID: "1", Data: data(
				`{"message":{"content":[{"type":"image","image_id":"img-0"}],"id":"u","role":"user"}}`)},
			{Type: event.TypeInputMessage, ID: "2", Data: data(
				`{"message":{"content":[{"type":"text","text":"\"image_id\":\"img-0\""}],"id":"u","role":"user"}}`)},
		},
	}
	spec, err := Plain(e)
	if err != nil {
		t.Fatal(err)
	}
	var p struct{ Events []struct{ Images bool } }
	if err := json.Unmarshal(spec.Payload.Raw, &p); err != nil || len(p.Events) != 2 || !p.Events[0].Images ||
		p.Events[1].Images {
		t.Errorf("the entry is stored as %s, %v", spec.Payload.Raw, err)
	}
	read, err := Decode(spec)
	if err != nil || !reflect.DeepEqual(read.Events[0].Data, e.Events[0].Data) {
		t.Errorf("read %+v, %v", read, err)
	}
}

func BenchmarkPack(b *testing.B) {
	e := step(v1alpha1.JournalTurn{Name: "the-turn", UID: "0c7e1f3a-3333-4444-8888-0123456789ab"})
	full, err := Plain(e)
	if err != nil {
		b.Fatal(err)
	}
	for name, run := range map[string]func() (*v1alpha1.JournalEntrySpec, error){
		"plain":  func() (*v1alpha1.JournalEntrySpec, error) { return Plain(e) },
		"packed": func() (*v1alpha1.JournalEntrySpec, error) { return Pack(full) },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := run(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
