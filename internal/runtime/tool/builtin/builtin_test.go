package builtin

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
	"github.com/capstan-dev/capstan/internal/runtime/tool/definition"
	"github.com/capstan-dev/capstan/internal/runtime/tool/inputschema"
)

var noon = time.Date(2031, 5, 4, 12, 0, 0, 0, time.UTC)

// definitionOf returns the definition of a tool of a capability.
func definitionOf(t *testing.T, capability, name string) *definition.Definition {
	t.Helper()
	d := Definitions(capability).Find(name)
	if d == nil {
		t.Fatalf("the capability %s has no tool %s", capability, name)
	}
	return d
}

// run carries out a call whose arguments satisfy the schema.
func run(t *testing.T, d *definition.Definition, arguments string) (tool.Outcome, error) {
	t.Helper()
	_, schema := d.Offer()
	if err := inputschema.NewValidator().Validate(schema, arguments); err != nil {
		t.Fatalf("the schema refuses %s: %v", arguments, err)
	}
	planned := v1alpha1.ToolCall{ID: "1-0", Attempt: 1}
	d.Pin(&planned)
	return Run(t.Context(), d, planned, Call{Arguments: arguments, Now: noon})
}

func TestTheCurrentTime(t *testing.T) {
	d := definitionOf(t, "current_time", "get_current_time")
	for name, test := range map[string]struct{ arguments, want string }{
		"in UTC": {`{}`, `{"datetime":"2031-05-04T12:00:00Z","format":"iso8601","timezone":"UTC"}`},
		"elsewhere": {
			`{"timezone": "America/New_York"}`,
			`{"datetime":"2031-05-04T08:00:00-04:00","format":"iso8601","timezone":"America/New_York"}`,
		},
		"in seconds": {`{"format": "unix"}`, `{"timestamp":1935662400,"format":"unix","timezone":"UTC"}`},
		"for people": {
			`{"format": "human", "timezone": "Europe/Berlin"}`,
			`{"datetime":"Sunday, May 4, 2031 at 14:00:00 CEST","format":"human","timezone":"Europe/Berlin"}`,
		},
		"of no zone": {`{"timezone": ""}`, `{"datetime":"2031-05-04T12:00:00Z","format":"iso8601","timezone":"UTC"}`},
		"with a reason": {
			`{"human_intent": "plan the day"}`, `{"datetime":"2031-05-04T12:00:00Z","format":"iso8601","timezone":"UTC"}`,
		},
	} {
		outcome, defect := run(t, d, test.arguments)
		if defect != nil || outcome.State != v1alpha1.ToolCallStateSucceeded ||
			outcome.Reason != v1alpha1.ToolCallReasonCompleted || !outcome.Started || *outcome.Result != test.want {
			t.Errorf("%s: %+v, %v, want %s", name, outcome, defect, test.want)
		}
	}
	for _, zone := range []string{"Mars/Olympus", "Local", "../etc/passwd", "/etc/passwd"} {
		outcome, defect := run(t, d, `{"timezone": "`+zone+`"}`)
		if defect != nil || outcome.State != v1alpha1.ToolCallStateFailed ||
			outcome.Reason != v1alpha1.ToolCallReasonToolError || !strings.Contains(outcome.Error, zone) {
			t.Errorf("zone %s: %+v, %v", zone, outcome, defect)
		}
	}
}

func TestTheListOfTasks(t *testing.T) {
	d := definitionOf(t, "stateless_todo_list", "write_todos")
	task := func(status string) string {
		return `{"content":"Do <it>.","activeForm":"Doing it.","status":"` + status + `"}`
	}
	for name, test := range map[string]struct {
		statuses []string
		counts   string
	}{
		"none": {nil, `"total_tasks":0,"pending":0,"in_progress":0,"completed":0,`},
		"one at a time": {
			[]string{"completed", "in_progress", "pending", "pending"},
			`"total_tasks":4,"pending":2,"in_progress":1,"completed":1,`,
		},
		"all done": {[]string{"completed"}, `"total_tasks":1,"pending":0,"in_progress":0,"completed":1,`},
		"none is begun": {
			[]string{"pending"},
			`"total_tasks":1,"pending":1,"in_progress":0,"completed":0,` +
				`"warning":"No task is in_progress. Mark the one that you work on.",`,
		},
		"two at one time": {
			[]string{"in_progress", "in_progress"},
			`"total_tasks":2,"pending":0,"in_progress":2,"completed":0,` +
				`"warning":"More than one task is in_progress. Work on one at a time.",`,
		},
		"one, and no more": {[]string{"in_progress"}, `"total_tasks":1,"pending":0,"in_progress":1,"completed":0,`},
	} {
		tasks := make([]string, len(test.statuses))
		for i, status := range test.statuses {
			tasks[i] = task(status)
		}
		list := "[" + strings.Join(tasks, ",") + "]"
		outcome, defect := run(t, d, `{"todos": `+list+`}`)
		want := `{"success":true,` + test.counts + `"todos":` + list + `}`
		if defect != nil || outcome.State != v1alpha1.ToolCallStateSucceeded || *outcome.Result != want {
			t.Errorf("%s: %+v, %v, want %s", name, outcome, defect, want)
		}
	}
	_, schema := d.Offer()
	for _, arguments := range []string{`{}`, `{"todos": [{"content": "Do it."}]}`, `{"todos": [` + task("later") + `]}`} {
		if inputschema.NewValidator().Validate(schema, arguments) == nil {
			t.Errorf("the schema accepts %s", arguments)
		}
	}
}

// What a tool returns decides how its call ends (TOOL-05).
func TestHowACallOfABuiltinToolEnds(t *testing.T) {
	secret := errors.New("password: hunter2")
	for name, test := range map[string]struct {
		class  v1alpha1.SideEffect
		run    func() (any, error)
		state  v1alpha1.ToolCallState
		reason string
		text   string
		defect string
	}{
		"with a result": {
			run:   func() (any, error) { return map[string]string{"a": "<b>"}, nil },
			state: v1alpha1.ToolCallStateSucceeded, reason: v1alpha1.ToolCallReasonCompleted, text: `{"a":"<b>"}`,
		},
		"with an error for the model": {
			run:   func() (any, error) { return nil, Errorf("There is no %s.", "sky") },
			state: v1alpha1.ToolCallStateFailed, reason: v1alpha1.ToolCallReasonToolError, text: "There is no sky.",
		},
		"with a defect": {
			run:   func() (any, error) { return nil, secret },
			state: v1alpha1.ToolCallStateFailed, reason: v1alpha1.ToolCallReasonInternalError,
			text:   "An internal error occurred while executing the tool. It is safe to call it again.",
			defect: "hunter2",
		},
		"with a panic": {
			run:   func() (any, error) { panic("password: hunter2") },
			state: v1alpha1.ToolCallStateFailed, reason: v1alpha1.ToolCallReasonInternalError,
			text:   "An internal error occurred while executing the tool. It is safe to call it again.",
			defect: "hunter2",
		},
		"with a result that is not JSON": {
			run:   func() (any, error) { return func() {}, nil },
			state: v1alpha1.ToolCallStateFailed, reason: v1alpha1.ToolCallReasonInternalError,
			text:   "An internal error occurred while executing the tool. It is safe to call it again.",
			defect: "unsupported type",
		},
		"with a defect after it may have changed something": {
			class: v1alpha1.SideEffectAtMostOnce,
			run:   func() (any, error) { return nil, secret },
			state: v1alpha1.ToolCallStateUnknown, reason: v1alpha1.ToolCallReasonInternalError,
			text:   tool.UnknownText("an internal error occurred while it was executed"),
			defect: "hunter2",
		},
	} {
		t.Run(name, func(t *testing.T) {
			Register(Capability{Name: "test_endings", Tools: []Tool{{
				Name: "test_ending", Description: "Ends.", SideEffect: test.class,
				Run: func(context.Context, Call) (any, error) { return test.run() },
			}}})
			outcome, defect := run(t, definitionOf(t, "test_endings", "test_ending"), `{}`)
			text := outcome.Error
			if outcome.Result != nil {
				text = *outcome.Result
			}
			if outcome.State != test.state || outcome.Reason != test.reason || text != test.text || !outcome.Started {
				t.Errorf("it ends with %+v, want %s %s %q", outcome, test.state, test.reason, test.text)
			}
			if (defect == nil) != (test.defect == "") || defect != nil && !strings.Contains(defect.Error(), test.defect) {
				t.Errorf("the log has %v, want %q", defect, test.defect)
			}
		})
	}
}

// A registration replaces an earlier one of the same name (TOOL-04).
func TestARegistrationReplacesAnEarlierOne(t *testing.T) {
	for _, name := range []string{"test_first", "test_second"} {
		Register(Capability{Name: "test_replaced", Tools: []Tool{{
			Name: name, Description: "Names itself.",
			Run: func(context.Context, Call) (any, error) { return name, nil },
		}}})
	}
	first := definition.Builtin("test_replaced", definition.Definition{Name: "test_first"})
	if outcome, defect := run(t, first, `{}`); outcome.State != v1alpha1.ToolCallStateNotExecuted ||
		outcome.Reason != v1alpha1.ToolCallReasonToolChanged || defect != nil {
		t.Errorf("the replaced tool ends with %+v, %v", outcome, defect)
	}
	outcome, defect := run(t, definitionOf(t, "test_replaced", "test_second"), `{}`)
	if defect != nil || outcome.Result == nil || *outcome.Result != `"test_second"` {
		t.Errorf("the tool ends with %+v, %v", outcome, defect)
	}
	if _, known := Find("unheard_of"); known || len(Definitions("unheard_of")) != 0 ||
		!slices.Contains(Names(), "stateless_todo_list") {
		t.Errorf("the capabilities are %v", Names())
	}
}

// documentedTools returns the capability of each tool in the table of the users' document.
func documentedTools(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile("../../../../docs/tools.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "| capability | tool | what it does |\n| --- | --- | --- |\n")
	table, _, _ = strings.Cut(table, "\n\n")
	code := regexp.MustCompile("`([a-z_]+)`")
	tools := map[string]string{}
	for row := range strings.Lines(table) {
		cells := strings.Split(row, "|")
		for _, name := range code.FindAllStringSubmatch(cells[2], -1) {
			tools[name[1]] = code.FindStringSubmatch(cells[1])[1]
		}
	}
	return tools
}

// The document names the capabilities of each level of risk above Low.
func TestTheRisksAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../../../docs/capabilities.md")
	if err != nil {
		t.Fatal(err)
	}
	risky := map[v1alpha1.CapabilityRisk][]string{}
	for _, name := range Names() {
		if found, _ := Find(name); !strings.HasPrefix(name, "test_") {
			risky[found.Risk] = append(risky[found.Risk], name)
		}
	}
	_, sentence, _ := strings.Cut(string(text), "of the built-in ones ")
	sentence, _, _ = strings.Cut(sentence, "the others Low.")
	high, medium, _ := strings.Cut(sentence, "High, ")
	code := regexp.MustCompile("`([a-z_]+)`")
	for risk, part := range map[v1alpha1.CapabilityRisk]string{
		v1alpha1.CapabilityRiskHigh: high, v1alpha1.CapabilityRiskMedium: medium,
	} {
		var documented []string
		for _, name := range code.FindAllStringSubmatch(part, -1) {
			documented = append(documented, name[1])
		}
		slices.Sort(risky[risk])
		if !slices.Equal(documented, risky[risk]) {
			t.Errorf("of the risk %s are %v, and the document names %v", risk, risky[risk], documented)
		}
	}
}

func TestEveryBuiltinToolCanBeOffered(t *testing.T) {
	seen := map[string]string{}
	for _, capability := range Names() {
		if strings.HasPrefix(capability, "test_") {
			continue
		}
		for _, d := range Definitions(capability) {
			description, schema := d.Offer()
			if !strings.Contains(d.Name, "_") || description == "" || !json.Valid(schema) || inputschema.Check(schema) != nil {
				t.Errorf("%s of %s is described as %q, %s", d.Name, capability, description, schema)
			}
			if other := seen[d.Name]; other != "" {
				t.Errorf("%s and %s both have %s", other, capability, d.Name)
			}
			seen[d.Name] = capability
			class := v1alpha1.SideEffectPure
			if slices.Contains([]string{
				"write_file", "edit_file", "create_directory", "delete_file", "web_fetch", "spawn_background",
				"cancel_background_task", "set_value", "delete_value", "delete_secret", "set_session_title",
				"create_memory", "forget_memory", "view_image", "delete_image",
				"register_resource", "update_resource", "deregister_resource", "release_resource",
				"cancel_background_task", "create_schedule", "cancel_schedule",
				"cancel_background_task", "sql_execute", "sql_create_database", "sql_delete_database",
			}, d.Name) {
				class = v1alpha1.SideEffectIdempotent
			}
			if d.Executor != v1alpha1.ToolExecutorBuiltin || d.SideEffect != class ||
				d.Source.UID != "" || len(d.Digest()) != 40 {
				t.Errorf("%s is planned as %+v", d.Name, d)
			}
		}
	}
	// Package config makes the tools of these, from the blueprints of the Session and with its ServiceAccount.
	seen["spawn_subagent"] = "subagents"
	for _, tool := range PlatformTools {
		if other := seen[tool.Name]; other != "" || inputschema.Check([]byte(tool.InputSchema)) != nil {
			t.Errorf("%s of platform is that of %q, or has the schema %s", tool.Name, other, tool.InputSchema)
		}
		seen[tool.Name] = "platform"
	}
	if documented := documentedTools(t); !maps.Equal(seen, documented) {
		t.Errorf("the tools are %v, and docs/tools.md has %v", seen, documented)
	}
	const digest = "6bf6bd043060a661112a820b33e7106e8446b8f9"
	if got := definitionOf(t, "current_time", "get_current_time").Digest(); got != digest {
		t.Errorf("the digest is %s, and was %s: calls that are planned would end as ToolChanged with an upgrade", got, digest)
	}
}
