package step

import (
	"context"
	"errors"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/act"
	"github.com/capstan-dev/capstan/internal/runtime/excerpt"
	"github.com/capstan-dev/capstan/internal/runtime/modelcall"
	"github.com/capstan-dev/capstan/internal/runtime/ratelimit"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

// RateLimited is a model call that waits for room within the limits of a Model. The caller runs the step again, with
// ReasonAfter and Resume, when there may be some.
type RateLimited struct {
	*modelcall.Limited
	// Resume is what the call continues after.
	Resume *Backoff
}

// rateLimited returns the wait of a call that has no room within the limits of a Model; nil for any other error.
// resume returns what the call continues after.
func rateLimited(err error, resume func(*modelcall.Backoff) *Backoff) *RateLimited {
	var limited *modelcall.Limited
	if !errors.As(err, &limited) {
		return nil
	}
	return &RateLimited{Limited: limited, Resume: resume(limited.Resume)}
}

// Describe records the wait in the status of the Turn. It reports false if the status has one whose time has not come.
func (l *RateLimited) Describe(p *v1alpha1.TurnProgress, now time.Time) bool {
	if WaitsForRateLimit(p) {
		if until := p.WaitsFor[0].Until; until == nil || now.Before(until.Time) {
			return false
		}
	}
	wait := v1alpha1.TurnWait{
		Type: v1alpha1.WaitTypeRateLimit, Reason: v1alpha1.ReasonRateLimited,
		Message: excerpt.Of(l.Error()+" The next call is made once there is room. Nothing needs to be done.", 1024),
	}
	if !l.Until.IsZero() {
		until := metav1.NewMicroTime(l.Until)
		wait.Until = &until
	}
	p.Phase, p.WaitsFor = v1alpha1.TurnPhaseWaiting, []v1alpha1.TurnWait{wait}
	return true
}

// WaitsForRateLimit reports whether the status of a Turn that has begun shows such a wait.
func WaitsForRateLimit(p *v1alpha1.TurnProgress) bool {
	return p.Phase == v1alpha1.TurnPhaseWaiting && len(p.WaitsFor) > 0 &&
		p.WaitsFor[0].Type == v1alpha1.WaitTypeRateLimit
}

// Limit returns the outcome of a call that a rate limit refuses, as it is about to start for the first time; nil if it
// may start (TOOL-14). Each call counts once. The caller must know that no earlier process can have started the call.
func (run *Runner) Limit(
	ctx context.Context, t turnstate.Turn, c turnstate.Config, known *act.Step, call v1alpha1.ToolCall,
) *tool.Outcome {
	if run.ToolLimits == nil || call.Attempt > 1 || tool.InputRound(call) > 0 || known.Row(call.ID).Counted {
		return nil
	}
	planned := c.Tools.Planned(call)
	limit := planned.CallsPerMinute()
	if limit == nil {
		return nil
	}
	of := ratelimit.Tool{
		Namespace: t.Session.Namespace, Kind: string(planned.Source.Kind), Name: planned.Source.Name,
		UID: planned.Source.UID,
	}
	allowed, retryAfter := run.ToolLimits.Allow(ctx, of, *limit)
	if !allowed {
		refused := tool.RateLimited(*limit, retryAfter)
		return &refused
	}
	known.Row(call.ID).Counted = true
	return nil
}
