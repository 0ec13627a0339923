package invocation

import (
	"context"
	"errors"

	"github.com/capstan-dev/capstan/internal/runtime/act"
	"github.com/capstan-dev/capstan/internal/runtime/invocation/executor"
	"github.com/capstan-dev/capstan/internal/runtime/invocation/httptool"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
)

// Alone sends the request of a call of an HTTP tool that belongs to no Turn, and returns its outcome. Nothing is
// claimed or recorded, and no lease is kept. What the call would wait for in a Turn is its error.
func (run *Runner) Alone(ctx context.Context, c executor.Call) (tool.Outcome, error) {
	process := run.process()
	process.Leases = nil
	c.Claimed = func(context.Context) (bool, error) { return false, nil }
	w, err := httptool.Executor{}.Prepare(ctx, process, c)
	var missing *act.MissingSecret
	switch {
	case errors.As(err, &missing):
		return tool.NotExecuted(missing.Reason, missing.Problem), nil
	case err != nil:
		return tool.Outcome{}, err
	case w.Refused != nil:
		return *w.Refused, nil
	}
	return w.Do(ctx)
}
