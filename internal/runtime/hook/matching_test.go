package hook

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/internal/testing/memory"
)

// A response may have a thousand calls, and each of a hundred hooks may search all of their arguments.
func TestHooksWithoutTimeSearchNothing(t *testing.T) {
	ctx, cancel := within(t.Context(), 0)
	defer cancel()
	specs := make([]Spec, 96)
	for i := range specs {
		specs[i] = Spec{
			ID: fmt.Sprintf("session:h%d", i), Event: PreToolUse, Bash: &Bash{Command: "allow"},
			Matcher: Matcher{ToolName: "t", ArgsPath: fmt.Sprintf("a%d", i), MatchRegex: strings.Repeat("(a|aa)", 12) + "b"},
		}
	}
	specs[0].Matcher.ToolName = "other"
	large := json.RawMessage(`{"a` + strings.Repeat("a", 90<<10) + `":1}`)
	calls := []ToolCall{{ID: "1-0", Tool: "t", Arguments: large}}
	if !AnyMatches(ctx, specs, PreToolUse, calls) {
		t.Error("a call passes by hooks that have no time for it")
	}
	calls[0].Tool = "u"
	if AnyMatches(ctx, specs, PreToolUse, calls) {
		t.Error("hooks of another tool look at a call")
	}
	calls[0].Tool = "t"
	runner, executor, _ := chain(t, PreToolUse)
	begin := time.Now()
	got, err := runner.Before(ctx, specs, calls[0])
	if err != nil || len(got.Records) != 95 || got.Records[0].Decision != Failed || len(executor.got) != 0 {
		t.Errorf("it yields %d records, %v", len(got.Records), err)
	}
	allocated := memory.Allocated(func() {
		if _, err := runner.Before(ctx, specs, calls[0]); err != nil {
			t.Error(err)
		}
	})
	t.Logf("%v, %d KiB", time.Since(begin), allocated>>10)
	if allocated > 1<<20 {
		t.Errorf("hooks without time take %d KiB", allocated>>10)
	}
	specs[5].OnError = OnErrorBlock
	if got, err = runner.Before(ctx, specs, calls[0]); err != nil || got.Blocked == nil {
		t.Errorf("a guard without time lets a call pass: %v", err)
	}
}

func TestArgumentsAreReadOnceForAllHooks(t *testing.T) {
	deep := strings.Repeat(`{"a":`, 250)
	large := deep + `"` + strings.Repeat("x", 64<<10) + `"` + strings.Repeat("}", 250)
	path := strings.Repeat("a.", 249) + "a"
	values := newArguments(json.RawMessage(large))
	first := memory.Allocated(func() {
		if got := values.at(path); len(got) != 64<<10 {
			t.Errorf("the value has %d bytes", len(got))
		}
	})
	again := memory.Allocated(func() {
		for range 95 {
			values.at(path)
		}
	})
	t.Logf("%d KiB, then %d KiB", first>>10, again>>10)
	if first > 2<<20 || again > 64<<10 {
		t.Errorf("one look takes %d KiB, 95 more %d KiB", first>>10, again>>10)
	}
	for range 100 {
		values.at(fmt.Sprint(len(values.known)))
	}
	if len(values.known) > maxKnownPaths {
		t.Errorf("%d paths are kept", len(values.known))
	}
}

func TestTheValueAtAPath(t *testing.T) {
	for _, test := range []struct{ arguments, path, want string }{
		{`{"a":{"b":"x"}}`, "$.a.b", "x"},
		{`{"a":{"b":"x"}}`, "a..b", "x"},
		{`{"a": {"b" : [1, 2]}}`, "a.b", "[1, 2]"},
		{`{"a":{"b":"x"}}`, "a", `{"b":"x"}`},
		{`{"a":{"b":"x"},"a":{"b":"y"}}`, "a.b", "y"},
		{`{"a":{"b":"x"},"a":1}`, "a.b", ""},
		{`{"a":[{"b":"x"}],"c":"d"}`, "a.b", ""},
		{`{"a":[{"b":"x"},[]],"c":"d"}`, "c", "d"},
		{`{"a":[1],"a":{"b":"x"}}`, "a.b", "x"},
		{`{"a":null}`, "a", ""},
		{`{"\u0061":"x"}`, "a", "x"},
		{`{"a":"x"}`, "", `{"a":"x"}`},
		{`[1]`, "a", ""},
		{`"a"`, "a", ""},
		{`{"a":"x"`, "a", ""},
		{`{"a":"x"} trailing`, "a", ""},
		{`{"a":12345678901234567890}`, "a", "12345678901234567890"},
		{``, "a", ""},
	} {
		if got := newArguments(json.RawMessage(test.arguments)).at(test.path); got != test.want {
			t.Errorf("%s at %q is %q, want %q", test.arguments, test.path, got, test.want)
		}
	}
}
