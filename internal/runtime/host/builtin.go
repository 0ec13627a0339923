package host

import (
	"context"

	"github.com/capstan-dev/capstan/internal/runtime/tool"
	"github.com/capstan-dev/capstan/internal/runtime/tool/builtin"
)

// builtin prepares a call of a built-in tool.
func (h *Host) builtin(_ context.Context, _ Turn, c Call) (work, error) {
	w := work{abandoned: tool.LocalAbandoned()}
	if c.Definition == nil {
		changed := tool.HTTPChanged(c.Call)
		w.refused = &changed
		return w, nil
	}
	w.do = func(ctx context.Context) (tool.Outcome, error) {
		return builtin.Run(ctx, c.Definition, c.Call, builtin.Call{Arguments: tool.Given(c.Arguments), Now: h.Clock()})
	}
	return w, nil
}
