package invocation

import (
	"context"

	"github.com/capstan-dev/capstan/internal/runtime/tool"
	"github.com/capstan-dev/capstan/internal/runtime/tool/builtin"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

// builtin prepares a call of a built-in tool.
func (run *Runner) builtin(_ context.Context, _ turnstate.Turn, c Call) (work, error) {
	w := work{abandoned: tool.CallAbandoned()}
	if c.Definition == nil {
		changed := tool.CallChanged(c.Call)
		w.refused = &changed
		return w, nil
	}
	w.do = func(ctx context.Context) (tool.Outcome, error) {
		return builtin.Run(ctx, c.Definition, c.Call, builtin.Call{Arguments: tool.ArgumentsOrEmpty(c.Arguments), Now: run.Clock()})
	}
	return w, nil
}
