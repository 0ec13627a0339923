package step

import (
	"context"
	"strings"

	"github.com/google/uuid"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/runtime/modelcall"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

// holder identifies this Runner in the journal.
func (run *Runner) holder() string {
	run.identity.once.Do(func() { run.identity.id = uuid.NewString() })
	return run.identity.id
}

// recovered returns the Model of a partial response that an earlier process recorded, if it is used as the response
// (PART-02); nil if the model must be called. The Model must still have this setting, and still be one of the Turn's
// Models. If there was no text yet, or the model had begun to call tools, it is called again: incomplete calls would be
// lost silently.
func recovered(c turnstate.Config, kept *journal.Partial) *v1alpha1.Model {
	if kept == nil || kept.Discarded || strings.TrimSpace(kept.Text) == "" {
		return nil
	}
	for _, m := range c.Models() {
		if m.Name == kept.Model && m.Spec.Recovery == v1alpha1.ModelRecoveryFinalize {
			return m
		}
	}
	return nil
}

// own discards the parts that this process has recorded for the open step: it runs the step again, and no process has
// died. Only the parts of other processes remain.
func (run *Runner) own(ctx context.Context, t turnstate.Turn, kept *journal.Partial) (*journal.Partial, error) {
	if kept == nil || kept.Holder != run.holder() {
		return kept, nil
	}
	if kept.Discarded {
		return nil, nil
	}
	return nil, discard(ctx, run.draft(t, *kept))
}

// finalize returns the partial response of an earlier process, as if the Model had just returned it. Its cost is
// unknown.
func (run *Runner) finalize(m *v1alpha1.Model, kept *journal.Partial) modelcall.Result {
	now := run.Clock()
	return modelcall.Result{
		Model:    m,
		Response: &model.Response{Text: kept.Text, Model: model.Name(m)},
		Began:    now,
		Ended:    now,
	}
}
