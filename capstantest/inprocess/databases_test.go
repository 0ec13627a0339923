package inprocess_test

import (
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest/inprocess"
)

// The databases of a Session are there in its later Turns, and the model is told what is wrong with its SQL.
// Rules: SVC-05.
func TestDatabasesAreKept(t *testing.T) {
	const session = `
apiVersion: capstan.dev/v1alpha1
kind: Harness
metadata: {name: base}
spec: {}
---
apiVersion: capstan.dev/v1alpha1
kind: Session
metadata: {name: demo}
spec: {harnessRef: {name: base}, capabilities: [{builtin: session_sql_database}]}
`
	call := func(name, arguments string) []v1alpha1.SimulatedStep {
		return []v1alpha1.SimulatedStep{{Calls: []v1alpha1.SimulatedToolCall{
			{Name: name, Arguments: &v1alpha1.JSON{Raw: []byte(arguments)}},
		}}}
	}
	r, err := inprocess.New(t.Context(), inprocess.WithYAML(session), inprocess.WithSimulation(v1alpha1.Simulation{
		Response: &v1alpha1.SimulatedResponse{Text: "{{tool:sql_execute}}{{tool:sql_query}}"},
		ToolCalls: &v1alpha1.SimulatedToolCalls{Conditional: []v1alpha1.SimulatedRule{
			{Contains: "write", Sequence: call("sql_execute",
				`{"database": "d", "sql": "CREATE TABLE t (a); INSERT INTO t VALUES ('<kept>')"}`)},
			{
				Contains: "read",
				Sequence: call("sql_query", `{"database": "d", "sql": "SELECT a, ? AS b FROM t", "params": [7]}`),
			},
			{Contains: "attach", Sequence: call("sql_execute", `{"database": "d", "sql": "ATTACH 'x' AS y"}`)},
		}},
	}))
	if err != nil {
		t.Fatal(err)
	}
	for i, test := range []struct{ message, want string }{
		{"write", `"rows_affected":1`},
		{"read", `"columns":["a","b"],"rows":[["<kept>",7]],"truncated":false,"row_count":1`},
		{"attach", "blocked: a call uses one database"},
	} {
		turn := run(t, r, message("demo-"+string(rune('1'+i)), test.message))
		if !strings.Contains(turn.Status.Output, test.want) {
			t.Errorf("%s yields %s", test.message, turn.Status.Output)
		}
	}
}
