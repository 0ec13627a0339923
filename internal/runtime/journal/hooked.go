package journal

import (
	"bytes"
	"context"
	"fmt"
)

// maxResponsePiece is the most content of a response that one entry holds. It fits an entry in base64.
const maxResponsePiece = 256 << 10

// hookedResponse is a response whose calls are checked by hooks, as the journal has it.
type hookedResponse struct {
	total   int64
	content []byte
}

// add adds a part. The first response that is whole counts; until then another one may begin, because the process that
// wrote the parts so far may have ended. A part that does not follow the known content was written twice.
func (h *hookedResponse) add(part HookedResponse) {
	if h.whole() != nil {
		return
	}
	if part.Offset == 0 {
		h.total, h.content = part.Total, nil
	}
	if part.Total == h.total && part.Offset == int64(len(h.content)) {
		h.content = append(h.content, part.Content...)
	}
}

// whole is the content; nil if parts are missing.
func (h *hookedResponse) whole() []byte {
	if h.total == 0 || int64(len(h.content)) != h.total {
		return nil
	}
	return h.content
}

// KeepPrompt records the message of a Turn after its hooks, unless one is recorded already: then it returns that one.
// It returns the entry that closes the step instead if the step is closed. The error is ErrFull or the error of the
// store; calling it again is safe.
func (l *Log) KeepPrompt(
	ctx context.Context, s Session, turn Turn, step int32, openedAt int64, prompt HookedPrompt,
) (*HookedPrompt, *Closed, error) {
	w, err := l.writer(ctx, s, turn, step, openedAt)
	if err != nil {
		return nil, nil, err
	}
	e, err := w.write(ctx, Entry{Prompt: &prompt}, remainder{}, func() (bool, error) { return w.prompt == nil, nil })
	if err != nil {
		return nil, nil, fmt.Errorf("recording what hooks made of the message of Turn %s: %w", turn.Name, err)
	}
	if e != nil {
		return &prompt, nil, w.foldOwn(ctx, e)
	}
	if err := w.toEnd(ctx); err != nil {
		return nil, nil, err
	}
	if w.final == nil {
		return w.prompt, nil, nil
	}
	closed, err := w.outcome(ctx)
	return nil, closed, err
}

// KeepResponse records a response whose calls hooks look at. It returns the entry that closes the step instead if the
// step is closed. The error is ErrFull or the error of the store; calling it again, with the same content, is safe.
func (l *Log) KeepResponse(
	ctx context.Context, s Session, turn Turn, step int32, openedAt int64, content []byte,
) (*Closed, error) {
	w, err := l.writer(ctx, s, turn, step, openedAt)
	if err != nil {
		return nil, err
	}
	failed := func(err error) error {
		return fmt.Errorf("recording the response of step %d of Turn %s: %w", step, turn.Name, err)
	}
	for w.final == nil && w.response.whole() == nil {
		known, offset := w.response, 0
		if known.total == int64(len(content)) && bytes.HasPrefix(content, known.content) {
			offset = len(known.content)
		}
		part := HookedResponse{
			Offset: int64(offset), Total: int64(len(content)),
			Content: content[offset:min(len(content), offset+maxResponsePiece)],
		}
		e, err := w.write(ctx, Entry{Response: &part}, remainder{}, func() (bool, error) {
			return w.response.total == known.total && len(w.response.content) == len(known.content), nil
		})
		if err == nil && e != nil {
			err = w.foldOwn(ctx, e)
		}
		if err == nil {
			err = w.to(ctx, w.state.at())
		}
		if err != nil {
			return nil, failed(err)
		}
	}
	if w.final == nil {
		return nil, nil
	}
	return w.outcome(ctx)
}

// Ended returns the outcomes of the hooks at the end of a Turn, whose last step is the given one; nil if that is not
// recorded.
func (l *Log) Ended(ctx context.Context, s Session, last *Closed) (*HookedEnd, error) {
	w := l.walk(s, last.Turn.UID, last.Step+1, last.Ordinal+1)
	if err := w.toEnd(ctx); err != nil {
		return nil, fmt.Errorf("looking for the hooks at the end of Turn %s in the journal: %w", last.Turn.Name, err)
	}
	return w.ended, nil
}

// KeepEnd records the outcomes of the hooks at the end of a Turn, whose last step is the given one, unless that is
// recorded already. The error is ErrFull or the error of the store; calling it again is safe.
func (l *Log) KeepEnd(ctx context.Context, s Session, last *Closed, end HookedEnd) error {
	w, err := l.writer(ctx, s, last.Turn, last.Step+1, last.Ordinal+1)
	if err != nil {
		return err
	}
	e, err := w.write(ctx, Entry{Ended: &end}, remainder{}, func() (bool, error) { return w.ended == nil, nil })
	if err == nil && e != nil {
		err = w.foldOwn(ctx, e)
	}
	if err != nil {
		return fmt.Errorf("recording the hooks at the end of Turn %s: %w", last.Turn.Name, err)
	}
	return nil
}
