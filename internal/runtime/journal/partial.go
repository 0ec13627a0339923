package journal

import (
	"context"
	"fmt"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// Partial is what the log has of an answer that was coming in (PART-01).
type Partial struct {
	// Message is the id that the answer was to have.
	Message string
	// Model is the provider's name of the model that was answering.
	Model string
	// Text that had come. It may be empty.
	Text string
	// ToolCalls says that the model had begun to call tools.
	ToolCalls bool
}

// KeepPartial writes down a piece of an answer that is still coming in, unless it is there already. A step that somebody has closed takes no more:
// closed says so. The error is ErrFull, ErrTooLarge (a text of up to 64 KiB always fits), or what the store said; calling it again is safe.
func (l *Log) KeepPartial(
	ctx context.Context, s Session, turn Turn, step int32, openedAt int64, piece v1alpha1.PartialAnswer,
) (closed bool, err error) {
	if piece.Message == "" {
		return false, fmt.Errorf("a piece of an answer needs the id of its message")
	}
	w, err := l.writer(ctx, s, turn, step, openedAt)
	if err != nil {
		return false, err
	}
	wanted := func() (bool, error) { return !w.has(piece), nil }
	e, err := w.write(ctx, v1alpha1.JournalEntrySpec{Partial: &piece}, remainder{}, wanted)
	if err != nil {
		return false, fmt.Errorf("keeping what came of the answer of step %d of Turn %s: %w", step, turn.Name, err)
	}
	if e != nil {
		return false, w.took(ctx, e)
	}
	return w.final != nil, nil
}

// Resume looks for the entry that closed a step, as Find does, and of a step that is open for what an earlier process kept of its answer: of the
// one that began last (GAP-14). Both nil without an error says that the step is open and nothing was kept. It always asks the store for the first
// free ordinal.
func (l *Log) Resume(ctx context.Context, s Session, turn Turn, step int32, openedAt int64) (*Closed, *Partial, error) {
	w := l.walk(s, turn.UID, step, openedAt)
	if err := w.toEnd(ctx); err != nil {
		return nil, nil, err
	}
	if w.final != nil {
		closed, err := w.outcome(ctx)
		return closed, nil, err
	}
	if len(w.partials) == 0 {
		return nil, nil, nil
	}
	newest := *w.partials[len(w.partials)-1]
	return nil, &newest, nil
}

// keep takes a piece of an answer up. One that does not follow what is there is a piece that was written twice, or one whose forerunner is missing.
func (w *walk) keep(piece *v1alpha1.PartialAnswer) {
	p := w.partialOf(piece.Message)
	if p == nil {
		p = &Partial{Message: piece.Message, Model: piece.Model}
		w.partials = append(w.partials, p)
	}
	if piece.Offset == int64(len(p.Text)) {
		p.Text += piece.Text
	}
	p.ToolCalls = p.ToolCalls || piece.Content == v1alpha1.PartialToolCalls
}

// partialOf is what was kept of a message; nil for nothing.
func (w *walk) partialOf(message string) *Partial {
	for _, p := range w.partials {
		if p.Message == message {
			return p
		}
	}
	return nil
}

// has says that a piece is in the log already, or that nothing more is to be said of its message.
func (w *walk) has(piece v1alpha1.PartialAnswer) bool {
	p := w.partialOf(piece.Message)
	switch {
	case p == nil:
		return false
	case p.ToolCalls:
		return true
	case piece.Content == v1alpha1.PartialToolCalls:
		return false
	default:
		return piece.Offset < int64(len(p.Text))
	}
}
