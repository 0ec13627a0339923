package journal

import (
	"context"
	"fmt"

	"github.com/capstan-dev/capstan/internal/runtime/excerpt"
)

// MaxPieceBytes is the most text of a streaming response that one entry holds. It fits an entry however much JSON
// escapes of it.
const MaxPieceBytes = 64 << 10

// Partial is the journal's record of a response that was streaming (PART-01).
type Partial struct {
	// Message identifies the attempt that received it.
	Message string
	// Model is the name of the Model that was answering.
	Model string
	// Holder identifies the process that received it.
	Holder string
	// Text that had arrived. It may be empty.
	Text string
	// Discarded reports whether the text is not the response: the model had begun to call tools, or the attempt has
	// failed.
	Discarded bool
}

// Draft records a response while it streams. Only one goroutine uses it at a time.
type Draft struct {
	log      *Log
	session  Session
	turn     Turn
	step     int32
	openedAt int64
	partial  Partial
	// writer is kept from part to part: each reads only the new entries of the journal.
	writer *writer
}

// Draft starts to record a response of an open step: message, Model and holder are those of the Partial. Nothing is
// written yet.
func (l *Log) Draft(s Session, turn Turn, step int32, openedAt int64, of Partial) *Draft {
	return &Draft{log: l, session: s, turn: turn, step: step, openedAt: openedAt, partial: of}
}

// Keep updates the journal to the text that has arrived so far, which only ever grows. A step that another process has
// closed accepts no more: closed reports it. The error is ErrFull or the error of the store; after any of them some of
// the text may be there, and calling Keep again, with the same text or more, is safe.
func (d *Draft) Keep(ctx context.Context, text string) (closed bool, err error) {
	for {
		known, closed, err := d.known(ctx)
		if err != nil || closed {
			return closed, err
		}
		if known.Discarded || len(text) <= len(known.Text) {
			return false, nil
		}
		offset := len(known.Text)
		piece := d.piece(PartialContentText)
		piece.Offset, piece.Text = int64(offset), excerpt.Head(text[offset:], MaxPieceBytes)
		// A part whose create has timed out may still appear. The next part begins after it.
		if err := d.write(
			ctx,
			piece,
			func() bool { return len(d.writer.partialOf(d.partial.Message).Text) == offset },
		); err != nil {
			return false, err
		}
	}
}

// Discard marks the recorded text as not the response. It needs no room within the Session's limit. Calling it again is
// safe.
func (d *Draft) Discard(ctx context.Context) (closed bool, err error) {
	known, closed, err := d.known(ctx)
	if err != nil || closed || known.Discarded {
		return closed, err
	}
	bounded := d.writer.bounded
	d.writer.bounded = false
	defer func() { d.writer.bounded = bounded }()
	err = d.write(
		ctx,
		d.piece(PartialContentDiscarded),
		func() bool { return !d.writer.partialOf(d.partial.Message).Discarded },
	)
	return d.writer.final != nil, err
}

// known is the journal's text of the response, and whether another process has closed the step.
func (d *Draft) known(ctx context.Context) (Partial, bool, error) {
	if d.writer == nil {
		w, err := d.log.writer(ctx, d.session, d.turn, d.step, d.openedAt)
		if err != nil {
			return Partial{}, false, d.failed(err)
		}
		d.writer = w
	}
	if err := d.writer.to(ctx, d.writer.state.at()); err != nil {
		return Partial{}, false, d.failed(err)
	}
	return d.writer.partialOf(d.partial.Message), d.writer.final != nil, nil
}

func (d *Draft) piece(content PartialContent) PartialAnswer {
	return PartialAnswer{
		Message: d.partial.Message,
		Model:   d.partial.Model,
		Holder:  d.partial.Holder,
		Content: content,
	}
}

func (d *Draft) write(ctx context.Context, piece PartialAnswer, wanted func() bool) error {
	d.writer.time = d.writer.now()
	e, err := d.writer.write(
		ctx,
		Entry{Partial: &piece},
		remainder{},
		func() (bool, error) { return wanted(), nil },
	)
	if err == nil && e != nil {
		err = d.writer.foldOwn(ctx, e)
	}
	if err != nil {
		return d.failed(err)
	}
	return nil
}

func (d *Draft) failed(err error) error {
	return fmt.Errorf("recording the partial response of step %d of Turn %s: %w", d.step, d.turn.Name, err)
}

// Open is an open step, as the journal has it.
type Open struct {
	// Head is the ordinal of the newest entry.
	Head int64
	// Partial is the recorded partial response, the one that began last (GAP-14); nil for none.
	Partial *Partial
	// Prompt is the Turn's message after its hooks; nil if they have not run.
	Prompt *HookedPrompt
	// Response is the content of a response whose calls hooks look at; nil for none.
	Response []byte
}

// Resume looks for the entry that closed a step, as Find does; nil without an error means that the step is open. It
// always reads the store's first free ordinal.
func (l *Log) Resume(ctx context.Context, s Session, turn Turn, step int32, openedAt int64) (*Closed, Open, error) {
	w := l.walk(s, turn.UID, step, openedAt)
	if err := w.toEnd(ctx); err != nil {
		return nil, Open{}, err
	}
	if w.final != nil {
		closed, err := w.outcome(ctx)
		return closed, Open{}, err
	}
	open := Open{Head: w.next - 1, Prompt: w.prompt, Response: w.response.whole()}
	if len(w.partials) > 0 {
		newest := *w.partials[len(w.partials)-1]
		open.Partial = &newest
	}
	return nil, open, nil
}

// keep adds a part of a response. A part that does not follow the known text was written twice, or its predecessor is
// missing.
func (w *walk) keep(found *entry) {
	piece := found.spec.Partial
	w.ownBytes += found.size
	var p *Partial
	for _, known := range w.partials {
		if known.Message == piece.Message {
			p = known
		}
	}
	if p == nil {
		p = &Partial{Message: piece.Message, Model: piece.Model, Holder: piece.Holder}
		w.partials = append(w.partials, p)
	}
	if piece.Offset == int64(len(p.Text)) {
		p.Text += piece.Text
	}
	p.Discarded = p.Discarded || piece.Content == PartialContentDiscarded
}

// partialOf returns the recorded text of a message.
func (w *walk) partialOf(message string) Partial {
	for _, p := range w.partials {
		if p.Message == message {
			return *p
		}
	}
	return Partial{Message: message}
}
