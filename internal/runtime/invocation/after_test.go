package invocation

import (
	"context"
	"errors"
	"testing"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
)

// TestOnlyTheOutcomeThatHooksHaveLeftIsRecorded: no process can read what the tool has returned before them.
func TestOnlyTheOutcomeThatHooksHaveLeftIsRecorded(t *testing.T) {
	for name, class := range map[string]v1alpha1.SideEffect{
		"at most once": v1alpha1.SideEffectAtMostOnce, "repeatable": v1alpha1.SideEffectPure,
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			turn, call := acting(v1alpha1.ToolExecutorJob, class)
			c := Call{Call: call, Attempt: NewAttempt(&Line{})}
			c.After = func(_ context.Context, outcome tool.Outcome) (tool.Outcome, error) {
				if *outcome.Result != "secret" || outcome.FinishedAt.IsZero() {
					t.Errorf("the hooks see %+v", outcome)
				}
				text := "redacted"
				outcome.Result = &text
				return outcome, nil
			}
			end, err := b.Local(t.Context(), turn, c, func(context.Context) tool.Outcome { return succeeded("secret") })
			if err != nil || *end.Outcome.Result != "redacted" {
				t.Fatalf("it ends with %+v, %v", end, err)
			}
			claims, err := b.Log.Claims(t.Context(), session, turn.Ref.UID, 2, 1)
			if err != nil || len(claims) > 0 && *claims[0].Settled.Call.Result != "redacted" {
				t.Errorf("the journal has %+v, %v", claims, err)
			}
		})
	}
}

// TestACallWhoseHooksWereStoppedHasNoOutcome: it is unknown then, as any call whose process has ended.
func TestACallWhoseHooksWereStoppedHasNoOutcome(t *testing.T) {
	b := newBench(t)
	turn, call := acting(v1alpha1.ToolExecutorJob, v1alpha1.SideEffectAtMostOnce)
	c := Call{Call: call, Attempt: NewAttempt(&Line{})}
	c.After = func(context.Context, tool.Outcome) (tool.Outcome, error) { return tool.Outcome{}, context.Canceled }
	started := 0
	do := func(context.Context) tool.Outcome { started++; return succeeded("secret") }
	if _, err := b.Local(t.Context(), turn, c, do); !errors.Is(err, context.Canceled) || b.entries() != 1 {
		t.Fatalf("%v, %d entries", err, b.entries())
	}
	end, err := b.Local(t.Context(), turn, c, do)
	if err != nil || end.Outcome.State != v1alpha1.ToolCallStateUnknown || started != 1 {
		t.Errorf("it ends with %+v, %v, and was started %d times", end, err, started)
	}
}
