package testmath

import (
	"testing"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/tool/builtin"
)

func TestArithmetic(t *testing.T) {
	for name, want := range map[string]string{"add": "8", "subtract": "4", "multiply": "12", "divide": "3"} {
		d := builtin.Definitions(Capability).Find(name)
		if d == nil {
			t.Fatalf("there is no tool %s", name)
		}
		outcome, defect := builtin.Run(t.Context(), d, v1alpha1.ToolCall{}, builtin.Call{Arguments: `{"a": 6, "b": 2}`})
		if defect != nil || outcome.Result == nil || *outcome.Result != `{"result":`+want+`}` {
			t.Errorf("%s: %+v, %v", name, outcome, defect)
		}
	}
	outcome, defect := builtin.Run(t.Context(), builtin.Definitions(Capability).Find("divide"), v1alpha1.ToolCall{},
		builtin.Call{Arguments: `{"a": 6, "b": 0}`})
	if defect != nil || outcome.Reason != v1alpha1.ToolCallReasonToolError {
		t.Errorf("a division by 0: %+v, %v", outcome, defect)
	}
}
