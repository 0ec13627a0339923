package host

import (
	"context"
	"strings"

	"github.com/google/uuid"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/model"
)

// holder identifies this Host in the journal.
func (h *Host) holder() string {
	h.identity.once.Do(func() { h.identity.id = uuid.NewString() })
	return h.identity.id
}

// recovered returns the Model of a partial response that an earlier process recorded, if it is used as the response
// (PART-02); nil if the model must be called. The Model must still have this setting, and still be one of the Turn's
// Models. If there was no text yet, or the model had begun to call tools, it is called again: incomplete calls would be
// lost silently.
func recovered(c Config, kept *journal.Partial) *v1alpha1.Model {
	if kept == nil || kept.Discarded || strings.TrimSpace(kept.Text) == "" {
		return nil
	}
	for _, m := range append([]*v1alpha1.Model{c.Model}, c.Fallbacks...) {
		if m != nil && m.Name == kept.Model && m.Spec.Recovery == v1alpha1.ModelRecoveryFinalize {
			return m
		}
	}
	return nil
}

// own discards the parts that this process has recorded for the open step: it runs the step again, and no process has
// died. Only the parts of other processes remain.
func (h *Host) own(ctx context.Context, t Turn, kept *journal.Partial) (*journal.Partial, error) {
	if kept == nil || kept.Holder != h.holder() {
		return kept, nil
	}
	if kept.Discarded {
		return nil, nil
	}
	return nil, discard(ctx, h.draft(t, *kept))
}

// finalize returns the partial response of an earlier process, as if the Model had just returned it. Its cost is
// unknown.
func (h *Host) finalize(m *v1alpha1.Model, kept *journal.Partial) asked {
	now := h.Clock()
	return asked{
		model:    m,
		response: &model.Response{Text: kept.Text, Model: modelName(m)},
		message:  kept.Message,
		began:    now,
		ended:    now,
	}
}
