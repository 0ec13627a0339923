package feed

import (
	"container/list"
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	stream "github.com/capstan-dev/capstan/api/stream/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/fairshare"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	internalstream "github.com/capstan-dev/capstan/internal/runtime/stream"
)

// readTimeout bounds the read of one step.
const readTimeout = 30 * time.Second

// batch is what a subscriber reads at one position: the events of the next closed step, and the position after it. It
// has no events if there was no further step up to last.
type batch struct {
	frames []Frame
	next   journal.Position
	// message is the id of the message that the step has completed; empty for none.
	message string
	// turn and step are those of the events.
	turn  types.UID
	step  int32
	bytes int64
}

// place identifies a batch.
type place struct {
	session types.UID
	ordinal int64
}

// batches keeps the newest batches within a bound of bytes. Its Hub's lock protects it.
type batches struct {
	limit, used int64
	recent      *list.List // of *kept, the newest first
	at          map[place]*list.Element
}

type kept struct {
	place place
	batch *batch
}

func newBatches(limit int64) *batches {
	return &batches{limit: limit, recent: list.New(), at: map[place]*list.Element{}}
}

func (b *batches) get(at place) *batch {
	element := b.at[at]
	if element == nil {
		return nil
	}
	b.recent.MoveToFront(element)
	return element.Value.(*kept).batch
}

func (b *batches) put(at place, read *batch) {
	if read.bytes > b.limit || b.at[at] != nil {
		return
	}
	for b.used+read.bytes > b.limit {
		oldest := b.recent.Remove(b.recent.Back()).(*kept)
		delete(b.at, oldest.place)
		b.used -= oldest.batch.bytes
	}
	b.at[at] = b.recent.PushFront(&kept{at, read})
	b.used += read.bytes
}

// batch returns the batch at a position. Entries up to last exist; with journal.Unknown it reads until the store has no
// more. Subscribers at the same position share one read.
func (h *Hub) batch(ctx context.Context, s journal.Session, p journal.Position, last int64) (*batch, error) {
	h.mu.Lock()
	known := h.batches.get(at(s, p))
	h.mu.Unlock()
	if known != nil {
		return known, nil
	}
	done := h.reads.DoChan(fmt.Sprint(s.UID, p.Ordinal, last), func() (any, error) {
		// The read is of all who wait for it, and ends with the last of them at the latest after its timeout.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readTimeout)
		defer cancel()
		return h.read(ctx, s, p, last)
	})
	select {
	case result := <-done:
		read, _ := result.Val.(*batch)
		return read, result.Err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// read reads the batch at a position, within a place of the namespace.
func (h *Hub) read(ctx context.Context, s journal.Session, p journal.Position, last int64) (*batch, error) {
	share, err := h.places.Request(fairshare.Request{Namespace: s.Namespace, Amount: fairshare.Amount{Places: 1}})
	if err != nil {
		return nil, fmt.Errorf("requesting a place to read the journal: %w", err)
	}
	defer share.Release()
	if err := share.Wait(ctx); err != nil {
		return nil, fmt.Errorf("waiting to read the journal: %w", err)
	}
	closed, next, err := h.Log.NextStep(ctx, s, p, last)
	if err != nil {
		return nil, fmt.Errorf("reading the journal of Session %s/%s: %w", s.Namespace, s.Name, err)
	}
	read := &batch{next: next}
	if closed == nil {
		return read, nil
	}
	events, err := internalstream.Durable(s, closed, next.Sequence-int64(len(closed.Events)))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", journal.ErrCorrupt, err)
	}
	read.bytes, read.turn, read.step = 256, closed.Turn.UID, closed.Step
	for _, e := range events {
		frame, err := NewFrame(e)
		if err != nil {
			return nil, err
		}
		read.frames = append(read.frames, frame)
		read.bytes += int64(len(frame.Bytes)) + 128
		if e.Type == stream.TypeOutputMessageCompleted {
			if data, err := stream.Decode[stream.OutputMessageCompleted](e); err == nil {
				read.message = data.Message.ID
			}
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.batches.put(at(s, p), read)
	return read, nil
}

func at(s journal.Session, p journal.Position) place { return place{s.UID, p.Ordinal} }
