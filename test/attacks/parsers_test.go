package attacks_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/internal/runtime/hook"
	"github.com/capstan-dev/capstan/internal/runtime/hook/cel"
	"github.com/capstan-dev/capstan/internal/runtime/tool/inputschema"
)

// celHooks are expressions of hooks, evaluated in the manager itself.
func celHooks(t *testing.T) subject {
	e, err := cel.New()
	must(t, err)
	message, list := strings.Repeat("a", 1<<20), make([]int, 100_000)
	payload, err := json.Marshal(map[string]any{"event": "pre_tool_use", "data": map[string]any{
		"message": message, "list": list,
	}})
	must(t, err)
	evaluate := func(ctx context.Context, namespace, expression string, payload []byte) string {
		spec := &hook.Spec{ID: "session:x", Event: hook.PreToolUse, CEL: &hook.CEL{Expression: expression}}
		outcome := e.Run(ctx, hook.Call{Spec: spec, Payload: payload, Identity: hook.Identity{Namespace: namespace}})
		if outcome.Decision == hook.Failed {
			return refused + outcome.Reason
		}
		return fmt.Sprintf("%s %.200q", outcome.Decision, outcome.Reason)
	}
	expressions := func(name string, all ...string) class {
		// The payload alone takes 20 MiB once it is decoded.
		c := class{name: name, most: 256 << 20, longest: longest}
		for _, expression := range all {
			expression = expression[:min(len(expression), hook.MaxExpressionBytes)]
			c.attempts = append(c.attempts, attempt{name: expression, run: func(ctx context.Context) string {
				return evaluate(ctx, attacker, expression, payload)
			}})
		}
		return c
	}
	return subject{
		name: "Hooks that are expressions", classes: expressionClasses(expressions),
		other: func(ctx context.Context) error {
			seen := evaluate(ctx, bystander, `data.x == 1`, []byte(`{"event":"pre_tool_use","data":{"x":1}}`))
			if !strings.HasPrefix(seen, string(hook.Allow)) {
				return errors.New(seen)
			}
			return nil
		},
	}
}

func expressionClasses(expressions func(string, ...string) class) []class {
	nested := func(levels int, open, inner string) string {
		expression := inner
		for i := levels; i > 0; i-- {
			from := strings.ReplaceAll(open, "#", fmt.Sprintf("x%d", i-1))
			expression = fmt.Sprintf("[%s].exists(x%d, %s)", from, i, expression)
		}
		return strings.ReplaceAll(expression, "x0", "data.message")
	}
	return []class{
		expressions("texts that multiply",
			nested(3, "#+#+#+#+#+#+#+#+#+#+#+#+#+#+#+#", `size(x3) == 0`),
			strings.Repeat("data.message+", 300)+`""`,
			`data.list.exists(a, data.message + data.message == "")`,
			`{"a": [data, data, data], "b": [data, data, data]}`,
			`{"decision": "mutate", "patch": {"arguments": data}}`),
		expressions("loops",
			`data.list.all(a, data.list.all(b, data.list.all(c, a == b || b == c || true)))`,
			`data.list.exists(a, -1 in data.list)`, strings.Repeat("data.list.all(a,true)&&", 170)+"true",
			strings.Repeat("data.list==data.list&&", 180)+"true", strings.Repeat("data.list.exists(a,", 200)),
		expressions("patterns and searches",
			`data.message.matches("(a?){240}b")`, `data.list.exists(a, data.message.matches("(a|aa){4}b"))`,
			`data.list.exists(a, data.message.contains("aaaaaaaaaaab"))`, `data.message.matches("((a{30}){30}){30}")`,
			strings.Repeat("''.matches('x{240}')||", 100)+"true"),
		expressions("nesting",
			strings.Repeat("(", 2000)+"true"+strings.Repeat(")", 2000), strings.Repeat("!", 4000)+"true",
			strings.Repeat("[", 2000)+strings.Repeat("]", 2000),
			strings.Repeat("true?", 800)+"true"+strings.Repeat(":true", 20), "data"+strings.Repeat(".a", 2000)),
		expressions("what takes long to compile",
			"1 in ["+strings.Repeat("{},", 1360)+"{}]", strings.Repeat("1+", 2000)+"1 == 1",
			strings.Repeat("[].exists(a,true)||", 200)+"true", strings.Repeat("(1+'')==1||", 90)+strings.Repeat(" ", 3000)+
				"true", "f("+strings.Repeat("1,", 2000)+"1)"),
	}
}

// matchers are the regular expressions and paths of hooks, over the arguments of a call.
func matchers(t *testing.T) subject {
	t.Helper()
	match := func(m hook.Matcher, arguments string) string {
		compiled, err := m.Compile()
		if err != nil {
			return refused + err.Error()
		}
		return fmt.Sprint(compiled.Match("t", json.RawMessage(arguments)))
	}
	long := `{"a":"` + strings.Repeat("a", 200_000) + `"}`
	deep := strings.Repeat(`{"a":`, 60_000) + "1" + strings.Repeat("}", 60_000)
	patterns := func(name string, refused bool, all ...string) class {
		c := class{name: name, refused: refused}
		for _, pattern := range all {
			c.attempts = append(c.attempts, attempt{name: pattern, run: func(context.Context) string {
				return match(hook.Matcher{ArgsPath: "$.a", MatchRegex: pattern}, long)
			}})
		}
		return c
	}
	return subject{
		name: "Matchers of hooks",
		classes: []class{
			patterns("regular expressions that are large programs", true,
				`((a{1000}){1000}){1000}`, `(a?){600}b`, strings.Repeat(`\pL`, 400), strings.Repeat("(", 20_000),
				`(?:`+strings.Repeat("abcdefgh", 120)+`){1000}`),
			patterns("regular expressions that search long", false,
				`(a|aa)*b`, `(a?){400}b`, `.*.*.*.*.*.*.*b`, `([a-a]*)*b`, `(a*)*(a*)*(a*)*b`),
			{name: "arguments", attempts: []attempt{
				{name: "nested deeply, with a path into them", run: func(context.Context) string {
					return match(hook.Matcher{ArgsPath: "$" + strings.Repeat(".a", 200)}, deep)
				}},
				{name: "nested deeply, without an end", run: func(context.Context) string {
					return match(hook.Matcher{ArgsPath: "$.a", MatchRegex: "x"}, strings.Repeat(`{"a":`, 60_000))
				}, want: "false"},
				{name: "the same key twice, of which the second is the one that counts", run: func(context.Context) string {
					return match(hook.Matcher{ArgsPath: "$.a", MatchRegex: "^rm"}, `{"a":"ls","a":"rm -rf /"}`)
				}, want: "true"},
				{name: "a key in escapes", run: func(context.Context) string {
					return match(hook.Matcher{ArgsPath: "$.a", MatchRegex: "^rm"}, `{"\u0061":"\u0072m -rf /"}`)
				}, want: "true"},
				{name: "so long that they cannot be searched", run: func(context.Context) string {
					return match(hook.Matcher{ArgsPath: "$.a", DenyRegex: "(a?){80}b"}, long)
				}, want: "true"},
			}},
		},
		other: func(context.Context) error {
			if seen := match(hook.Matcher{ArgsPath: "$.a", MatchRegex: "^b"}, `{"a":"b"}`); seen != "true" {
				return errors.New(seen)
			}
			return nil
		},
	}
}

// schemas are JSON Schemas of tools, and the arguments that a model checks against them.
func schemas(t *testing.T) subject {
	t.Helper()
	v := inputschema.NewValidator()
	check := func(schema, arguments string) func(context.Context) string {
		return func(context.Context) string {
			return shown("valid", v.Validate([]byte(schema), arguments))
		}
	}
	doubling := `{"$ref": "#/$defs/d0", "$defs": {`
	for i := range 60 {
		doubling += fmt.Sprintf(`"d%d": {"allOf": [{"$ref": "#/$defs/d%d"}, {"$ref": "#/$defs/d%d"}]},`, i, i+1, i+1)
	}
	doubling += `"d60": {"minProperties": 0}}}`
	numbers := "[" + strings.TrimSuffix(strings.Repeat("7,", 40_000), ",") + "]"
	nested := strings.Repeat("[", 60) + strings.Repeat("]", 60)
	items := `{"properties": {"a": {"$ref": "#/$defs/x"}}, "$defs": {"x": {"allOf": [{"items": {"$ref": "#/$defs/x"}}, ` +
		`{"items": {"$ref": "#/$defs/x"}}]}}}`
	choices := strings.TrimSuffix(strings.Repeat("1000,", 4000), ",")
	pattern := func(p string) string { return fmt.Sprintf(`{"properties": {"a": {"pattern": %q}}}`, p) }
	reference := func(to string) string { return fmt.Sprintf(`{"properties": {"a": {"$ref": %q}}}`, to) }
	return subject{
		name: "Schemas and arguments of tools",
		classes: []class{
			{name: "schemas that multiply", refused: true, most: 64 << 20, longest: 2 * longest, attempts: []attempt{
				{name: "references that double", run: check(doubling, `{}`), want: "takes too long"},
				{name: "items that double", run: check(items, `{"a": `+nested+`}`), want: "takes too long"},
				{name: "unequal items, each compared with each", run: check(
					`{"properties": {"a": {"uniqueItems": true}}}`, `{"a": `+numbers+`}`)},
				{name: "a long enum for each item", run: check(
					`{"properties": {"a": {"items": {"enum": [`+choices+`]}}}}`, `{"a": `+numbers+`}`)},
				{name: "a reference to itself", run: check(`{"$ref": "#"}`, `{}`)},
			}},
			{name: "patterns of schemas", refused: true, attempts: []attempt{
				{name: "repetitions in repetitions", run: check(pattern("(?:(?:(?:abcdefgh){10}){10}){10}"), `{}`)},
				{name: "many large classes", run: check(pattern(strings.Repeat(`\pL`, 300)), `{}`)},
				{name: "brackets", run: check(pattern(strings.Repeat("(", 900)), `{}`)},
				{name: "a slow pattern for each item", run: check(
					`{"properties": {"a": {"items": {"pattern": "(a|b|ab)*c(x|y|[^z]){0,900}$"}}}}`,
					`{"a": [`+strings.TrimSuffix(strings.Repeat(`"`+strings.Repeat("ab", 450)+`",`, 100), ",")+`]}`)},
				{name: "a slow pattern for each name", run: check(
					`{"patternProperties": {"(a|b|ab)*c(x|y|[^z]){0,500}$": {}}}`, `{"`+strings.Repeat("ab", 40_000)+`": 1}`)},
			}},
			{name: "references out of the schema", refused: true, attempts: []attempt{
				{name: "to a file of the host", run: check(reference("file:///etc/passwd"), `{}`), want: "outside the schema"},
				{name: "to the metadata of a cloud", run: check(reference("http://169.254.169.254/"), `{}`)},
				{name: "to another server", run: check(reference("https://example.org/schema"), `{}`)},
				{name: "to a relative path", run: check(reference("../../etc/passwd"), `{}`)},
				{name: "to another draft", run: check(`{"$schema": "https://example.org/draft"}`, `{}`)},
			}},
			{name: "large schemas", refused: true, attempts: []attempt{
				{name: "nested deeply", run: check(strings.Repeat(`{"not":`, 10_000)+"{}"+strings.Repeat("}", 10_000), `{}`)},
				{name: "without an end", run: check(strings.Repeat(`{"properties":{"a":`, 5000), `{}`)},
				{name: "many parts", run: check(`{"allOf":[`+strings.Repeat("{},", 10_000)+`{}]}`, `{}`)},
				{name: "a number with a large exponent", run: check(`{"properties": {"a": {"maximum": 1e99999999}}}`, `{}`)},
				{name: "a long text", run: check(`{"description":"`+strings.Repeat("x", 1<<20)+`"}`, `{}`)},
			}},
			{name: "arguments", refused: true, attempts: []attempt{
				{name: "nested deeply", run: check(`{}`, strings.Repeat(`{"a":`, 20_000))},
				{name: "nested arrays", run: check(`{}`, `{"a":`+strings.Repeat("[", 40_000))},
				{name: "a number with a large exponent", run: check(`{}`, `{"a":1e999999999}`)},
				{name: "a long number", run: check(`{}`, `{"a":1`+strings.Repeat("0", 60_000)+`}`)},
				{name: "the same key twice", run: check(`{}`, `{"a":1,"\u0061":2}`), want: "duplicate key"},
			}},
		},
		other: func(context.Context) error {
			return v.Validate([]byte(`{"properties": {"a": {"type": "string"}}}`), `{"a": "b"}`)
		},
	}
}
