package journal

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/event"
)

// rejoin puts pieces together again.
func rejoin(t *testing.T, pieces []piece) ([]event.Event, []PlannedCall) {
	t.Helper()
	var events []event.Event
	var calls []PlannedCall
	for _, p := range pieces {
		events = append(events, p.events...)
		calls = append(calls, p.calls...)
	}
	joined, err := joinEvents(events)
	if err != nil {
		t.Fatal(err)
	}
	return joined, joinCalls(calls)
}

// FuzzSplit holds for any events, calls and bound: no piece is larger than the bound, and the pieces put together are
// what was split.
func FuzzSplit(f *testing.F) {
	f.Add(uint16(300), []byte{1, 2, 3}, "plain text", strings.Repeat("\\\"<\u2028", 200))
	f.Add(uint16(200), []byte{0, 3, 7}, "ü\x00\xff\n", "")
	f.Add(uint16(50), []byte{2}, "too little room", "x")
	f.Add(uint16(5000), []byte{255, 254, 4, 5, 6}, strings.Repeat("a", 900), strings.Repeat("\x01", 900))
	f.Fuzz(func(t *testing.T, budget uint16, script []byte, text, other string) {
		var r Record
		for i, b := range script[:min(len(script), 20)] {
			word := strings.Repeat(text, int(b%8)) + other
			switch b % 3 {
			case 0:
				raw, err := json.Marshal(map[string]any{"text": word, "list": []string{text, other}})
				if err != nil {
					t.Fatal(err)
				}
				r.Events = append(
					r.Events,
					event.Event{ID: fmt.Sprint(i), Type: "some.type", Data: &v1alpha1.JSON{Raw: raw}},
				)
			case 1:
				r.Calls = append(r.Calls, PlannedCall{ID: fmt.Sprint(i), Name: "tool", Arguments: word, Refusal: text})
			default:
				r.Events = append(
					r.Events,
					event.Event{ID: fmt.Sprint(i), Type: "no.data", Context: map[string]string{"turn_id": "t"}},
				)
			}
		}
		r, err := canonical(r)
		if err != nil {
			t.Fatal(err)
		}
		pieces, used, err := split(r.Events, r.Calls, int(budget))
		if errors.Is(err, ErrTooLarge) && budget < 400 {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if len(pieces) == 0 {
			t.Fatal("there is no piece")
		}
		size := 0
		for i, p := range pieces {
			raw, err := json.Marshal(Entry{Events: p.events, Calls: p.calls})
			if err != nil {
				t.Fatal(err)
			}
			empty, err := json.Marshal(Entry{})
			if err != nil {
				t.Fatal(err)
			}
			size = len(raw) - len(empty)
			if frame := len(`,"events":[],"calls":[]`); size-frame > int(budget) {
				t.Fatalf("piece %d takes %d of %d bytes", i, size-frame, budget)
			}
		}
		if size > used+len(`,"events":[],"calls":[]`) {
			t.Fatalf("the last piece takes %d bytes, not %d", size, used)
		}
		events, calls := rejoin(t, pieces)
		if !reflect.DeepEqual(events, r.Events) || !reflect.DeepEqual(calls, r.Calls) {
			t.Fatalf("put together again:\n%s\n%s\nwas\n%s\n%s", dump(events), dump(calls), dump(r.Events), dump(r.Calls))
		}
	})
}

func dump(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(raw)
}

func TestPiecesThatDoNotBelongTogetherAreDamage(t *testing.T) {
	text := func(id, s string) event.Event {
		return event.Event{ID: id, Data: &v1alpha1.JSON{Raw: []byte(s)}}
	}
	for name, events := range map[string][]event.Event{
		"not text":   {text("a", `"{"`), text("a", `{}`)},
		"no data":    {text("a", `"{"`), {ID: "a"}},
		"not whole":  {text("a", `"{"`), text("a", `"x"`)},
		"whole ones": {text("a", `{}`), text("a", `{}`)},
	} {
		if joined, err := joinEvents(events); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v, %v", name, dump(joined), err)
		}
	}
	// Data that is text on its own is no fragment.
	joined, err := joinEvents([]event.Event{text("a", `"x"`), text("b", `"y"`)})
	if err != nil || len(joined) != 2 || string(joined[0].Data.Raw) != `"x"` {
		t.Errorf("data that is text: %s, %v", dump(joined), err)
	}
}

func TestCanonicalRecordsCountTheSameBytesAsTheirReaders(t *testing.T) {
	r := Record{
		Events: []event.Event{
			{
				ID:   "a",
				Type: "x",
				Data: &v1alpha1.JSON{Raw: []byte("{\"b\": 1.50, \"a\": \"\xff<\\u00fc\", \"n\": 123456789012345678901234567890}")},
			},
			{ID: "b", Type: "x", Data: &v1alpha1.JSON{Raw: []byte("null")}},
		},
		Calls: []PlannedCall{{ID: "1", Name: "n", Arguments: "\xff"}},
	}
	got, err := canonical(r)
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"a":"` + "\ufffd" + `\u003cü","b":1.50,"n":123456789012345678901234567890}`; string(
		got.Events[0].Data.Raw,
	) != want {
		t.Errorf("the data is %s, not %s", got.Events[0].Data.Raw, want)
	}
	again, err := canonical(got)
	if err != nil || !reflect.DeepEqual(again, got) {
		t.Errorf("a second time it is %s, %v", dump(again), err)
	}
	r.Events[0].Data = &v1alpha1.JSON{Raw: []byte("{")}
	if _, err := canonical(r); err == nil {
		t.Error("data that is no JSON was accepted")
	}
}
