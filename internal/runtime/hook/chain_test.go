package hook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"
)

// scripted is an executor whose outcomes follow from the command of the hook.
type scripted struct {
	t *testing.T
	// got are the payloads of the runs.
	got []Call
}

func (s *scripted) Run(ctx context.Context, c Call) Outcome {
	s.got = append(s.got, c)
	switch command := c.Spec.Bash.Command; command {
	case "allow":
		return Outcome{Decision: Allow}
	case "exit":
		return Parse(Output{Stderr: "not today\n", Exit: 1})
	case "fail":
		return Fail("broken")
	case "panic":
		panic("a defect")
	case "wait":
		<-ctx.Done()
		return Fail("ended")
	default:
		return ParseJSON([]byte(command))
	}
}

// chain returns a runner of hooks with commands; one with a policy is written as policy:command.
func chain(t *testing.T, event Event, commands ...string) (*Runner, *scripted, []Spec) {
	t.Helper()
	executor := &scripted{t: t}
	var specs []Spec
	for i, command := range commands {
		s := Spec{ID: fmt.Sprintf("session:h%d", i), Event: event}
		for _, policy := range []OnError{OnErrorWarn, OnErrorBlock, OnErrorAllow} {
			if rest, ok := strings.CutPrefix(command, string(policy)+":"); ok {
				s.OnError, command = policy, rest
			}
		}
		s.Bash = &Bash{Command: command}
		specs = append(specs, s)
	}
	return &Runner{
		Executors: Executors{Bash: executor}, Now: func() time.Time { return time.Unix(0, 0) },
		Identity: Identity{Namespace: "ns", Session: "s", Turn: "t", Step: 2, Agent: "a"},
	}, executor, specs
}

const (
	blocks   = `{"decision":"block","reason":"no","user_message":"sorry"}`
	rewrites = `{"decision":"mutate","patch":{"message":"two"}}`
)

// Rules: HOOK-17, VEC-13.
func TestHooksAtAMessage(t *testing.T) {
	for name, test := range map[string]struct {
		commands      []string
		text, blocked string
		runs          int
	}{
		"none":    {nil, "one", "", 0},
		"allow":   {[]string{"allow", "allow"}, "one", "", 2},
		"rewrite": {[]string{rewrites, "allow"}, "two", "", 2},
		"rewrite twice": {
			[]string{rewrites, `{"decision":"mutate","patch":{"message":"three"}}`},
			"three",
			"",
			2,
		},
		"a patch without a message":    {[]string{`{"decision":"mutate","patch":{"Message":"two"}}`}, "one", "", 1},
		"a patch with another message": {[]string{`{"decision":"mutate","patch":{"message":1}}`}, "one", "", 1},
		"a patch that is no object":    {[]string{`{"decision":"mutate","patch":[]}`}, "one", "", 1},
		"block":                        {[]string{"allow", blocks, "allow"}, "one", "session:h1 no sorry", 2},
		"block by the exit code":       {[]string{"exit", "allow"}, "one", "session:h0 not today ", 1},
		"rewrite and block":            {[]string{rewrites, blocks}, "one", "session:h1 no sorry", 2},
		"fail":                         {[]string{"fail", "allow"}, "one", "", 2},
		"fail, with a warning":         {[]string{"warn:fail", rewrites}, "two", "", 2},
		"fail, allowed":                {[]string{"allow:fail", rewrites}, "two", "", 2},
		"fail, blocks": {
			[]string{"block:fail", "allow"},
			"one",
			"session:h0 hook session:h0 failed: broken ",
			1,
		},
		"panic, blocks": {
			[]string{"block:panic"}, "one", "session:h0 hook session:h0 failed: the hook could not be run ", 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			runner, executor, specs := chain(t, UserPromptSubmit, test.commands...)
			specs = append(specs, Spec{Event: TurnEnd, Bash: &Bash{Command: "panic"}})
			got, err := runner.Prompt(t.Context(), specs, "one")
			if err != nil {
				t.Fatal(err)
			}
			blocked := ""
			if got.Blocked != nil {
				blocked = fmt.Sprintf("%s %s %s", got.Blocked.Hook, got.Blocked.Reason, got.Blocked.UserMessage)
			}
			if got.Text != test.text || blocked != test.blocked || len(executor.got) != test.runs ||
				len(got.Records) != test.runs {
				t.Errorf("it yields %+v, blocked by %q, after %d runs", got, blocked, len(executor.got))
			}
		})
	}
}

// HOOK-10 and HOOK-11.
// Rules: HOOK-09.
func TestThePayloadOfAHook(t *testing.T) {
	runner, executor, specs := chain(t, UserPromptSubmit, rewrites, "allow")
	if _, err := runner.Prompt(t.Context(), specs, "one"); err != nil {
		t.Fatal(err)
	}
	const envelope = `{"event":%q,"hook_id":"session:h%d","session_id":"s","turn_id":%s,"org_id":"ns","agent_id":%s,` +
		`"ts":"1970-01-01T00:00:00Z","data":%s}`
	for i, message := range []string{"one", "two"} {
		want := fmt.Sprintf(envelope, "user_prompt_submit", i, `"t"`, `"a"`, `{"message":"`+message+`"}`)
		if got := string(executor.got[i].Payload); got != want {
			t.Errorf("the payload is %s, want %s", got, want)
		}
	}
	if a, b := executor.got[0].Key, executor.got[1].Key; a != "t/2/user_prompt_submit//session:h0" || a == b {
		t.Errorf("the keys are %s and %s", a, b)
	}

	runner, executor, specs = chain(t, PostToolUse, "allow")
	text := "failed"
	c := ToolCall{ID: "1-0", Tool: "t", Arguments: json.RawMessage(`{"a":1}`)}
	for _, returned := range []Returned{{Result: json.RawMessage(`"r"`)}, {Error: &text}} {
		if _, err := runner.After(t.Context(), specs, c, returned); err != nil {
			t.Fatal(err)
		}
	}
	for i, want := range []string{
		`{"arguments":{"a":1},"error":null,"result":"r","success":true,"tool_call_id":"1-0","tool_name":"t"}`,
		`{"arguments":{"a":1},"error":"failed","result":null,"success":false,"tool_call_id":"1-0","tool_name":"t"}`,
	} {
		if got := string(executor.got[i].Payload); !strings.HasSuffix(got, `"data":`+want+"}") {
			t.Errorf("the payload is %s, want data %s", got, want)
		}
	}

	runner, executor, specs = chain(t, SessionEnd, "allow")
	runner.Identity.Turn, runner.Identity.Agent = "", ""
	if _, err := runner.Advise(t.Context(), specs, SessionEnd, map[string]string{"reason": "deleted"}); err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf(envelope, "session_end", 0, "null", "null", `{"reason":"deleted"}`)
	if got := string(executor.got[0].Payload); got != want {
		t.Errorf("the payload is %s, want %s", got, want)
	}
}

// HOOK-20.
func TestHooksBeforeACall(t *testing.T) {
	mutate := func(arguments string) string { return `{"decision":"mutate","patch":{"arguments":` + arguments + `}}` }
	for name, test := range map[string]struct {
		arguments string
		commands  []string
		want      string
		blocked   string
	}{
		"allow": {`{"a":1}`, []string{"allow"}, `{"a":1}`, ""},
		"replace and add": {
			`{"a":1,"b":{"x":1}}`,
			[]string{mutate(`{"b":{"y":2},"c":3}`)},
			`{"a":1,"b":{"y":2},"c":3}`,
			"",
		},
		"one after the other":       {`{}`, []string{mutate(`{"a":1}`), mutate(`{"b":2}`)}, `{"a":1,"b":2}`, ""},
		"arguments without members": {`[1]`, []string{mutate(`{"a":1}`)}, `{"a":1}`, ""},
		"null":                      {`null`, []string{mutate(`{"a":1}`)}, `{"a":1}`, ""},
		"a patch without members":   {`{"a":1}`, []string{mutate(`[]`), mutate(`"x"`), mutate(`null`)}, `{"a":1}`, ""},
		"large numbers": {
			`{"n":1234567890123456789}`,
			[]string{mutate(`{"a":1}`)},
			`{"a":1,"n":1234567890123456789}`,
			"",
		},
		"rewrite and block": {`{}`, []string{mutate(`{"a":1}`), blocks, "panic"}, `{"a":1}`, "no"},
		"fail":              {`{}`, []string{"fail", "allow:fail"}, `{}`, ""},
		"fail, blocks":      {`{}`, []string{"block:fail", "panic"}, `{}`, "hook session:h0 failed: broken"},
	} {
		t.Run(name, func(t *testing.T) {
			runner, _, specs := chain(t, PreToolUse, test.commands...)
			got, err := runner.Before(
				t.Context(),
				specs,
				ToolCall{ID: "1-0", Tool: "t", Arguments: json.RawMessage(test.arguments)},
			)
			if err != nil {
				t.Fatal(err)
			}
			blocked := ""
			if got.Blocked != nil {
				blocked = got.Blocked.Reason
			}
			if string(got.Arguments) != test.want || blocked != test.blocked {
				t.Errorf("it yields %s, blocked by %q", got.Arguments, blocked)
			}
		})
	}
	runner, executor, specs := chain(t, PreToolUse, "panic")
	specs[0].Matcher.ToolName = "other"
	c := ToolCall{Tool: "t"}
	if got, err := runner.Before(t.Context(), specs, c); err != nil || len(got.Records) != 0 || len(executor.got) != 0 {
		t.Errorf("a hook for another tool: %+v, %v", got, err)
	}
	other := []ToolCall{c, {Tool: "other"}}
	if AnyMatches(t.Context(), specs, PreToolUse, other[:1]) || !AnyMatches(t.Context(), specs, PreToolUse, other) {
		t.Error("AnyMatches differs from the hooks that run")
	}
	specs[0].Matcher = Matcher{ToolNameGlob: "?"}
	if !AnyMatches(t.Context(), specs, PreToolUse, other[:1]) {
		t.Error("a call passes by a hook whose matcher is invalid")
	}
}

// HOOK-21.
func TestHooksAfterACall(t *testing.T) {
	patch := func(p string) string { return `{"decision":"mutate","patch":` + p + `}` }
	for name, test := range map[string]struct {
		result   string
		commands []string
		want     string
		failed   string
		changed  bool
	}{
		"allow":                    {`"r"`, []string{"allow"}, `"r"`, "", false},
		"block counts for nothing": {`"r"`, []string{blocks, "allow"}, `"r"`, "", false},
		"another result":           {`"r"`, []string{patch(`{"result":{"a":1}}`)}, `{"a":1}`, "", true},
		"null":                     {`"r"`, []string{patch(`{"result":null}`)}, `null`, "", true},
		"an error":                 {`"r"`, []string{patch(`{"error":"bad"}`)}, `"r"`, "bad", true},
		"no error":                 {`"r"`, []string{patch(`{"error":null}`)}, `"r"`, "", false},
		"context for an object": {
			`{"a":1}`,
			[]string{patch(`{"additional_context":"c"}`)},
			`{"a":1,"hook_context":"c"}`,
			"",
			true,
		},
		"context for a text": {
			`"r"`,
			[]string{patch(`{"additional_context":"c"}`)},
			`{"hook_context":"c","value":"r"}`,
			"",
			true,
		},
		"context for nothing": {``, []string{patch(`{"additional_context":"c"}`)}, `{"hook_context":"c"}`, "", true},
		"fail":                {`"r"`, []string{"fail", "allow:fail", patch(`{"result":1}`)}, `1`, "", true},
		"fail, blocks": {
			`"r"`,
			[]string{"block:fail", patch(`{"result":1}`)},
			`1`,
			"hook session:h0: broken",
			true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			runner, _, specs := chain(t, PostToolUse, test.commands...)
			got, err := runner.After(t.Context(), specs, ToolCall{Tool: "t"}, Returned{Result: json.RawMessage(test.result)})
			if err != nil {
				t.Fatal(err)
			}
			failed := ""
			if got.Error != nil {
				failed = *got.Error
			}
			if string(got.Result) != test.want || failed != test.failed || got.Changed != test.changed {
				t.Errorf("it yields %s, error %q, changed: %t", got.Result, failed, got.Changed)
			}
		})
	}
}

// HOOK-15 and HOOK-16.
func TestAdvisoryHooksChangeNothing(t *testing.T) {
	for _, event := range []Event{SessionStart, SessionEnd, TurnEnd} {
		runner, executor, specs := chain(t, event, blocks, rewrites, "block:fail", "panic", "allow")
		records, err := runner.Advise(t.Context(), specs, event, map[string]bool{"success": true})
		if err != nil || len(records) != 5 || len(executor.got) != 5 {
			t.Errorf("%s: %v, %v", event, records, err)
		}
	}
}

func TestHooksHaveTimeTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		commands := make([]string, 12)
		for i := range commands {
			commands[i] = "wait"
		}
		runner, executor, specs := chain(t, TurnEnd, commands...)
		records, err := runner.Advise(t.Context(), specs, TurnEnd, nil)
		if took := time.Since(begin); err != nil || took != TurnEndBudget || len(executor.got) != 1 || len(records) != 12 {
			t.Errorf("%d of %d ran in %v, %v", len(executor.got), len(records), took, err)
		}
		if last := records[11]; last.Decision != Failed || !strings.Contains(last.Reason, "longer than they may together") {
			t.Errorf("the last one: %+v", last)
		}
		runner, _, specs = chain(t, PreToolUse, "block:wait")
		ctx, cancel := WithStepBudget(t.Context())
		defer cancel()
		for range 2 {
			got, err := runner.Before(ctx, specs, ToolCall{})
			if err != nil || got.Blocked == nil {
				t.Errorf("a guard without time lets a call pass: %+v, %v", got, err)
			}
		}
	})
}

func TestACancelledRunHasNoOutcome(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	runner, _, specs := chain(t, UserPromptSubmit, "allow:wait")
	time.AfterFunc(time.Millisecond, cancel)
	if got, err := runner.Prompt(ctx, specs, "one"); !errors.Is(err, context.Canceled) {
		t.Errorf("it yields %+v, %v", got, err)
	}
	if got, err := runner.Prompt(ctx, specs, "one"); !errors.Is(err, context.Canceled) {
		t.Errorf("afterwards it yields %+v, %v", got, err)
	}
}

func TestAHookOfAKindThatCannotRunFails(t *testing.T) {
	runner := &Runner{Now: time.Now}
	specs := []Spec{{ID: "x", Event: UserPromptSubmit, OnError: OnErrorBlock, CEL: &CEL{Expression: "true"}}}
	if got, err := runner.Prompt(t.Context(), specs, ""); err != nil || got.Blocked == nil {
		t.Errorf("it yields %+v, %v", got, err)
	}
}

// A store of records keeps the key of a run, and refuses one that is longer than 256 bytes. A webhook gets it in a
// header.
func TestTheKeyOfARunIsShort(t *testing.T) {
	long := strings.Repeat("h", 253)
	keys := map[string]string{}
	for name, of := range map[string]struct{ call, id string }{
		"long names":         {"1-0", "harness/" + long + ":" + long[:63]},
		"another hook":       {"1-0", "harness/" + long + ":" + long[:62] + "i"},
		"another call":       {"1-1", "harness/" + long + ":" + long[:63]},
		"a long call":        {strings.Repeat("c", 1000), "session:x"},
		"a call of bytes":    {"\xff\n", "session:x"},
		"short names":        {"1-0", "session:x"},
		"a hyphen elsewhere": {"1", "0/session:x"},
	} {
		runner, executor, specs := chain(t, PreToolUse, "allow")
		specs[0].ID = of.id
		if _, err := runner.Before(t.Context(), specs, ToolCall{ID: of.call, Tool: "t"}); err != nil {
			t.Fatal(err)
		}
		key := executor.got[0].Key
		t.Log(key)
		if len(key) > 256 || !utf8.ValidString(key) || strings.ContainsAny(key, "\n") {
			t.Errorf("%s: the key is %q", name, key)
		}
		if other, ok := keys[key]; ok {
			t.Errorf("%s has the key of %s", name, other)
		}
		keys[key] = name
	}
}
