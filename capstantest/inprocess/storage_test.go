package inprocess_test

import (
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest/inprocess"
)

// storing are a Session with storage, and another one.
const storing = `
apiVersion: capstan.dev/v1alpha1
kind: Harness
metadata: {name: base}
spec: {capabilities: [{builtin: session_storage}]}
---
apiVersion: capstan.dev/v1alpha1
kind: Session
metadata: {name: demo}
spec: {harnessRef: {name: base}}
---
apiVersion: capstan.dev/v1alpha1
kind: Session
metadata: {name: other}
spec: {harnessRef: {name: base}}
`

func storageScript() v1alpha1.Simulation {
	call := func(name, arguments string) []v1alpha1.SimulatedStep {
		return []v1alpha1.SimulatedStep{{Calls: []v1alpha1.SimulatedToolCall{
			{Name: name, Arguments: &v1alpha1.JSON{Raw: []byte(arguments)}},
		}}}
	}
	return v1alpha1.Simulation{
		Response: &v1alpha1.SimulatedResponse{Text: "{{tool:set_value}}{{tool:get_value}}"},
		ToolCalls: &v1alpha1.SimulatedToolCalls{Conditional: []v1alpha1.SimulatedRule{
			{Contains: "write", Sequence: call("set_value", `{"key": "city", "value": "Bonn"}`)},
			{Contains: "read", Sequence: call("get_value", `{"key": "city"}`)},
		}},
	}
}

// The values of a Session are there in its later Turns, in another Runtime on the same RecordStore, and in no other
// Session.
//
// Rules: CTX-06, KV-01.
func TestValuesAreKept(t *testing.T) {
	store, records := inprocess.NewMemoryStore(), inprocess.NewMemoryRecords()
	begin := func() *inprocess.Runtime {
		r, err := inprocess.New(t.Context(), inprocess.WithYAML(storing), inprocess.WithStore(store),
			inprocess.WithRecords(records), inprocess.WithSimulation(storageScript()))
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
		if !strings.Contains(turn.Status.Output, `"value":"Bonn"`) {
			t.Errorf("reading in runtime %d: %s", i, turn.Status.Output)
		}
	}
	elsewhere := message("other-1", "read")
	elsewhere.Spec.SessionRef.Name = "other"
	if turn := run(t, first, elsewhere); !strings.Contains(turn.Status.Output, `The key "city" does not exist.`) {
		t.Errorf("reading in another Session: %s", turn.Status.Output)
	}
}
