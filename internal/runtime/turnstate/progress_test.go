package turnstate

import (
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/act"
	"github.com/capstan-dev/capstan/internal/runtime/plan"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
)

func TestCancelledBeforeStartHasNoOpenStep(t *testing.T) {
	p := CancelledBeforeStart(moment)
	if p.Phase != v1alpha1.TurnPhaseCancelled || p.Plan.Phase != v1alpha1.PlanPhaseComplete || p.Plan.Step != 0 ||
		p.Error.Code != v1alpha1.ErrorCodeCancelled {
		t.Errorf("progress %+v", p)
	}
}

func TestTheStatusOfCallsShowsWhatIsKnown(t *testing.T) {
	p := v1alpha1.TurnProgress{
		Phase:   v1alpha1.TurnPhaseAct,
		Plan:    &v1alpha1.TurnPlan{Phase: v1alpha1.PlanPhaseAct},
		Summary: &v1alpha1.TurnSummary{ToolCalls: 5, FailedToolCalls: 2},
		ToolCalls: []v1alpha1.ToolCall{
			{ID: "2-0", State: v1alpha1.ToolCallStateRunning},
			{ID: "2-1", State: v1alpha1.ToolCallStateWaiting},
		},
	}
	known := &act.Step{}
	known.Row("2-0").Outcome = &tool.Outcome{State: v1alpha1.ToolCallStateFailed, Reason: "ExitCode", Error: "boom"}
	ShowCalls(&p, known, false, nil)
	if c := p.ToolCalls[0]; c.State != v1alpha1.ToolCallStateFailed || c.Reason != "ExitCode" || c.Preview != "boom" {
		t.Errorf("call %+v", c)
	}
	if p.Summary.Calls != "4/5, 3 failed" || p.Phase != v1alpha1.TurnPhaseAct {
		t.Errorf("calls %s, phase %s", p.Summary.Calls, p.Phase)
	}
	ShowCalls(&p, nil, true, nil)
	if p.Phase != v1alpha1.TurnPhaseWaitingForToolResults {
		t.Errorf("phase %s", p.Phase)
	}
}

// Rules: ERR-03.
func TestFieldsOfAFailureAreShortText(t *testing.T) {
	e := turnError(plan.Failure{
		Code:   v1alpha1.ErrorCodeModelUnavailable,
		Fields: map[string]string{v1alpha1.ErrorFieldModelID: strings.Repeat("m", 1000), "n": "3"},
	}, "Sorry.")
	if len(e.Fields["model_id"]) > 256 || e.Fields["n"] != "3" || e.Message != "Sorry." ||
		e.Code != v1alpha1.ErrorCodeModelUnavailable {
		t.Errorf("error %+v", e)
	}
}
