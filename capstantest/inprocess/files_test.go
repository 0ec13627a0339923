package inprocess_test

import (
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest/inprocess"
)

// filing are a Session with files, and a model that writes one or reads it, as the message asks for.
const filing = `
apiVersion: capstan.dev/v1alpha1
kind: Harness
metadata: {name: base}
spec: {}
---
apiVersion: capstan.dev/v1alpha1
kind: Session
metadata: {name: demo}
spec: {harnessRef: {name: base}, capabilities: [{builtin: session_file_system}]}
`

func fileScript() v1alpha1.Simulation {
	call := func(name, arguments string) []v1alpha1.SimulatedStep {
		return []v1alpha1.SimulatedStep{{Calls: []v1alpha1.SimulatedToolCall{
			{Name: name, Arguments: &v1alpha1.JSON{Raw: []byte(arguments)}},
		}}}
	}
	return v1alpha1.Simulation{
		Response: &v1alpha1.SimulatedResponse{Text: "{{tool:write_file}}{{tool:read_file}}"},
		ToolCalls: &v1alpha1.SimulatedToolCalls{Conditional: []v1alpha1.SimulatedRule{
			{Contains: "write", Sequence: call("write_file", `{"path": "/a", "content": "kept"}`)},
			{Contains: "read", Sequence: call("read_file", `{"path": "/workspace/a"}`)},
		}},
	}
}

// The files of a Session are there in its later Turns, and in another Runtime on the same RecordStore.
func TestFilesAreKept(t *testing.T) {
	store, records := inprocess.NewMemoryStore(), inprocess.NewMemoryRecords()
	begin := func() *inprocess.Runtime {
		r, err := inprocess.New(t.Context(), inprocess.WithYAML(filing), inprocess.WithStore(store),
			inprocess.WithRecords(records), inprocess.WithSimulation(fileScript()))
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	first := begin()
	if turn := run(t, first, message("demo-1", "write")); !strings.Contains(turn.Status.Output, `"created":true`) {
		t.Fatalf("writing: %s", turn.Status.Output)
	}
	for i, r := range []*inprocess.Runtime{first, begin()} {
		turn := run(t, r, message([]string{"demo-2", "demo-3"}[i], "read"))
		if !strings.Contains(turn.Status.Output, `"content":"kept"`) {
			t.Errorf("reading in runtime %d: %s", i, turn.Status.Output)
		}
	}
	other, err := inprocess.New(t.Context(), inprocess.WithYAML(filing),
		inprocess.WithSimulation(fileScript()))
	if err != nil {
		t.Fatal(err)
	}
	if turn := run(t, other, message("demo-1", "read")); !strings.Contains(turn.Status.Output, "/a does not exist.") {
		t.Errorf("reading in a runtime of its own: %s", turn.Status.Output)
	}
	if _, err := inprocess.New(t.Context(), inprocess.WithRecords(nil)); err == nil {
		t.Error("a runtime without a RecordStore was built")
	}
}

// Rules: CFG-06, FS-03, VEC-20, VEC-26.
func TestASessionBeginsWithTheFilesOfItsLayers(t *testing.T) {
	const layers = `
apiVersion: capstan.dev/v1alpha1
kind: Harness
metadata: {name: base}
spec:
  initialFiles: [{path: /workspace/a, content: from the Harness}, {path: /b, content: also}]
---
apiVersion: capstan.dev/v1alpha1
kind: Session
metadata: {name: demo}
spec:
  harnessRef: {name: base}
  capabilities: [{builtin: session_file_system}]
  initialFiles: [{path: a, content: kept, access: ReadOnly}]
`
	r, err := inprocess.New(t.Context(), inprocess.WithYAML(layers), inprocess.WithSimulation(fileScript()))
	if err != nil {
		t.Fatal(err)
	}
	if turn := run(t, r, message("demo-1", "read")); !strings.Contains(turn.Status.Output, `"content":"kept"`) {
		t.Errorf("reading: %s", turn.Status.Output)
	}
	if turn := run(t, r, message("demo-2", "write")); !strings.Contains(turn.Status.Output, "/a is read-only.") {
		t.Errorf("writing: %s", turn.Status.Output)
	}
}

// coding is a Session with files, and a tool that gets them and returns others.
const coding = `
apiVersion: capstan.dev/v1alpha1
kind: Harness
metadata: {name: base}
spec: {}
---
apiVersion: capstan.dev/v1alpha1
kind: Session
metadata: {name: demo}
spec: {harnessRef: {name: base}, capabilities: [{builtin: session_file_system}], tools: [{name: build}]}
---
apiVersion: capstan.dev/v1alpha1
kind: Tool
metadata: {name: build}
spec:
  description: Builds.
  inputSchema: {type: object}
  job: {image: example.org/build:1, command: [/build], files: {inputs: [/a], outputs: [/bin]}}
`

func TestAFunctionGetsFilesAndReturnsOthers(t *testing.T) {
	script := fileScript()
	script.Response.Text += "{{tool:build}}"
	script.ToolCalls.Conditional = append(script.ToolCalls.Conditional,
		v1alpha1.SimulatedRule{
			Contains: "build", Sequence: []v1alpha1.SimulatedStep{{Calls: []v1alpha1.SimulatedToolCall{{Name: "build"}}}},
		},
		v1alpha1.SimulatedRule{
			Contains: "look", Sequence: []v1alpha1.SimulatedStep{{Calls: []v1alpha1.SimulatedToolCall{
				{Name: "read_file", Arguments: &v1alpha1.JSON{Raw: []byte(`{"path": "/bin/a"}`)}},
			}}},
		})
	long := strings.Repeat("built\n", 20_000)
	r, err := inprocess.New(t.Context(), inprocess.WithYAML(coding), inprocess.WithSimulation(script),
		inprocess.WithTool("build", func(call inprocess.Call) (string, string, int) {
			call.Files["/bin/a"] = append([]byte("built of "), call.Files["/a"]...)
			call.Files["/elsewhere"] = []byte("x")
			return long, "", 0
		}))
	if err != nil {
		t.Fatal(err)
	}
	run(t, r, message("demo-1", "write"))
	turn := run(t, r, message("demo-2", "build"))
	if len(turn.Status.ToolCalls) != 1 || turn.Status.ToolCalls[0].State != v1alpha1.ToolCallStateSucceeded {
		t.Fatalf("the call ends with %+v", turn.Status.ToolCalls)
	}
	if turn := run(t, r, message("demo-3", "look")); !strings.Contains(turn.Status.Output, `"content":"built of kept"`) {
		t.Errorf("reading: %s", turn.Status.Output)
	}
}
