package host

import (
	"context"
	"strings"

	"github.com/google/uuid"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/model"
)

// holder tells this Host from all others, in the log.
func (h *Host) holder() string {
	h.identity.once.Do(func() { h.identity.id = uuid.NewString() })
	return h.identity.id
}

// recovered is the Model whose answer an earlier process has kept, if that is to be taken for the answer (PART-02); nil
// if the model is to be asked. The Model must say so now as well, and still be one that answers in the Turn. Where
// nothing was said, or the model had begun to call tools, it is asked again: calls that are not whole would be lost
// without a word.
func recovered(c Config, kept *journal.Partial) *v1alpha1.Model {
	if kept == nil || kept.Discarded || strings.TrimSpace(kept.Text) == "" {
		return nil
	}
	for _, m := range append([]*v1alpha1.Model{c.Model}, c.Fallbacks...) {
		if m != nil && m.Name == kept.Model && m.Spec.Recovery == v1alpha1.RecoveryFinalize {
			return m
		}
	}
	return nil
}

// own takes back what this process itself has kept of the open step's answer: the step is run again, and nobody has
// died. What is left is what another process has kept.
func (h *Host) own(ctx context.Context, t Turn, kept *journal.Partial) (*journal.Partial, error) {
	if kept == nil || kept.Holder != h.holder() {
		return kept, nil
	}
	if kept.Discarded {
		return nil, nil
	}
	return nil, discard(ctx, h.draft(t, *kept))
}

// finalize is the answer that an earlier process kept, as if the Model had just given it. What it cost nobody knows.
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
