package hook

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
)

// fieldExecutor stands for the executor of a field of Spec.
type fieldExecutor struct{ field string }

func (fieldExecutor) Run(context.Context, Call) Outcome { return Outcome{} }

func TestEveryFieldOfASpecWithAProgramHasItsKindAndItsExecutor(t *testing.T) {
	executors := Executors{}
	kinds := map[Kind]bool{}
	for field := range reflect.TypeFor[Spec]().Fields() {
		if field.Type.Kind() != reflect.Pointer {
			continue
		}
		slot := reflect.ValueOf(&executors).Elem().FieldByName(field.Name)
		if !slot.IsValid() {
			t.Errorf("Executors has no %s", field.Name)
			continue
		}
		slot.Set(reflect.ValueOf(fieldExecutor{field.Name}))
		s := &Spec{Event: PreToolUse}
		reflect.ValueOf(s).Elem().FieldByIndex(field.Index).Set(reflect.New(field.Type.Elem()))
		if got := executors.of(s); s.Kind() == "" || kinds[s.Kind()] || got != (fieldExecutor{field.Name}) {
			t.Errorf("a hook with %s has the kind %q and the executor %v", field.Name, s.Kind(), got)
		}
		if err := s.Validate(); err == nil || strings.Contains(err.Error(), "exactly one") {
			t.Errorf("a hook with an empty %s: %v", field.Name, err)
		}
		kinds[s.Kind()] = true
	}
	if len(kinds) < 3 || executors.of(&Spec{}) != nil {
		t.Errorf("the kinds are %v", kinds)
	}
}

// Rules: HOOK-01, HOOK-02, HOOK-03, VEC-16.
func TestAHookIsValidated(t *testing.T) {
	variables := func(n int) (all []Variable) {
		for i := range n {
			all = append(all, Variable{Name: fmt.Sprintf("V%d", i)})
		}
		return all
	}
	for name, test := range map[string]struct {
		change func(*Spec)
		want   string
	}{
		"as it is":           {func(*Spec) {}, ""},
		"99 ms":              {func(s *Spec) { s.Timeout = 99 * time.Millisecond }, "timeout is 99ms"},
		"100 ms":             {func(s *Spec) { s.Timeout = 100 * time.Millisecond }, ""},
		"30 s":               {func(s *Spec) { s.Timeout = 30 * time.Second }, ""},
		"30001 ms":           {func(s *Spec) { s.Timeout = 30001 * time.Millisecond }, "timeout is 30.001s"},
		"no event":           {func(s *Spec) { s.Event = "" }, "unknown event"},
		"another event":      {func(s *Spec) { s.Event = "PreToolUse" }, "unknown event"},
		"another policy":     {func(s *Spec) { s.OnError = "stop" }, "unknown error policy"},
		"a blank command":    {func(s *Spec) { s.Bash.Command = " \n" }, "command is empty"},
		"a long command":     {func(s *Spec) { s.Bash.Command = strings.Repeat("a", MaxCommandBytes+1) }, "the maximum is"},
		"16 variables":       {func(s *Spec) { s.Bash.Env = variables(16) }, ""},
		"17 variables":       {func(s *Spec) { s.Bash.Env = variables(17) }, "17 environment variables"},
		"a variable's name":  {func(s *Spec) { s.Bash.Env = []Variable{{Name: "A=B"}} }, "invalid name"},
		"two executors":      {func(s *Spec) { s.CEL = &CEL{Expression: "true"} }, "exactly one"},
		"no executor":        {func(s *Spec) { s.Bash = nil }, "exactly one"},
		"a blank expression": {func(s *Spec) { s.Bash, s.CEL = nil, &CEL{} }, "expression is empty"},
		"no url":             {func(s *Spec) { s.Bash, s.Webhook = nil, &Webhook{} }, "url is empty"},
		"a matcher without a call": {
			func(s *Spec) { s.Event, s.Matcher.ToolName = TurnEnd, "t" }, "has no tool call",
		},
		"a matcher at a message": {
			func(s *Spec) { s.Event, s.Matcher.ToolName = UserPromptSubmit, "t" }, "has no tool call",
		},
		"a matcher at the start of a Session": {
			func(s *Spec) { s.Event, s.Matcher.ToolNameGlob = SessionStart, "*" }, "has no tool call",
		},
		"a matcher at the end of a Session": {
			func(s *Spec) { s.Event, s.Matcher.ArgsPath = SessionEnd, "a" }, "has no tool call",
		},
		"both expressions": {
			func(s *Spec) { s.Matcher = Matcher{ArgsPath: "a", MatchRegex: "a", DenyRegex: "b"} }, "both set",
		},
		"an expression without a path": {func(s *Spec) { s.Matcher.DenyRegex = "a" }, "no argsPath"},
		"look-around": {
			func(s *Spec) { s.Matcher = Matcher{ArgsPath: "a", DenyRegex: "a(?!b)"} },
			"not valid",
		},
		"a large expression": {
			func(s *Spec) { s.Matcher = Matcher{ArgsPath: "a", DenyRegex: "(a{30}){30}"} }, "too complex",
		},
		"a* and b":       {func(s *Spec) { s.Matcher.ToolNameGlob = "a*|b" }, ""},
		"a?":             {func(s *Spec) { s.Matcher.ToolNameGlob = "a?" }, "only * at the end"},
		"*a":             {func(s *Spec) { s.Matcher.ToolNameGlob = "*a" }, "only * at the end"},
		"a bracket":      {func(s *Spec) { s.Matcher.ToolNameGlob = "[ab]" }, "only * at the end"},
		"a brace":        {func(s *Spec) { s.Matcher.ToolNameGlob = "{a,b}" }, "only * at the end"},
		"several stars":  {func(s *Spec) { s.Matcher.ToolNameGlob = "a**" }, ""},
		"a long pattern": {func(s *Spec) { s.Matcher.ToolNameGlob = strings.Repeat("a", 513) }, "the maximum is 512"},
	} {
		t.Run(name, func(t *testing.T) {
			s := Spec{Event: PreToolUse, Bash: &Bash{Command: "true"}}
			test.change(&s)
			err := s.Validate()
			if (err == nil) != (test.want == "") || (err != nil && !strings.Contains(err.Error(), test.want)) {
				t.Errorf("the error is %v, want %q", err, test.want)
			}
		})
	}
	var s Spec
	if s.TimeoutOrDefault() != 5*time.Second || s.Policy() != OnErrorWarn {
		t.Errorf("the defaults are %v and %s (HOOK-02)", s.TimeoutOrDefault(), s.Policy())
	}
}

// HOOK-22.
// Rules: HOOK-01.
func TestAMatcherChoosesCalls(t *testing.T) {
	arguments := json.RawMessage(`{"a":{"b":"text","n":3,"o":{"x":1},"list":[1],"empty":"","null":null},"$b":"c"}`)
	for name, test := range map[string]struct {
		matcher Matcher
		want    bool
	}{
		"everything":                   {Matcher{}, true},
		"the name":                     {Matcher{ToolName: "delete_file"}, true},
		"a part of the name":           {Matcher{ToolName: "delete"}, false},
		"a beginning":                  {Matcher{ToolNameGlob: "delete*"}, true},
		"an alternative":               {Matcher{ToolNameGlob: "x| delete_file |y*"}, true},
		"no alternative":               {Matcher{ToolNameGlob: "x|delete|y*"}, false},
		"empty alternatives":           {Matcher{ToolNameGlob: "|x| |"}, false},
		"any":                          {Matcher{ToolNameGlob: "*"}, true},
		"the name and another pattern": {Matcher{ToolName: "delete_file", ToolNameGlob: "x*"}, false},
		"a value":                      {Matcher{ArgsPath: "$.a.b"}, true},
		"a value, with empty keys":     {Matcher{ArgsPath: "a..b."}, true},
		"an empty value":               {Matcher{ArgsPath: "a.empty"}, false},
		"null":                         {Matcher{ArgsPath: "a.null"}, false},
		"a missing value":              {Matcher{ArgsPath: "a.c"}, false},
		"a value below a text":         {Matcher{ArgsPath: "a.b.c"}, false},
		"an element":                   {Matcher{ArgsPath: "a.list.0"}, false},
		"a key with a sign":            {Matcher{ArgsPath: "$b"}, true},
		"a text":                       {Matcher{ArgsPath: "a.b", MatchRegex: "ex"}, true},
		"a text from its beginning":    {Matcher{ArgsPath: "a.b", MatchRegex: "^ex"}, false},
		"a denied text":                {Matcher{ArgsPath: "a.b", DenyRegex: "^te"}, true},
		"no denied text":               {Matcher{ArgsPath: "a.b", DenyRegex: "^x"}, false},
		"a number as JSON":             {Matcher{ArgsPath: "a.n", MatchRegex: "^3$"}, true},
		"an object as JSON":            {Matcher{ArgsPath: "a.o", MatchRegex: `^\{"x":1\}$`}, true},
		"a missing text":               {Matcher{ArgsPath: "x", MatchRegex: "^$"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := test.matcher.Compile()
			if err != nil {
				t.Fatal(err)
			}
			if got := m.Match("delete_file", arguments); got != test.want {
				t.Errorf("it matches: %t, want %t", got, test.want)
			}
		})
	}
	m, err := Matcher{ArgsPath: "a", MatchRegex: "x{200}"}.Compile()
	if err != nil {
		t.Fatal(err)
	}
	long, err := json.Marshal(map[string]string{"a": strings.Repeat("y", 90_000)})
	if err != nil {
		t.Fatal(err)
	}
	if !m.Match("t", long) {
		t.Error("long arguments evade the hook")
	}
}

// Rules: HOOK-04, HOOK-05, HOOK-06, VEC-17.
func TestHooksAreNamedAfterTheirSource(t *testing.T) {
	hooks := func(names ...string) (all []Spec) {
		for _, name := range names {
			all = append(all, Spec{Name: name, Event: PostToolUse})
		}
		return all
	}
	ids := func(all []Spec) string {
		var list []string
		for _, s := range all {
			list = append(list, s.ID)
		}
		return strings.Join(list, " ")
	}
	layers := []Contribution{
		{
			Namespace: HarnessLayer("base"), Hooks: hooks("guard", ""),
			Muted: []string{"session:noisy", "cap:post_tool_use_0", "cap:name"},
		},
		{Namespace: AgentLayer("a"), Hooks: hooks("x")},
		{Namespace: SessionLayer, Hooks: hooks("noisy", "kept"), Muted: []string{"harness/base:guard", "session:none"}},
		{Namespace: "cap", Hooks: hooks("", "name", "y")},
		{Namespace: CapabilityObject("cap"), Hooks: hooks("", "y")},
		{Namespace: UserHooks, Hooks: hooks("x"), Muted: []string{"user:x", "agent/a:x"}},
	}
	want := "harness/base:guard harness/base:post_tool_use_1 agent/a:x session:kept cap:y " +
		"object/cap:post_tool_use_0 object/cap:y"
	if got := ids(Finalize(layers)); got != want {
		t.Errorf("the hooks are %s, want %s", got, want)
	}
	if got := strings.Join(MutedAbove(layers), " "); got != "harness/base:guard agent/a:x" {
		t.Errorf("muted in vain: %s", got)
	}
	// A source has no say in its namespace.
	forged := Finalize([]Contribution{{Namespace: SessionLayer, Hooks: []Spec{{ID: "harness/base:guard", Name: "z"}}}})
	if ids(forged) != "session:z" {
		t.Errorf("a forged id: %s", ids(forged))
	}
	if got := Of(Finalize(layers), TurnEnd); got != nil {
		t.Errorf("hooks of another event: %v", got)
	}
}
