package inprocess_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest/inprocess"
)

// researching is the example of docs/capabilities.md.
func researching(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile("../../docs/capabilities.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "```yaml\n")
	example, _, found := strings.Cut(rest, "```")
	if !found {
		t.Fatal("docs/capabilities.md has no example")
	}
	return example
}

// noting is a model that writes a file and reads the rules.
func noting(path string) v1alpha1.Simulation {
	script := calling([]string{"write_file"}, []string{"read_file"})
	arguments := func(values map[string]string) *v1alpha1.JSON {
		raw, _ := json.Marshal(values)
		return &v1alpha1.JSON{Raw: raw}
	}
	script.ToolCalls.Sequence[0].Calls[0].Arguments = arguments(map[string]string{"path": path, "content": "x"})
	script.ToolCalls.Sequence[1].Calls[0].Arguments = arguments(map[string]string{"path": "/rules.md"})
	script.Response.Text = "{{tool:read_file}}"
	return script
}

// Rules: CAP-01, CAP-03, CAP-04, CAP-05, INSPECT-01, PHASE-07, PHASE-08.
func TestTheExampleOfACapability(t *testing.T) {
	for _, path := range []string{"/notes/a", "/a"} {
		runtime := start(t, inprocess.WithYAML(researching(t)), inprocess.WithDefaultSession("papers"),
			inprocess.WithSimulation(noting(path)))
		found, err := runtime.LoadContext(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(found.SystemPrompt, "<capability id=\"object/research\">\nTake notes in /notes, as /rules.md "+
			"demands.\n\n<config>\n{\"language\":\"French\"}\n</config>\n</capability>\n\n<system-prompt>\nBe brief.") {
			t.Errorf("the prompt is %s", found.SystemPrompt)
		}
		if len(found.Capabilities) != 2 || found.Capabilities[0].ID != "session_file_system" ||
			found.Capabilities[1].ID != "object/research" || found.Capabilities[1].Risk != "Medium" ||
			found.Capabilities[1].Description != "Reads papers and takes notes." {
			t.Errorf("the capabilities are %+v", found.Capabilities)
		}
		if len(found.Hooks) != 1 || found.Hooks[0].ID != "object/research:notes" {
			t.Errorf("the hooks are %+v", found.Hooks)
		}
		turn := run(t, runtime, &v1alpha1.Turn{
			ObjectMeta: message("papers-1", "").ObjectMeta,
			Spec:       v1alpha1.TurnSpec{SessionRef: v1alpha1.LocalReference{Name: "papers"}, Input: "Go."},
		})
		if !strings.Contains(turn.Status.Output, "One file for each paper.") {
			t.Errorf("%s: the Turn ended as %+v", path, turn.Status)
		}
		messages, err := runtime.Messages(t.Context(), "papers")
		if err != nil {
			t.Fatal(err)
		}
		raw, err := json.Marshal(messages)
		if err != nil {
			t.Fatal(err)
		}
		if blocked := strings.Contains(string(raw), "blocked"); blocked != (path == "/a") {
			t.Errorf("%s: the call is blocked: %t: %s", path, blocked, raw)
		}
	}
}

// Rules: BLK-01, CFG-10.
func TestACapabilityThatIsArchivedStopsATurn(t *testing.T) {
	bundle := strings.Replace(researching(t), "tools: [{name: look}]", "tools: [{name: ask}]", 1)
	runtime := start(t, inprocess.WithYAML(bundle), inprocess.WithDefaultSession("papers"),
		inprocess.WithSimulation(calling([]string{"ask"})))
	run(t, runtime, &v1alpha1.Turn{
		ObjectMeta: message("papers-1", "").ObjectMeta,
		Spec:       v1alpha1.TurnSpec{SessionRef: v1alpha1.LocalReference{Name: "papers"}, Input: "Go."},
	})
	archived := &v1alpha1.Capability{
		ObjectMeta: message("research", "").ObjectMeta,
		Spec:       v1alpha1.CapabilitySpec{Lifecycle: v1alpha1.LifecycleArchived},
	}
	if err := runtime.Apply(archived); err != nil {
		t.Fatal(err)
	}
	turn := await(t, runtime, "papers-1", func(turn *v1alpha1.Turn) bool {
		return turn.Status.Phase == v1alpha1.TurnPhaseFailed
	})
	if reason(turn) != "False DependencyUnavailable" ||
		!strings.Contains(turn.Status.Error.Message, "capability was archived") {
		t.Errorf("the Turn ended as %+v", turn.Status)
	}
}
