package provider

import (
	"reflect"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/internal/runtime/event"
)

func plain(id string) string {
	return CallID(id, 40, Plain)
}

func user(text string) event.Message {
	return event.Message{Role: event.RoleUser, Content: []event.Part{event.Text(text)}}
}

func calling(calls ...event.ToolCall) event.Message {
	return event.Message{Role: event.RoleAssistant, Content: []event.Part{}, ToolCalls: calls}
}

func gave(id, text string) event.Message {
	return event.Message{Role: event.RoleToolResult, ToolCallID: id, Content: []event.Part{event.Text(text)}}
}

// summary is a conversation in short: the role of each message, and each call with its result.
func summary(entries []Entry) []string {
	var lines []string
	for _, e := range entries {
		if e.Message.Role == event.RoleUser {
			lines = append(lines, "user "+e.Message.PlainText())
			continue
		}
		line := "model"
		for _, c := range e.Calls {
			line += " " + c.ID + ":" + c.Name + string(c.Arguments) + "=" + c.Result.PlainText() + c.Result.Error
		}
		lines = append(lines, line)
	}
	return lines
}

func TestConversation(t *testing.T) {
	one := event.ToolCall{ID: "1-0", ProviderID: "call_1", Name: "look", Arguments: `{"a":1}`}
	two := event.ToolCall{ID: "1-1", ProviderID: "call_2", Name: "look", Arguments: `{}`}
	again := CallID("call_1 2", 40, Plain)
	third := CallID("call_1 3", 40, Plain)
	for name, test := range map[string]struct {
		messages []event.Message
		want     []string
	}{
		"nothing": {nil, nil},
		"results in order": {
			[]event.Message{user("hi"), calling(one, two), gave("1-0", "x"), gave("1-1", "y"), calling()},
			[]string{"user hi", `model call_1:look{"a":1}=x call_2:look{}=y`, "model"},
		},
		"results in another order, behind other messages": {
			[]event.Message{calling(one, two), gave("1-1", "y"), user("wait"), gave("1-0", "x")},
			[]string{`model call_1:look{"a":1}=x call_2:look{}=y`, "user wait"},
		},
		"the ids of another turn": {
			[]event.Message{calling(one), gave("1-0", "x"), calling(one), gave("1-0", "y"), calling(one), gave("1-0", "z")},
			[]string{`model call_1:look{"a":1}=x`, `model ` + again + `:look{"a":1}=y`, `model ` + third + `:look{"a":1}=z`},
		},
		"a result for the newest call": {
			[]event.Message{calling(one), calling(one), gave("1-0", "y"), gave("1-0", "x")},
			[]string{`model call_1:look{"a":1}=x`, `model ` + again + `:look{"a":1}=y`},
		},
		"a message of nothing but space": {
			[]event.Message{user(" \n\t"), calling(), user("")},
			[]string{"user (empty message)", "model", "user (empty message)"},
		},
		"an image without a text": {
			[]event.Message{{Role: event.RoleUser, Content: []event.Part{event.Text(" "), {Type: event.PartImage}}}},
			[]string{"user  "},
		},
		"an empty error": {
			[]event.Message{
				calling(one), {Role: event.RoleToolResult, ToolCallID: "1-0", Error: " "},
			}, []string{`model call_1:look{"a":1}=The tool call failed.`},
		},
		"a call without a result": {
			[]event.Message{calling(one)}, []string{`model call_1:look{"a":1}=` + event.SentenceStatusUnknown},
		},
		"results without a call": {
			[]event.Message{gave("1-0", "x"), calling(one), gave("1-0", "y"), gave("1-0", "z")},
			[]string{`model call_1:look{"a":1}=y`},
		},
		"ids of no provider": {
			[]event.Message{calling(event.ToolCall{ID: "1-0", Name: "a"}), gave("1-0", "x")}, []string{"model 1-0:a{}=x"},
		},
		"names that are none": {
			[]event.Message{
				calling(
					event.ToolCall{ID: "1", Name: "a.b é"}, event.ToolCall{ID: "2"},
					event.ToolCall{ID: "3", Name: strings.Repeat("x", 70)},
				),
			},
			[]string{"model 1:a_b__{}=" + event.SentenceStatusUnknown + " 2:unnamed{}=" + event.SentenceStatusUnknown + " 3:" +
				strings.Repeat(
					"x", 64,
				) +
				"{}=" + event.SentenceStatusUnknown},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := summary(Conversation(test.messages, plain)); !reflect.DeepEqual(got, test.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(test.want, "\n"))
			}
		})
	}
}

func TestArgumentsAreAnObject(t *testing.T) {
	for given, want := range map[string]string{
		``: `{}`, ` `: `{}`, `{"a": 1}`: `{"a": 1}`, ` {} `: ` {} `, `{"a":`: `{"invalid_arguments":"{\"a\":"}`,
		`[1]`:  `{"invalid_arguments":"[1]"}`,
		`null`: `{"invalid_arguments":"null"}`, `{} {}`: `{"invalid_arguments":"{} {}"}`,
		"\xff": "{\"invalid_arguments\":\"\ufffd\"}",
	} {
		if got := string(arguments(given)); got != want && got != strings.ReplaceAll(want, "\ufffd", `\ufffd`) {
			t.Errorf("%q becomes %s, want %s", given, got, want)
		}
	}
}
