package inprocess_test

import (
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/capstantest/inprocess"
)

// TestWhereAMissingObjectIsReported: what a Session needs is missed when the Runtime is built, the Session itself when
// a Turn names it (ERR-05).
func TestWhereAMissingObjectIsReported(t *testing.T) {
	simulated := inprocess.WithSimulation(calling())
	for name, test := range map[string]struct {
		options []inprocess.Option
		message string
	}{
		"a Harness": {
			[]inprocess.Option{simulated, inprocess.WithYAML(
				`{apiVersion: capstan.dev/v1alpha1, kind: Session, metadata: {name: other}, spec: {harnessRef: {name: none}}}`)},
			`Harness "none"`,
		},
		"an Agent": {
			[]inprocess.Option{simulated, inprocess.WithYAML(`{apiVersion: capstan.dev/v1alpha1, kind: Session,
				metadata: {name: other}, spec: {harnessRef: {name: base}, agentRef: {name: none}}}`)},
			`Agent "none"`,
		},
		"a model": {nil, "there is no model"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := inprocess.New(t.Context(), append([]inprocess.Option{inprocess.WithYAML(base)}, test.options...)...)
			if err == nil || !strings.Contains(err.Error(), test.message) {
				t.Errorf("New = %v", err)
			}
		})
	}
	runtime := start(t, simulated)
	turn := message("demo-1", "Go.")
	turn.Spec.SessionRef.Name = "other"
	if _, err := runtime.RunTurn(
		t.Context(),
		turn,
	); err == nil ||
		!strings.Contains(err.Error(), `session not found: "other"`) {
		t.Errorf("RunTurn = %v", err)
	}
}
