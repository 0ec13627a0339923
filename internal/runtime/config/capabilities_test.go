package config

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/capability"
	"github.com/capstan-dev/capstan/internal/runtime/tool/builtin"
)

// used are capabilities without a configuration.
func used(ids ...string) []capability.Use {
	return capability.Merge(nil, capabilities(ids...))
}

// register adds a built-in capability for one test, with one tool.
func register(c builtin.Capability) {
	c.Tools = append(c.Tools, builtin.Tool{Name: c.Name + "_tool", Description: "Works."})
	builtin.Register(c)
}

// Rules: CAP-04.
func TestTheCapabilitiesAddTheirPromptsInTheirOrder(t *testing.T) {
	register(builtin.Capability{Name: "test_over", DependsOn: []string{"test_under"}, Prompt: "Look above."})
	register(builtin.Capability{Name: "test_under", Prompt: "Look below."})
	r := &Resolved{Effective: Effective{Capabilities: used("current_time", "test_over", "unheard_of")}}
	want := []capability.Prompt{{ID: "test_under", Text: "Look below."}, {ID: "test_over", Text: "Look above."}}
	if got := r.Prompts(); !slices.Equal(got, want) {
		t.Errorf("the prompts are %+v, want %+v", got, want)
	}
}

// Rules: CAP-03, CAP-04, CFG-10.
func TestCapabilitiesBringThoseThatTheyDependOn(t *testing.T) {
	register(builtin.Capability{Name: "test_upper", DependsOn: []string{"test_lower", "current_time"}})
	register(builtin.Capability{Name: "test_lower"})
	register(builtin.Capability{Name: "test_round", DependsOn: []string{"test_trip"}})
	register(builtin.Capability{Name: "test_trip", DependsOn: []string{"test_round"}})
	register(builtin.Capability{Name: "test_torn", DependsOn: []string{"test_nowhere"}})
	for name, test := range map[string]struct {
		uses   []capability.Use
		tools  string
		reason string
		parts  []string
	}{
		"a dependency precedes": {
			uses:  used("stateless_todo_list", "test_upper"),
			tools: "write_todos test_lower_tool get_current_time test_upper_tool",
		},
		"a dependency that is named comes where it is needed first": {
			uses: used("test_upper", "test_lower"), tools: "test_lower_tool get_current_time test_upper_tool",
		},
		"a dependency has the configuration of the layers": {
			uses:  append(used("test_upper"), capability.Use{ID: "current_time", Config: `{"timezone":"Europe/Berlin"}`}),
			tools: "test_lower_tool get_current_time test_upper_tool",
		},
		"a cycle": {
			uses: used("current_time", "test_round"), tools: "get_current_time test_trip_tool test_round_tool",
			reason: v1alpha1.ReasonCapabilityInvalid,
			parts:  []string{`Capability "test_round" depends on itself (test_round -> test_trip -> test_round).`},
		},
		"a dependency that does not exist": {
			uses: used("test_torn"), tools: "test_torn_tool", reason: v1alpha1.ReasonCapabilityNotFound,
			parts: []string{"no capability of these names: test_nowhere."},
		},
		"a configuration that violates the schema": {
			uses:   []capability.Use{{ID: "current_time", Config: `{"zone":"UTC"}`}, {ID: "stateless_todo_list"}},
			tools:  "write_todos",
			reason: v1alpha1.ReasonCapabilityInvalid,
			parts:  []string{`Capability "current_time" has an invalid config: it does not match the schema:`, "zone"},
		},
		"a configuration with a wrong value": {
			uses:   []capability.Use{{ID: "current_time", Config: `{"timezone":"Mars/Olympus"}`}},
			reason: v1alpha1.ReasonCapabilityInvalid,
			parts:  []string{`invalid config: There is no time zone "Mars/Olympus".`},
		},
		"a configuration where there is none": {
			uses:   []capability.Use{{ID: "stateless_todo_list", Config: `{}`}},
			reason: v1alpha1.ReasonCapabilityInvalid, parts: []string{"the capability has no configuration"},
		},
		"a configuration that is too large": {
			uses:   []capability.Use{{ID: "current_time", Config: `{"timezone":"` + strings.Repeat("x", 2048) + `"}`}},
			reason: v1alpha1.ReasonCapabilityInvalid, parts: []string{"more than 2048 bytes"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			harness := &v1alpha1.Harness{ObjectMeta: metav1.ObjectMeta{Name: "base"}}
			r := &Resolved{Part: true, HarnessName: "base", Harness: harness, Effective: Effective{Capabilities: test.uses}}
			var tools []string
			for _, d := range r.Definitions() {
				tools = append(tools, d.Name)
			}
			if got := strings.Join(tools, " "); got != test.tools {
				t.Errorf("the tools are %q, want %q", got, test.tools)
			}
			reason, message := r.Problem()
			if reason != test.reason {
				t.Errorf("the reason is %q (%s), want %q", reason, message, test.reason)
			}
			for _, part := range test.parts {
				if !strings.Contains(message, part) {
					t.Errorf("the message %q does not contain %q", message, part)
				}
			}
			blocker := r.Blocker()
			if (blocker != nil) != (test.reason != "") {
				t.Fatalf("the blocker is %+v", blocker)
			}
			if blocker != nil && (blocker.Dependency != DependencyCapabilities || blocker.Problem != message ||
				blocker.Sentence() != "Execution stopped because a capability cannot be used.") {
				t.Errorf("the blocker is %+v: %s", blocker, blocker.Sentence())
			}
		})
	}
}
