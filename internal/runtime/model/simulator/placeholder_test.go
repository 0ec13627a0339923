package simulator

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/event"
)

func expandIn(text string, messages ...event.Message) string {
	return newExpander(currentTurn(messages, "the-turn")).expand(text)
}

// Rules: SIM-01.
func TestExpand(t *testing.T) {
	for name, test := range map[string]struct {
		text     string
		messages []event.Message
		want     string
	}{
		"no placeholder": {
			text: "plain {{}} {{tool:}} {{Input}} {{ input }} {tool:a}",
			want: "plain {{}} {{tool:}} {{Input}} {{ input }} {tool:a}",
		},
		"the input": {text: "<{{input}}>", messages: []event.Message{user("old"), user("new")}, want: "<new>"},
		"no image":  {text: "<{{images}}>", messages: []event.Message{user("hi")}, want: "<(no image)>"},
		"images": {
			text: "{{images}}", want: "image/gif of 14 bytes, image/png at https://example.org/a.png",
			messages: []event.Message{user("hi"), {Role: event.RoleUser, Content: []event.Part{
				{Type: event.PartImage, Base64: "R0lGODlhAQABAAAAACw=", MediaType: "image/gif"},
				event.Text("look"),
				{Type: event.PartImage, MediaType: "image/png", URL: "https://example.org/a.png"},
			}}},
		},
		"no locale":       {text: "<{{locale}}>", want: "<(no locale)>"},
		"no input at all": {text: "<{{input}}>", want: "<>"},
		"the result of a tool": {
			text: "{{tool:a}}/{{tool:b}}", messages: []event.Message{
				user("hi"), result("a", "1"), result("b", "2"),
			}, want: "1/2",
		},
		"the newest result": {
			text: "{{tool:a}}", messages: []event.Message{user("hi"), result("a", "1"), result("a", "2")}, want: "2",
		},
		"a result from before a message that steered": {
			text: "{{input}}: {{tool:a}}, {{tool:b}}",
			messages: []event.Message{
				user("old"), result("a", "0"), result("b", "0"), as("the-turn", user("hi")), result("a", "1"), user("steered"),
			},
			want: "steered: 1, (no result)",
		},
		"a result that is empty": {text: "<{{tool:a}}>", messages: []event.Message{user("hi"), result("a", "")}, want: "<>"},
		"the last line breaks of a result": {
			text: "<{{tool:a}}>", messages: []event.Message{user("hi"), result("a", "1\n2\n\n")}, want: "<1\n2>",
		},
		"no result": {text: "{{tool:a}}", messages: []event.Message{user("hi"), result("b", "1")}, want: "(no result)"},
		"a result of an earlier turn": {
			text: "{{tool:a}}", messages: []event.Message{user("hi"), result("a", "1"), user("again")}, want: "(no result)",
		},
		"the error of a call that failed": {
			text: "{{tool:a}}", messages: []event.Message{
				user("hi"), result("a", "1"), failed("a", "no such word"),
			}, want: "no such word",
		},
		"a newer result beats an older error": {
			text: "{{tool:a}}", messages: []event.Message{user("hi"), failed("a", "no"), result("a", "1")}, want: "1",
		},
		"the assistant's text is no result": {
			text: "{{tool:a}}", messages: []event.Message{
				user("hi"), result("a", "1"), {Role: event.RoleAssistant, Content: []event.Part{event.Text("2")}},
			}, want: "1",
		},
		"a result between fences": {
			text:     "{{tool:a}} {{tool:b}}",
			messages: event.Fenced([]event.Message{user("hi"), result("a", "1\n"), failed("b", "no")}), want: "1 no",
		},
		"several text parts": {
			text: "{{tool:a}}",
			messages: []event.Message{
				user("hi"), {Role: event.RoleToolResult, ToolName: "a", Content: []event.Part{event.Text("1"), event.Text("2")}},
			},
			want: "1\n2",
		},
		"a placeholder in a value stays as it is": {
			text: "{{tool:a}} {{input}}", messages: []event.Message{
				user("{{tool:a}}"), result("a", "{{input}}"),
			}, want: "{{input}} {{tool:a}}",
		},
		"values do not join into a placeholder": {
			text: "{{tool:a}}{{tool:b}}", messages: []event.Message{
				user("hi"), result("a", "{{inp"), result("b", "ut}}"),
			}, want: "{{input}}",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := expandIn(test.text, test.messages...); got != test.want {
				t.Errorf("expand = %q, want %q", got, test.want)
			}
		})
	}
}

func TestExpansionIsBounded(t *testing.T) {
	long := strings.Repeat("x", 60*1024)
	got := expandIn(strings.Repeat("{{tool:a}}", 6000), user("hi"), result("a", long))
	if len(got) > maxExpansion+6000*len(tooLong) {
		t.Errorf("%d bytes", len(got))
	}
	if !strings.HasPrefix(got, long) || !strings.HasSuffix(got, tooLong) {
		t.Errorf("the text begins with %.20q and ends with %q", got, got[len(got)-20:])
	}
}

func TestArguments(t *testing.T) {
	raw := "{\"a\": {{input}}"
	for name, test := range map[string]struct {
		call v1alpha1.SimulatedToolCall
		want string
	}{
		"none are an empty object":    {want: `{}`},
		"raw ones stay byte for byte": {call: v1alpha1.SimulatedToolCall{RawArguments: &raw}, want: raw},
		"keys keep their order": {
			call: arguments(`{ "b" : 1, "a" : [true, null, 1.50] }`), want: `{"b":1,"a":[true,null,1.50]}`,
		},
		"strings at any depth": {
			call: arguments(`{"a":["{{input}}",{"b":"<{{tool:t}}>"}]}`), want: `{"a":["say \"hi\"\\\n",{"b":"<7 & 8>"}]}`,
		},
		"keys are not strings to replace": {
			call: arguments(
				`{"{{input}}":"x","{{tool:t}}":{"{{input}}":1}}`,
			), want: `{"{{input}}":"x","{{tool:t}}":{"{{input}}":1}}`,
		},
		"escapes of other strings stay": {
			call: arguments(`{"a":"\u0041\/ \"{","b":"{{tool:t}}"}`), want: `{"a":"\u0041\/ \"{","b":"7 & 8"}`,
		},
		"a placeholder written with escapes": {call: arguments(`{"a":"\u007b{tool:t}}"}`), want: `{"a":"7 & 8"}`},
		"a string that ends like a key":      {call: arguments(`{"a":"x:","b":["y"]}`), want: `{"a":"x:","b":["y"]}`},
	} {
		t.Run(name, func(t *testing.T) {
			values := newExpander(currentTurn([]event.Message{user("say \"hi\"\\\n"), result("t", "7 & 8")}, "the-turn"))
			got, err := callArguments(test.call, values)
			if err != nil || got != test.want {
				t.Errorf("arguments = %s, %v, want %s", got, err, test.want)
			}
		})
	}
	if got, err := callArguments(arguments(`{"a":`), newExpander(turn{})); err == nil {
		t.Errorf("arguments that are not JSON became %s", got)
	}
}

func arguments(raw string) v1alpha1.SimulatedToolCall {
	return v1alpha1.SimulatedToolCall{Name: "t", Arguments: &v1alpha1.JSON{Raw: []byte(raw)}}
}

// Replacing is one pass: the parts of the text between placeholders stay, and each value is put in as it is.
func FuzzExpand(f *testing.F) {
	f.Add("a{{input}}b{{tool:t}}", "in", "out")
	f.Add("{{tool:t}}{{tool:t}}", "{{tool:t}}", "{{input}}")
	f.Add("{{{{input}}}}", "x", "}}{{")
	f.Add("{{tool:a{{input}}", "{{", "}}")
	f.Fuzz(func(t *testing.T, text, input, output string) {
		got := expandIn(text, user(input), result("t", output))
		var want strings.Builder
		rest := text
		for {
			at := placeholder.FindStringIndex(rest)
			if at == nil {
				break
			}
			want.WriteString(rest[:at[0]])
			switch rest[at[0]:at[1]] {
			case "{{input}}":
				want.WriteString(input)
			case "{{tool:t}}":
				want.WriteString(output)
			default:
				want.WriteString(noResult)
			}
			rest = rest[at[1]:]
		}
		want.WriteString(rest)
		if len(input)*strings.Count(text, "{{")+len(output)*strings.Count(text, "{{") <= maxExpansion &&
			got != want.String() {
			t.Errorf("expand(%q) = %q, want %q", text, got, want.String())
		}
	})
}

// Whatever the values are, arguments stay JSON of the same shape, with each string replaced as text is and all else as
// it was.
func FuzzArguments(f *testing.F) {
	f.Add(`{"a":"{{input}}","b":[1,"{{tool:t}}",{"{{input}}":null}]}`, `"},{"`, "\x00\u2028\\")
	f.Add(`{"a":"\ud800{{input}}","b":1e400}`, "\xff", "\"")
	f.Add(`[":","x\\"]`, "", "")
	f.Fuzz(func(t *testing.T, raw, input, output string) {
		messages := []event.Message{user(input), result("t", output)}
		got, err := callArguments(arguments(raw), newExpander(currentTurn(messages, "the-turn")))
		if !json.Valid([]byte(raw)) {
			if err == nil && raw != "" {
				t.Fatalf("arguments %q are not JSON and became %q", raw, got)
			}
			return
		}
		if err != nil || !json.Valid([]byte(got)) {
			t.Fatalf("arguments %q became %q, %v", raw, got, err)
		}
		if !strings.Contains(raw, "{{") && !strings.Contains(raw, `\u`) {
			var compact bytes.Buffer
			if err := json.Compact(&compact, []byte(raw)); err != nil {
				t.Fatal(err)
			}
			if got != compact.String() {
				t.Fatalf("arguments %q without a placeholder became %q", raw, got)
			}
		}
		values := newExpander(currentTurn(messages, "the-turn"))
		if want := expandTree(decodeTree(t, raw), values); values.left > 0 && !reflect.DeepEqual(decodeTree(t, got), want) {
			t.Fatalf("arguments %q became %q, want %v", raw, got, want)
		}
	})
}

func decodeTree(t *testing.T, raw string) any {
	decoder := json.NewDecoder(strings.NewReader(raw))
	decoder.UseNumber()
	var tree any
	if err := decoder.Decode(&tree); err != nil {
		t.Fatal(err)
	}
	return tree
}

// expandTree is the slow way: it replaces the strings of decoded JSON.
func expandTree(tree any, values *expander) any {
	switch node := tree.(type) {
	case string:
		return string([]rune(values.expand(node))) // JSON has no other bytes than those of UTF-8
	case []any:
		for i := range node {
			node[i] = expandTree(node[i], values)
		}
	case map[string]any:
		for key := range node {
			node[key] = expandTree(node[key], values)
		}
	}
	return tree
}

// as is a message with an id.
func as(id string, m event.Message) event.Message {
	m.ID = id
	return m
}
