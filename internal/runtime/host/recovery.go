package host

import (
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/model"
)

// finalized says that what an earlier process kept of the answer is taken for the whole (PART-02). Where nothing was said, or the model had begun
// to call tools, it is asked again: calls that are not whole would be lost without a word.
func (g generation) finalized() bool {
	return g.kept != nil && g.kept.Text != "" && !g.kept.ToolCalls
}

// finalize is the answer that an earlier process kept, as if the model had just given it. What it cost nobody knows.
func (h *Host) finalize(kept *journal.Partial) asked {
	now := h.Clock()
	return asked{
		response: &model.Response{Text: kept.Text, Model: kept.Model},
		message:  kept.Message,
		began:    now,
		ended:    now,
	}
}
