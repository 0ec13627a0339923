package plan

import (
	"testing"
)

func TestMaxIterationsDefaultIs500(t *testing.T) {
	result := ReasonResult{Success: true, HasToolCalls: true}
	state := testState()
	state.Iteration = 499
	planOf[ScheduleAct](t, AfterReason(state, result, 0, Facts{}))
	state.Iteration = 500
	planOf[Complete](t, AfterReason(state, result, 0, Facts{}))
}
