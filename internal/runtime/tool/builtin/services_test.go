package builtin

import (
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/record"
	"github.com/capstan-dev/capstan/internal/runtime/record/memory"
	"github.com/capstan-dev/capstan/internal/runtime/storage"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
)

// call calls a tool with services, and fails the test for a defect.
func call(t *testing.T, services Services, cause record.Cause, capability, name, arguments string) tool.Outcome {
	t.Helper()
	d := definitionOf(t, capability, name)
	planned := v1alpha1.ToolCall{ID: "1-0", Attempt: 1}
	d.Pin(&planned)
	outcome, defect := Run(t.Context(), d, planned, Call{
		Arguments: arguments, Now: noon, Services: services, Cause: cause,
	})
	if defect != nil {
		t.Fatalf("%s %s: %v", name, arguments, defect)
	}
	return outcome
}

// Each tool of each capability is called where its host provides nothing.
//
// Rules: CTX-01.
func TestAMissingServiceIsNamed(t *testing.T) {
	missing := map[string]string{
		"background_tasks":     "background tasks",
		"memory":               "memory",
		"session_file_system":  "files",
		"session_images":       "images",
		"session_resources":    "resources",
		"session_schedule":     "schedules",
		"session_sql_database": "databases",
		"session_storage":      "storage",
		"session_title":        "title that can be set",
		"web_fetch":            "web access",
	}
	seen := map[string]bool{}
	for _, capability := range Names() {
		c, _ := Find(capability)
		for _, tool := range c.Tools {
			if tool.Name == "spawn_background" || missing[capability] == "" {
				continue // It never runs, or needs no service.
			}
			outcome := call(t, Services{}, record.Cause{}, capability, tool.Name, "{}")
			service := missing[capability]
			if strings.Contains(tool.Name, "_secret") {
				service = "secrets"
			}
			if tool.Name == "release_resource" {
				service = "leases"
			}
			if want := "This session has no " + service + "."; outcome.Error != want ||
				outcome.Reason != v1alpha1.ToolCallReasonToolError {
				t.Errorf("%s ends with %+v, want %s", tool.Name, outcome, want)
			}
			seen[capability] = true
		}
	}
	if len(seen) != len(missing) {
		t.Errorf("the capabilities with services are %v", seen)
	}
}

// Rules: KV-01.
func TestTheToolsForValues(t *testing.T) {
	services := Services{Storage: storage.Of(record.New(memory.New(), record.Options{}),
		record.Session{Namespace: "default", Name: "demo", UID: "1"})}
	for n, test := range []struct{ tool, arguments, want string }{
		{"list_values", `{}`, `{"values":[]}`},
		{"set_value", `{"key": "city", "value": "Köln <1>"}`, `{"key":"city","size":9,"created":true}`},
		{"set_value", `{"key": "city", "value": "Bonn"}`, `{"key":"city","size":4,"created":false}`},
		{"get_value", `{"key": "town"}`, `! The key "town" does not exist.`},
		{"delete_value", `{"key": "city"}`, `{"existed":true}`},
		{"delete_value", `{"key": "city"}`, `{"existed":false}`},
		{"set_value", `{"key": "a\u0000", "value": ""}`, `! "a\x00" cannot be a key: ` +
			`it must have 1 to 256 bytes of printable characters.`},
	} {
		cause := record.Cause{Step: int64(n + 1), Key: "turn/1-0"}
		outcome := call(t, services, cause, "session_storage", test.tool, test.arguments)
		got := "! " + outcome.Error
		if outcome.Result != nil {
			got = *outcome.Result
		}
		if got != test.want {
			t.Errorf("%s %s returns %s, want %s", test.tool, test.arguments, got, test.want)
		}
	}
}

// Rules: KV-01.
func TestManyValuesAreListedInParts(t *testing.T) {
	store := storage.Of(record.New(memory.New(), record.Options{}),
		record.Session{Namespace: "default", Name: "demo", UID: "1"})
	services := Services{Storage: store}
	for n := range maxListed + 1 {
		cause := record.Cause{Step: int64(n + 1), Key: "turn/1-0"}
		if _, err := store.Set(t.Context(), cause, "key-"+strings.Repeat("a", n), ""); err != nil {
			t.Fatal(err)
		}
	}
	first := *call(t, services, record.Cause{}, "session_storage", "list_values", `{}`).Result
	if strings.Count(first, `"key"`) != maxListed || !strings.HasSuffix(first, `"more":true}`) {
		t.Errorf("the first part has %d keys and ends with %s", strings.Count(first, `"key"`), first[len(first)-40:])
	}
	after := `{"after": "key-` + strings.Repeat("a", maxListed-1) + `"}`
	second := *call(t, services, record.Cause{}, "session_storage", "list_values", after).Result
	if strings.Count(second, `"key"`) != 1 || strings.Contains(second, `"more"`) {
		t.Errorf("the second part is %.200s", second)
	}
}
