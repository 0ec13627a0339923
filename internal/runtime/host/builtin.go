package host

import (
	"context"

	"github.com/capstan-dev/capstan/internal/runtime/tool"
	"github.com/capstan-dev/capstan/internal/runtime/tool/builtin"
)

// builtin carries out one call of a built-in tool.
func (h *Host) builtin(ctx context.Context, t Turn, c Call) (CallEnd, error) {
	var defect error
	end, err := h.Once(ctx, t, c.Call, c.Run, tool.LocalAbandoned(), func(ctx context.Context) (tool.Outcome, error) {
		if c.Definition == nil {
			return tool.HTTPChanged(c.Call), nil
		}
		if !c.Run.begin() && tool.AtMostOnce(c.Call) {
			return tool.LocalAbandoned(), nil
		}
		began := h.Clock()
		var outcome tool.Outcome
		outcome, defect = builtin.Run(ctx, c.Definition, c.Call, builtin.Call{
			Arguments: tool.Given(c.Arguments), Now: began,
		})
		if outcome.Started {
			outcome.StartedAt, outcome.FinishedAt = began, h.Clock()
		}
		return outcome, nil
	})
	end.Defect = defect
	return end, err
}
