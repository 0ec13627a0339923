package act

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/journal/format"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
)

func TestAKeptOutcomeIsReadAsItWasWritten(t *testing.T) {
	started := time.Date(2026, 1, 2, 3, 4, 5, 1, time.UTC)
	for name, outcome := range map[string]tool.Outcome{
		"succeeded": {
			State: v1alpha1.ToolCallStateSucceeded, Reason: "Completed", Result: new(""),
			Started: true, StartedAt: started, FinishedAt: started,
		},
		"failed": {
			State: v1alpha1.ToolCallStateFailed, Reason: "HTTPStatus", Error: "no",
			Started: true, StartedAt: started, FinishedAt: started,
		},
		"not executed": tool.CallUnclaimed(),
	} {
		got := OutcomeOf(SettledOf("1-0", outcome))
		if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", withResult(outcome, got.Result)) ||
			(got.Result == nil) != (outcome.Result == nil) {
			t.Errorf("%s: %+v became %+v", name, outcome, got)
		}
	}
	if got := OutcomeOf(
		format.SettledCall{ID: "1-0", Error: new("no")},
	); got.Reason != "ClientError" ||
		!strings.Contains(got.Error, "no") {
		t.Errorf("a client's error became %+v", got)
	}
}

func withResult(o tool.Outcome, result *string) tool.Outcome {
	o.Result = result
	return o
}
