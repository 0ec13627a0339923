package step

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/background"
	"github.com/capstan-dev/capstan/internal/runtime/excerpt"
	"github.com/capstan-dev/capstan/internal/runtime/hook"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

// pinTask plans a call that starts a tool as a background task (TOOL-20). It is planned with the definition of that
// tool, whose schema, policy and digest count: a call in the background needs the same approval as any other.
func (run *Runner) pinTask(
	t turnstate.Turn, c turnstate.Config, p *journal.PlannedCall, s v1alpha1.ToolCall, call model.ToolCall,
	refuse func(reason, text string) v1alpha1.ToolCall,
) v1alpha1.ToolCall {
	spawned := background.Unwrap(call.Arguments)
	d := c.Tools.Find(spawned.Tool)
	switch {
	case t.Depth > 0:
		return refuse(v1alpha1.ToolCallReasonBackgroundForbidden,
			"The tool was not executed: a sub-agent cannot start background tasks, because its session ends with its "+
				"result. Call the tool itself.")
	case d == nil:
		return refuse(v1alpha1.ToolCallReasonToolNotFound,
			"Tool definition not found: "+excerpt.Of(spawned.Tool, 64))
	case !background.Allowed(d.Spec()):
		return refuse(v1alpha1.ToolCallReasonBackgroundForbidden, fmt.Sprintf(
			"The tool was not executed: %s cannot run in the background. Call it directly.", excerpt.Of(spawned.Tool, 64)))
	}
	_, schema := d.Offer()
	if err := run.Validator.Validate(schema, string(spawned.Arguments)); err != nil {
		return refuse(v1alpha1.ToolCallReasonInvalidArguments, "The tool was not executed: "+err.Error())
	}
	if hookedAfter(c, d.Name, spawned.Arguments) {
		return refuse(v1alpha1.ToolCallReasonBackgroundForbidden, fmt.Sprintf(
			"The tool was not executed: hooks look at the results of %s, and they do not run in the background. Call it "+
				"directly.", d.Name))
	}
	d.PinTask(&s)
	s.Background = d.Name
	p.Display = d.DisplayName
	run.approve(t, &s, d, call.Arguments)
	return s
}

// hookedAfter reports whether hooks look at the result of a tool. That of a task comes as a message, past them.
func hookedAfter(c turnstate.Config, name string, arguments json.RawMessage) bool {
	if len(hook.Of(c.Hooks, hook.PostToolUse)) == 0 {
		return false
	}
	ctx, cancel := hook.WithStepBudget(context.Background())
	defer cancel()
	return hook.AnyMatches(ctx, c.Hooks, hook.PostToolUse, []hook.ToolCall{{Tool: name, Arguments: arguments}})
}
