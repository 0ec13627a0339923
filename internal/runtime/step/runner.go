package step

import (
	"context"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/hook"
	"github.com/capstan-dev/capstan/internal/runtime/invocation"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/modelcall"
	"github.com/capstan-dev/capstan/internal/runtime/ratelimit"
	"github.com/capstan-dev/capstan/internal/runtime/subagent"
	"github.com/capstan-dev/capstan/internal/runtime/tool/inputschema"
	"github.com/capstan-dev/capstan/internal/runtime/trace"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

// Runner runs steps.
type Runner struct {
	// Runner carries out calls. Its journal is where every step ends, and its client and its Secrets are also for the
	// requests to model providers.
	invocation.Runner
	// Options are those of model calls.
	modelcall.Options
	// ToolLimits decide whether a tool call may start. Nil: each may.
	ToolLimits ratelimit.Limiter
	// Validator checks the model's arguments.
	Validator *inputschema.Validator
	// Hooks run the hooks of Sessions.
	Hooks hook.Executors
	// Hooked reports whether a Turn has hooks that look at its message. Nil: none has.
	Hooked func(ctx context.Context, t turnstate.Turn) (bool, error)
	// SubAgents bounds the sub-agents of Turns.
	SubAgents subagent.Limits
	// Traces exports the spans of Turns. Nil exports none.
	Traces trace.Sink
	// OnUndelivered is called with the cause each time that a response cannot be appended. The response is kept. It may
	// be nil.
	OnUndelivered func(ctx context.Context, t turnstate.Turn, err error)

	// identity identifies this Runner.
	identity struct {
		once sync.Once
		id   string
	}
}

// events builds the events of the Turn.
func (run *Runner) events(t turnstate.Turn) event.Factory {
	return event.NewFactory(t.Identity(), run.Clock)
}

// recordOf returns the entry that closes the open step, without its content.
func recordOf(t turnstate.Turn) journal.Record {
	r := journal.Record{Turn: t.Ref, Step: t.Step(), OpenedAt: t.Progress.Plan.OpenedAtOrdinal}
	if t.Step() == 1 {
		r.Digest = t.Digest()
	}
	return r
}

// opening returns the first events of a Turn: the message, and that the Session works on it (LIFE-01, EVT-04).
func (run *Runner) opening(t turnstate.Turn) []event.Event {
	if t.Step() != 1 {
		return nil
	}
	began := run.Clock()
	if sum := t.Progress.Summary; sum != nil && sum.StartedAt != nil {
		began = sum.StartedAt.Time
	}
	f := run.events(t).At(began)
	input := f.InputMessage(t.Message())
	if t.Rewritten() {
		input = f.RewrittenMessage(t.Message(), t.Original())
	}
	return []event.Event{input, f.SessionActivated(), f.TurnStarted(t.Input)}
}

// Sources are the UIDs of the ToolResults that a closed step has accepted.
func Sources(closed *journal.Closed) []types.UID {
	var uids []types.UID
	for _, e := range closed.Events {
		if uid := e.Context[contextToolResult]; uid != "" {
			uids = append(uids, types.UID(uid))
		}
	}
	return uids
}

// contextToolResult names the ToolResult behind a tool.completed event: the one with its result, or with the decision
// about it.
const contextToolResult = "tool_result_uid"

// contextToolImage names in a tool.completed event the image, with its digest, that the container of the call ran.
const contextToolImage = "tool_image"

// append closes the open step.
func (run *Runner) append(ctx context.Context, t turnstate.Turn, r journal.Record) (*journal.Closed, error) {
	closed, err := run.Log.Append(ctx, t.Session, r)
	if err != nil {
		return nil, fmt.Errorf("closing step %d of Turn %s: %w", t.Step(), t.Ref.Name, err)
	}
	return closed, nil
}
