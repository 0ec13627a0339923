package host

import (
	"context"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/model"
)

const (
	// keepEvery is how often what has come of an answer is written down at most (HB-02). What comes in less time is asked for again.
	keepEvery = 5 * time.Second
	// maxPiece is the most text that one piece has, in bytes, so that it always fits an entry. What is more waits for the next piece.
	maxPiece = 64 << 10
)

// recording writes down what comes of one answer, for as long as it is text, so that a later process can take it for the answer (PART-02). It does
// not hold up what comes: one piece is written at a time, and a piece that cannot be written ends the recording.
type recording struct {
	keep  func(v1alpha1.PartialAnswer) (goOn bool)
	clock func() time.Time
	// message and model are the same in all pieces.
	message, model string

	mu      sync.Mutex
	heard   model.Partial
	kept    int64 // bytes of the text that are in the log
	last    time.Time
	writing bool
	over    bool
	done    sync.WaitGroup
}

// record begins to write down an answer of a Model.
func (h *Host) record(ctx context.Context, t Turn, r model.Request, message string) *recording {
	rec := &recording{clock: h.Clock, message: message, model: cut(r.Model, 256), last: h.Clock()}
	rec.keep = func(piece v1alpha1.PartialAnswer) bool {
		closed, err := h.Log.KeepPartial(ctx, t.Session, t.Ref, t.step(), t.Progress.Plan.OpenedAt, piece)
		return err == nil && !closed
	}
	return rec
}

// end waits for the piece that is being written: what closes the step comes behind it.
func (r *recording) end() {
	r.done.Wait()
}

// hear takes note of what has come, and writes it down when it is time.
func (r *recording) hear(p model.Partial) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.heard = p
	if !r.writing {
		r.begin()
	}
}

// begin begins to write the next piece, if there is one to be written now.
func (r *recording) begin() {
	piece, due := r.next()
	if !due {
		return
	}
	r.writing = true
	r.done.Go(func() {
		goOn := r.keep(piece)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.writing, r.last, r.over = false, r.clock(), r.over || !goOn
		r.kept += int64(len(piece.Text))
		if r.heard.ToolCalls {
			r.begin()
		}
	})
}

// next is the piece that is to be written now. That the model calls tools is said at once where text was written: that text must not become the
// answer any more.
func (r *recording) next() (piece v1alpha1.PartialAnswer, due bool) {
	piece = v1alpha1.PartialAnswer{Message: r.message, Model: r.model, Content: v1alpha1.PartialText, Offset: r.kept}
	switch {
	case r.over:
		return piece, false
	case r.heard.ToolCalls:
		r.over = true
		piece.Content = v1alpha1.PartialToolCalls
		return piece, r.kept > 0
	case int64(len(r.heard.Text)) <= r.kept || r.clock().Sub(r.last) < keepEvery:
		return piece, false
	}
	piece.Text = whole(r.heard.Text[r.kept:], maxPiece)
	return piece, utf8.ValidString(piece.Text)
}

// whole is as much of a text as fits, cut between characters.
func whole(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:limit]
}
