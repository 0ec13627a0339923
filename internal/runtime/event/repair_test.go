package event

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
)

func calls(id string, ids ...string) Message {
	m := Message{ID: id, Role: RoleAssistant}
	for _, call := range ids {
		m.ToolCalls = append(m.ToolCalls, ToolCall{ID: call, Name: "tool-" + call})
	}
	return m
}

func resultOf(call string) Message {
	return Message{ID: "result-" + call, Role: RoleToolResult, ToolCallID: call}
}

func user(id string) Message { return Message{ID: id, Role: RoleUser} }

// shape writes a transcript as a line: a message by its id, a result that was put in by its call in brackets.
func shape(messages []Message) string {
	words := make([]string, 0, len(messages))
	for _, m := range messages {
		if strings.Contains(m.ID, "/") {
			words = append(words, "["+m.ToolCallID+"]")
			continue
		}
		words = append(words, m.ID)
	}
	return strings.Join(words, " ")
}

// Rules: DUR-08.
func TestRepairPutsResultsWhereAProviderExpectsThem(t *testing.T) {
	for name, test := range map[string]struct {
		messages []Message
		want     string
	}{
		"nothing missing":        {[]Message{user("u"), calls("a", "1-0"), resultOf("1-0")}, "u a result-1-0"},
		"no messages":            {nil, ""},
		"one missing at the end": {[]Message{user("u"), calls("a", "1-0")}, "u a [1-0]"},
		"one of two": {
			[]Message{calls("a", "1-0", "1-1"), resultOf("1-1"), user("u")}, "a result-1-1 [1-0] u",
		},
		"before the next message": {
			[]Message{calls("a", "1-0"), user("u"), calls("b", "1-0"), resultOf("1-0")}, "a [1-0] u b result-1-0",
		},
		"a result that comes later":   {[]Message{calls("a", "1-0"), user("u"), resultOf("1-0")}, "a u result-1-0"},
		"a result that comes earlier": {[]Message{resultOf("1-0"), calls("a", "1-0")}, "result-1-0 a [1-0]"},
		"an id of two turns": {
			[]Message{calls("a", "1-0"), resultOf("1-0"), user("u"), calls("b", "1-0")}, "a result-1-0 u b [1-0]",
		},
		"an id twice in a message": {[]Message{calls("a", "1-0", "1-0"), resultOf("1-0")}, "a result-1-0 [1-0]"},
		"a result of no call":      {[]Message{resultOf("9-9"), user("u")}, "result-9-9 u"},
		"several messages": {
			[]Message{calls("a", "1-0"), calls("b", "2-0"), resultOf("2-0"), calls("c", "3-0")}, "a [1-0] b result-2-0 c [3-0]",
		},
	} {
		t.Run(name, func(t *testing.T) {
			before := fmt.Sprint(test.messages)
			got, repairs := Repair(test.messages, nil)
			if shape(got) != test.want {
				t.Errorf("got  %s\nwant %s", shape(got), test.want)
			}
			if put := strings.Count(test.want, "["); len(repairs) != put {
				t.Errorf("%d repairs are reported, not %d", len(repairs), put)
			}
			if fmt.Sprint(test.messages) != before {
				t.Error("the messages given were changed")
			}
		})
	}
}

// Rules: DUR-03.
func TestRepairStatesWhatIsKnownOfTheCall(t *testing.T) {
	for name, test := range map[string]struct {
		record CallRecord
		action string
		error  string
		result []Part
	}{
		"settled": {
			CallRecord{State: CallSettled, Result: []Part{Text("done")}}, ActionReplay, "", []Part{Text("done")},
		},
		"settled with an error": {CallRecord{State: CallSettled, Error: "failed"}, ActionReplay, "failed", nil},
		"interrupted":           {CallRecord{State: CallInterrupted}, ActionReplay, SentenceInterrupted, nil},
		"interrupted with an error": {
			CallRecord{State: CallInterrupted, Error: "node lost"}, ActionReplay, "node lost", nil,
		},
		"running":              {CallRecord{State: CallRunning}, ActionSynthesize, SentenceUncertain, nil},
		"never started":        {CallRecord{State: CallNotRecorded}, ActionSynthesize, SentenceNotExecuted, nil},
		"state cannot be read": {CallRecord{State: CallLookupFailed}, ActionSynthesize, SentenceStatusUnknown, nil},
		"no records":           {CallRecord{State: CallUnrecorded}, ActionSynthesize, SentenceCancelled, nil},
		"an unknown state":     {CallRecord{State: 99}, ActionSynthesize, SentenceStatusUnknown, nil},
	} {
		t.Run(name, func(t *testing.T) {
			lookup := func(m Message, c ToolCall) CallRecord {
				if m.ID != "a" || c.ID != "1-0" {
					t.Errorf("asked for call %s of message %s", c.ID, m.ID)
				}
				return test.record
			}
			got, repairs := Repair([]Message{calls("a", "1-0")}, lookup)
			want := Message{
				ID:         "a/1-0",
				Role:       RoleToolResult,
				ToolCallID: "1-0",
				ToolName:   "tool-1-0",
				Error:      test.error,
				Content:    test.result,
			}
			if len(got) != 2 || !reflect.DeepEqual(got[1], want) {
				t.Errorf("got %+v\nwant %+v", got, want)
			}
			if !reflect.DeepEqual(
				repairs,
				[]TranscriptRepaired{{ToolCallID: "1-0", ToolName: "tool-1-0", Action: test.action}},
			) {
				t.Errorf("repairs %+v", repairs)
			}
		})
	}
	if got, _ := Repair([]Message{calls("a", "1-0")}, nil); got[1].Error != SentenceCancelled {
		t.Errorf("without a lookup the model received %q", got[1].Error)
	}
}

// FuzzRepair holds for any transcript: what was there stays, in order; afterwards no call lacks a later result; a
// second repair finds nothing.
// Rules: DUR-08.
func FuzzRepair(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3})
	f.Add([]byte{4, 4, 8, 0, 12, 9})
	f.Add([]byte{7, 11, 7, 3, 3, 0, 2, 200, 255, 17})
	f.Fuzz(func(t *testing.T, script []byte) {
		var messages []Message
		for i, b := range script[:min(len(script), 100)] {
			id, call := fmt.Sprintf("m%d", i), fmt.Sprintf("%d-0", b/4%4)
			switch b % 4 {
			case 0:
				messages = append(messages, user(id))
			case 1:
				messages = append(messages, Message{ID: id, Role: RoleToolResult, ToolCallID: call})
			case 2:
				messages = append(messages, calls(id, call))
			default:
				messages = append(messages, calls(id, call, fmt.Sprintf("%d-1", b/4%4), call))
			}
		}
		repaired, repairs := Repair(messages, nil)
		if len(repaired) != len(messages)+len(repairs) {
			t.Fatalf("%d messages became %d with %d repairs", len(messages), len(repaired), len(repairs))
		}
		kept := 0
		for _, m := range repaired {
			if kept < len(messages) && reflect.DeepEqual(m, messages[kept]) {
				kept++
			}
		}
		if kept != len(messages) {
			t.Fatalf("message %d is missing or out of place: %s", kept, shape(repaired))
		}
		// Counted from the end, no id is ever asked for more often than it is answered behind.
		answers := map[string]int{}
		for i := len(repaired) - 1; i >= 0; i-- {
			m := repaired[i]
			if m.Role == RoleToolResult {
				answers[m.ToolCallID]++
			}
			for _, c := range m.ToolCalls {
				answers[c.ID]--
				if answers[c.ID] < 0 {
					t.Fatalf("call %s of %s has no later result: %s", c.ID, m.ID, shape(repaired))
				}
			}
		}
		if again, more := Repair(repaired, nil); len(more) != 0 || len(again) != len(repaired) {
			t.Fatalf("a second repair found %d more", len(more))
		}
	})
}
