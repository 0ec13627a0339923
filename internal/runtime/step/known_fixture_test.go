package step

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/internal/runtime/act"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
)

// facts is a process's knowledge about the calls of an act step, by call id.
type facts struct {
	Outcomes map[string]tool.Outcome
	Settled  map[string]journal.SettledRef
	Kept     map[string]journal.SettledRef
	Sources  map[string]types.UID
	Planned  []journal.PlannedCall
}

func (f facts) step() *act.Step {
	step := &act.Step{Planned: f.Planned}
	for id, outcome := range f.Outcomes {
		step.Row(id).Outcome = &outcome
	}
	for id, source := range f.Sources {
		step.Row(id).Source = source
	}
	for id, ref := range f.Settled {
		step.Row(id).RecordedResult = ref
	}
	for id, recorded := range f.Kept {
		step.Row(id).RecordedOutcome = recorded
	}
	return step
}

// clientOutcome is the outcome of a call with a client's result.
func clientOutcome(call journal.SettledCall) tool.Outcome {
	return act.OutcomeOf(call)
}
