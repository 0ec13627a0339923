package cel

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/internal/runtime/hook"
	"github.com/capstan-dev/capstan/internal/testing/ratio"
)

func newExecutor(t testing.TB) *Executor {
	t.Helper()
	e, err := New()
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func call(expression string, data any) hook.Call {
	encoded, err := json.Marshal(data)
	if err != nil {
		panic(err)
	}
	payload, err := json.Marshal(hook.Payload{Event: hook.PreToolUse, SessionID: "s1", Data: encoded})
	if err != nil {
		panic(err)
	}
	return hook.Call{Spec: &hook.Spec{CEL: &hook.CEL{Expression: expression}}, Payload: payload}
}

func toolCall(tool string, arguments any) map[string]any {
	return map[string]any{"tool_name": tool, "tool_call_id": "1-0", "arguments": arguments}
}

func TestTheValueOfAnExpressionIsTheDecision(t *testing.T) {
	e := newExecutor(t)
	data := toolCall("delete", map[string]any{"path": "/etc/passwd", "paths": []string{"/a", "/etc/b"}, "n": 3})
	for expression, want := range map[string]hook.Outcome{
		`true`:                              {Decision: hook.Allow},
		`null`:                              {Decision: hook.Allow},
		`""`:                                {Decision: hook.Allow},
		`false`:                             {Decision: hook.Block, Reason: "hook blocked"},
		`data.tool_name != "delete"`:        {Decision: hook.Block, Reason: "hook blocked"},
		`"no " + data.tool_name`:            {Decision: hook.Block, Reason: "no delete"},
		`data.arguments.n == 3`:             {Decision: hook.Allow},
		`event == "pre_tool_use"`:           {Decision: hook.Allow},
		`session == "s1" && turn == ""`:     {Decision: hook.Allow},
		`"delete" in ["read", "list"]`:      {Decision: hook.Block, Reason: "hook blocked"},
		`has(data.arguments.x)`:             {Decision: hook.Block, Reason: "hook blocked"},
		`"path" in data.arguments`:          {Decision: hook.Allow},
		`data.arguments.path.matches("^/")`: {Decision: hook.Allow},
		`!data.arguments.paths.exists(p, p.startsWith("/etc"))`: {
			Decision: hook.Block, Reason: "hook blocked",
		},
		`{"decision": "block", "reason": "r", "user_message": "m"}`: {
			Decision: hook.Block, Reason: "r", UserMessage: "m",
		},
		`{"decision": "mutate", "patch": {"arguments": {"path": "/tmp", "n": data.arguments.n}}}`: {
			Decision: hook.Mutate, Patch: json.RawMessage(`{"arguments":{"n":3,"path":"/tmp"}}`),
		},
	} {
		t.Run(expression, func(t *testing.T) {
			got := e.Run(t.Context(), call(expression, data))
			if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", want) {
				t.Errorf("it yields %q, want %q", got, want)
			}
		})
	}
}

func TestAnExpressionThatCannotRunFails(t *testing.T) {
	e := newExecutor(t)
	data := toolCall("delete", map[string]any{"list": []int{1}, "other": []int{1}, "map": map[string]any{}})
	for expression, want := range map[string]string{
		`data.`:               "the expression is invalid",
		`unknown`:             "undeclared reference",
		`1`:                   "the expression yields int",
		`[true]`:              "the expression yields list",
		`data.missing.x == 1`: "no such key",
		`data.arguments.list == data.arguments.other`:           "does not take two lists or maps",
		`data.arguments.map != data.arguments.map`:              "does not take two lists or maps",
		`data.arguments.list in [data.arguments.map]`:           "does not take two lists or maps",
		`size(data.arguments.list + data.arguments.other) == 2`: "does not take two lists or maps",
		`size([1].map(x, x)) == 1`:                              "undeclared reference to 'map'",
		`size([1].filter(x, true)) == 1`:                        "undeclared reference to 'filter'",
		`data.tool_name.matches("(")`:                           "not valid",
		`data.tool_name.matches("a{600}")`:                      "too complex",
		`data`:                                                  "",
		`{"decision": timestamp(0)}`:                            "a value of type",
		`data.tool_name + data.arguments.map == ""`:             "no such overload",
	} {
		t.Run(expression, func(t *testing.T) {
			got := e.Run(t.Context(), call(expression, data))
			if want != "" && (got.Decision != hook.Failed || !strings.Contains(got.Reason, want)) {
				t.Errorf("it yields %q, want an error with %q", got, want)
			}
		})
	}
}

func TestAnExpressionIsCompiledOnce(t *testing.T) {
	e := newExecutor(t)
	first, err := e.program(t.Context(), "ns", "true")
	if err != nil {
		t.Fatal(err)
	}
	if second, err := e.program(t.Context(), "ns", "true"); err != nil || second != first {
		t.Errorf("it was compiled again: %v", err)
	}
	if err := e.Check(t.Context(), "ns", "data."); err == nil {
		t.Error("an invalid expression passes")
	}
}

func FuzzExpression(f *testing.F) {
	e := newExecutor(f)
	for _, seed := range []string{`true`, `data.x.y == "z"`, `data.list.exists(x, x > 1)`, `{"decision": "block"}`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, expression string) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		outcome := e.Run(ctx, call(expression, map[string]any{"list": []int{1, 2}, "x": map[string]any{"y": "z"}}))
		if outcome.Decision == "" {
			t.Errorf("%q has no decision", expression)
		}
	})
}

// BenchmarkExpression compares a hook with decoding the data that it looks at.
func BenchmarkExpression(b *testing.B) {
	e := newExecutor(b)
	c := call(`data.tool_name == "delete" && data.arguments.path.startsWith("/etc") ? "not there" : ""`,
		toolCall("delete", map[string]any{"path": "/etc/passwd"}))
	raw, err := json.Marshal(toolCall("delete", map[string]any{"path": "/etc/passwd"}))
	if err != nil {
		b.Fatal(err)
	}
	ratio.Report(b, func() error {
		var data map[string]any
		return json.Unmarshal(raw, &data)
	}, func() error {
		if outcome := e.Run(b.Context(), c); outcome.Decision != hook.Block {
			return fmt.Errorf("the outcome is %+v", outcome)
		}
		return nil
	})
}
