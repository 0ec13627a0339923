package step

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/hook"
	"github.com/capstan-dev/capstan/internal/runtime/record"
	recordmemory "github.com/capstan-dev/capstan/internal/runtime/record/memory"
	"github.com/capstan-dev/capstan/internal/runtime/record/recordtest"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
	"github.com/capstan-dev/capstan/internal/runtime/tool/builtin"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

// outputOf is the file with the output of call 1-0.
func (b *bench) outputOf(turn turnstate.Turn) string {
	b.t.Helper()
	file, err := b.Files(turn, nil).Read(b.t.Context(), "/outputs/demo-1.1-0.txt")
	if err != nil {
		b.t.Fatal(err)
	}
	if file == nil {
		return ""
	}
	return file.Content
}

// ended is the outcome of a call that returned an output.
func ended(output string) tool.Outcome {
	text, rest := tool.Cut([]byte(output), int64(len(output)))
	return tool.Outcome{
		State: v1alpha1.ToolCallStateSucceeded, Reason: v1alpha1.ToolCallReasonCompleted, Result: &text, Output: rest,
	}
}

// Rules: TOOL-13, TOOL-19.
func TestALongOutputIsKeptAfterTheHooks(t *testing.T) {
	long := strings.Repeat("found\n", 20_000)
	reads := builtin.Definitions("session_file_system")
	replaces := func(text string) string {
		return `{"decision":"mutate","patch":{"result":"` + text + `"}}`
	}
	for name, test := range map[string]struct {
		output, hook string
		without      bool
		want, note   string
	}{
		"a long one":                   {output: long, want: long, note: "is complete in the file /outputs/demo-1.1-0.txt"},
		"one that fits":                {output: "found"},
		"a Session without files":      {output: long, without: true, note: "Call the tool so that it returns less"},
		"one that a hook has replaced": {output: long, hook: replaces("nothing")},
		"one that a hook has turned into an error": {
			output: long, hook: `{"decision":"mutate","patch":{"error":"wrong"}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.Records = record.New(recordmemory.New(), record.Options{})
			turn, c := newTurn("demo-1"), turnstate.Config{Tools: reads}
			if test.without {
				c.Tools = nil
			}
			if test.hook != "" {
				b.deciding()
				c = withHooks(c, spec(hook.PostToolUse, test.hook))
			}
			outcome, call := ended(test.output), v1alpha1.ToolCall{ID: "1-0", Name: "look"}
			if after := b.After(turn, c, call, "{}"); after != nil {
				var err error
				if outcome, err = after(t.Context(), outcome); err != nil || outcome.Output != nil {
					t.Fatalf("outcome %+v: %v", outcome, err)
				}
			} else if !test.without {
				t.Fatal("nothing follows the call")
			}
			text := ""
			if outcome.Result != nil {
				text = *outcome.Result
			}
			if test.note == "" && strings.Contains(text, "[Output cut") || !strings.Contains(text, test.note) {
				t.Errorf("the result ends with %q", text[max(0, len(text)-200):])
			}
			if got := b.outputOf(turn); got != test.want {
				t.Errorf("the file has %d bytes", len(got))
			}
		})
	}
}

// A call does not fail because its output cannot be kept.
func TestAnOutputThatCannotBeKeptHasTheUsualNote(t *testing.T) {
	b := newBench(t)
	objects := recordtest.Wrap(recordmemory.New())
	objects.Intercept(func(call recordtest.Call) recordtest.Fault {
		return recordtest.Fault{Before: func(context.Context) error {
			if call.Method == recordtest.ReadIndex {
				return nil
			}
			return record.ErrRefused
		}}
	})
	b.Records = record.New(objects, record.Options{})
	turn, c := newTurn("demo-1"), turnstate.Config{Tools: builtin.Definitions("session_file_system")}
	long := ended(strings.Repeat("found\n", 20_000))
	after := b.After(turn, c, v1alpha1.ToolCall{ID: "1-0", Name: "look"}, "{}")
	outcome, err := after(t.Context(), long)
	if err != nil || outcome.Output != nil || *outcome.Result != *long.Result {
		t.Errorf("outcome %+v: %v", outcome, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := after(ctx, long); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled call: %v", err)
	}
}
