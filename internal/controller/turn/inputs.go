package turn

import (
	"context"
	"fmt"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller/executor"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
)

// givenFiles are the files that a Job gets. Their memory counts until a pass takes them.
type givenFiles struct {
	text    string
	refused *tool.Outcome
}

// Bytes implements executor.Sized.
func (g givenFiles) Bytes() int64 { return int64(len(g.text)) }

// inputs reads the files that the Job of a call gets, as an activity. It reports whether the Job may be created: with
// the files, which are empty for a Tool that shares none, unless the call is refused.
func (r *Reconciler) inputs(
	a *actScope, call v1alpha1.ToolCall, job *v1alpha1.JobTool,
) (files string, refused *tool.Outcome, ready bool, err error) {
	if job.Files == nil {
		return "", nil, true, nil
	}
	key := executor.Key{Turn: a.turn.UID, Step: a.plan().Step, Call: call.ID + "/inputs", Attempt: call.Attempt}
	turn, config, need := a.turnState(), a.config, a.need()
	need.Bytes = longOutputBytes
	value, done, err := r.do(a.scope, a.step, key, need, func(ctx context.Context) (any, error) {
		text, refused, err := r.Steps.EncodedInputs(ctx, turn, config, job)
		return givenFiles{text: text, refused: refused}, err
	})
	if err != nil || !done {
		return "", nil, false, err
	}
	given, ok := value.(givenFiles)
	if !ok {
		return "", nil, false, fmt.Errorf("unexpected files for call %s: %T", call.ID, value)
	}
	return given.text, given.refused, true, nil
}
