package turn

import (
	"context"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
)

// startOrBlock starts the calls that may start now. A blocked Turn starts none: running calls continue, and then the
// Turn ends with the known results (BLK-02).
func (r *Reconciler) startOrBlock(ctx context.Context, a *actScope) (flow, error) {
	switch {
	case a.config.Blocker == nil:
		return r.start(ctx, a)
	case a.settled(), a.underWay():
		return proceed, nil
	default:
		return r.block(ctx, a)
	}
}

// underWay reports whether a call of the step that has no result yet has begun. A call whose pod is gated and not
// recorded has not: it is withdrawn.
func (a *actScope) underWay() bool {
	for _, call := range a.calls() {
		if _, done := a.step.outcomes[call.ID]; done || tool.Withdrawable(call) {
			continue
		}
		switch call.Executor {
		case v1alpha1.ToolExecutorJob:
			if name, job := a.job(call); job != nil || a.step.attempted[name] {
				return true
			}
		case v1alpha1.ToolExecutorHTTP:
			if call.State == v1alpha1.ToolCallStateRunning {
				return true
			}
		case v1alpha1.ToolExecutorNone, v1alpha1.ToolExecutorClient:
		}
	}
	return false
}
