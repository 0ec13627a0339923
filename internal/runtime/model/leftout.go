package model

import (
	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/leftout"
)

// maxScriptBytes is the size up to which the script of a simulated model stays in a cache.
const maxScriptBytes = 4 << 10

// LeaveOut replaces a large script of a Model by a mark. Caches that keep many Models use it, and read the Model later.
func LeaveOut(m *v1alpha1.Model) {
	script := m.Spec.Simulation
	if script == nil || LeftOut(m) {
		return
	}
	if n := leftout.Size(script); n > maxScriptBytes {
		m.Spec.Simulation = &v1alpha1.Simulation{Response: &v1alpha1.SimulatedResponse{Text: leftout.Mark(n, "")}}
	}
}

// LeftOut reports whether LeaveOut has dropped the script of the Model.
func LeftOut(m *v1alpha1.Model) bool {
	script := m.Spec.Simulation
	return script != nil && script.Response != nil && leftout.Is(script.Response.Text)
}
