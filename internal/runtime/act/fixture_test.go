package act

import (
	"time"

	"github.com/capstan-dev/capstan/internal/runtime/tool"
)

var moment = time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)

// knowing is a step in which a process knows these outcomes, by call id.
func knowing(outcomes map[string]tool.Outcome) *Step {
	step := &Step{}
	for id, outcome := range outcomes {
		step.Row(id).Outcome = &outcome
	}
	return step
}
