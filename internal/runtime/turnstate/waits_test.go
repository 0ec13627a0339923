package turnstate

import (
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/act"
)

func TestMissingReferencesAreNamedOnceAndFew(t *testing.T) {
	var calls []v1alpha1.ToolCall
	var step act.Step
	for _, id := range []string{"1-0", "1-1", "1-2", "1-3", "1-4", "1-5", "1-6"} {
		w := &act.MissingSecret{Tool: id, Reason: v1alpha1.ReasonSecretMissing, Problem: strings.Repeat("x", 2000)}
		if id == "1-1" {
			w.Tool = "1-0"
		}
		call := v1alpha1.ToolCall{ID: id, Executor: v1alpha1.ToolExecutorHTTP}
		step.Withhold(&call, w, moment.Time)
		calls = append(calls, call)
	}
	calls[2].Reason = v1alpha1.ToolCallReasonStarting
	waits := ReferenceWaits(calls, &step)
	if len(waits) != MaxWaits || !strings.Contains(waits[1].Message, `"1-3"`) || len(waits[0].Message) > 1024 {
		t.Errorf("%d waits: %+v", len(waits), waits)
	}
}
