package feed

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	stream "github.com/capstan-dev/capstan/api/stream/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/excerpt"
	"github.com/capstan-dev/capstan/internal/runtime/fairshare"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
)

// deltaEvery is the least time between two deltas of a response (LLM-04).
const deltaEvery = 100 * time.Millisecond

// largeFrame is the size from which on a frame takes a share of the memory of all subscribers while it is written.
const largeFrame = 64 << 10

// Subscription gets the events of one Session. One goroutine uses it at a time.
type Subscription struct {
	hub     *Hub
	feed    *feed
	request Request
	woken   chan struct{}
	close   func()

	// position of the next step. While a step is being sent, from is its own position, batch has its events unless
	// there is no room to hold them, and sent is how many of them were sent.
	position, from journal.Position
	sought         bool
	sending        bool
	batch          *batch
	sent           int
	// through is the ordinal of the entry that closed it.
	through int64
	held    *fairshare.Share
	frame   *fairshare.Share

	// synced reports whether the subscriber has what was there when it joined, last is the last sequence number.
	synced bool
	last   int64

	heard heard
	// version is that of the newest level that it has, and joined that of the newest one when it joined.
	version, joined int64
	// output is the version of the newest piece of output that it has.
	output int64
	// dozing reports whether it waits for the time of its next delta. The feed's lock protects it.
	dozing bool
	// nextDelta is the earliest time of the next delta.
	nextDelta time.Time
}

// heard is what a subscriber has of a response.
type heard struct {
	attempt int64
	message string
	offset  int
	// completed is the message that has come as a durable event.
	completed string
}

func newSubscription(h *Hub, f *feed, r Request) *Subscription {
	s := &Subscription{hub: h, feed: f, request: r, woken: make(chan struct{}, 1), last: r.After}
	s.close = sync.OnceFunc(func() {
		s.let(&s.held)
		s.let(&s.frame)
		h.release(s)
	})
	f.add(s)
	return s
}

// Close ends the subscription.
func (s *Subscription) Close() { s.close() }

// let gives a share back.
func (s *Subscription) let(share **fairshare.Share) {
	if *share != nil {
		(*share).Release()
		*share = nil
	}
}

// Next waits for the next event, and returns it as a frame that is used until the next call. The error is an
// *EndedError, journal.ErrCorrupt or journal.ErrFormat, a failed read, or the cause of the context's end. After a
// failed read it may be called again.
func (s *Subscription) Next(ctx context.Context) (Frame, error) {
	s.let(&s.frame)
	for {
		if frame, ok, err := s.durable(ctx); ok || err != nil {
			return frame, err
		}
		if !s.synced {
			s.synced = true
			return s.syncedFrame()
		}
		frame, ok, pause, err := s.live()
		if ok || err != nil {
			return frame, err
		}
		if err := s.wait(ctx, pause); err != nil {
			return Frame{}, err
		}
	}
}

// More reports whether the next event is there already.
func (s *Subscription) More() bool { return s.batch != nil && s.sent < len(s.batch.frames) }

// wait waits until something may have changed, or for a pause, if there is one.
func (s *Subscription) wait(ctx context.Context, pause time.Duration) error {
	var after <-chan time.Time
	if pause > 0 {
		timer := time.NewTimer(pause)
		defer timer.Stop()
		after = timer.C
	}
	select {
	case <-s.woken:
	case <-after:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

// durable returns the next durable event; false if the journal has no more.
func (s *Subscription) durable(ctx context.Context) (Frame, bool, error) {
	if !s.sought {
		p, err := s.hub.Log.Seek(ctx, s.request.Session, s.request.After, s.request.Head, s.feed.last())
		if err != nil {
			return Frame{}, false, fmt.Errorf("looking for event %d: %w", s.request.After, err)
		}
		s.position, s.sought = p, true
	}
	for {
		if !s.sending {
			if more, err := s.begin(ctx); err != nil || !more {
				return Frame{}, false, err
			}
		}
		read, err := s.reading(ctx)
		if err != nil {
			return Frame{}, false, err
		}
		if text, ok := s.rest(read); ok {
			return text, true, nil
		}
		for s.sent < len(read.frames) {
			frame := read.frames[s.sent]
			if frame.Sequence <= s.request.After {
				s.sent++
				continue
			}
			if err := s.hold(ctx, frame); err != nil {
				return Frame{}, false, err
			}
			s.sent++
			s.last = frame.Sequence
			return frame, true, nil
		}
		if read.message != "" {
			s.heard.completed = read.message
		}
		s.feed.passed(read, s.synced)
		s.position, s.sending, s.batch = read.next, false, nil
		s.let(&s.held)
	}
}

// begin reads the next step, and reports whether there is one.
func (s *Subscription) begin(ctx context.Context) (bool, error) {
	last, err := s.feed.last(), s.feed.over()
	if err != nil {
		return false, err
	}
	if s.position.Ordinal > last {
		return false, s.beyond()
	}
	read, err := s.hub.batch(ctx, s.request.Session, s.position, last)
	if err != nil {
		return false, err
	}
	if read.bytes == 0 {
		s.position = read.next
		if last == journal.Unknown {
			s.feed.atEnd(read.next.Ordinal)
		}
		return false, s.beyond()
	}
	s.from, s.sending, s.sent, s.through = s.position, true, 0, read.next.Ordinal-1
	if share := s.hub.held.TryHold(s.request.Session.Namespace, fairshare.Amount{Bytes: read.bytes}); share != nil {
		s.batch, s.held = read, share
	}
	return true, nil
}

// ErrBeyond reports a sequence number that the journal does not have: it is that of another Session.
var ErrBeyond = errors.New("the Session has no event of this sequence number")

// beyond returns an error at the end of a journal that ends before the event after which the subscriber continues.
func (s *Subscription) beyond() error {
	if s.position.Sequence <= s.request.After {
		return fmt.Errorf("%w (%d; the last one is %d)", ErrBeyond, s.request.After, s.position.Sequence-1)
	}
	return nil
}

// reading returns the events of the step that is being sent.
func (s *Subscription) reading(ctx context.Context) (*batch, error) {
	if s.batch != nil {
		return s.batch, nil
	}
	return s.hub.batch(ctx, s.request.Session, s.from, s.through)
}

// hold takes a share of the memory of all subscribers for a large frame of a step that is not held.
func (s *Subscription) hold(ctx context.Context, frame Frame) error {
	if s.batch != nil || len(frame.Bytes) <= largeFrame {
		return nil
	}
	bytes := min(int64(len(frame.Bytes)), s.hub.held.Ceiling().Bytes)
	share, err := s.hub.held.Request(fairshare.Request{
		Namespace: s.request.Session.Namespace, Amount: fairshare.Amount{Bytes: bytes},
	})
	if err != nil {
		return fmt.Errorf("requesting the memory of an event: %w", err)
	}
	if err := share.Wait(ctx); err != nil {
		return context.Cause(ctx)
	}
	s.frame = share
	return nil
}

// rest returns the text of a response that the subscriber does not have yet, before the durable event that completes
// it.
func (s *Subscription) rest(read *batch) (Frame, bool) {
	if !s.synced || read.message == "" || s.sent > 0 {
		return Frame{}, false
	}
	s.feed.encoding.Lock()
	defer s.feed.encoding.Unlock()
	s.feed.mu.Lock()
	defer s.feed.mu.Unlock()
	if s.feed.response.Message != read.message || s.heard.message != read.message || s.heard.offset == 0 {
		return Frame{}, false
	}
	frame, has, ok := s.feed.piece(s.heard)
	s.heard = has
	return frame, ok
}

// live returns the next live event; false without one, with the time after which to look again, 0 for none.
func (s *Subscription) live() (Frame, bool, time.Duration, error) {
	s.feed.encoding.Lock()
	defer s.feed.encoding.Unlock()
	s.feed.mu.Lock()
	defer s.feed.mu.Unlock()
	s.dozing = false
	if s.feed.ended != "" {
		return Frame{}, false, 0, &EndedError{Reason: s.feed.ended}
	}
	if s.position.Ordinal <= s.feed.head {
		// An entry has come meanwhile. Its events come first.
		s.again()
		return Frame{}, false, 0, nil
	}
	if one, ok := s.feed.levels.after(s.version, s.joined); ok {
		s.version = one.version
		return one.frame, true, 0, nil
	}
	if one, ok := s.feed.outputs.after(s.output); ok {
		s.output = one.version
		return one.frame, true, 0, nil
	}
	now := time.Now()
	if pause := s.nextDelta.Sub(now); pause > 0 && s.feed.more(s.heard) {
		s.dozing = true
		return Frame{}, false, pause, nil
	}
	frame, has, ok := s.feed.piece(s.heard)
	s.heard = has
	if ok {
		s.nextDelta = now.Add(deltaEvery)
	}
	return frame, ok, 0, nil
}

// again makes the next wait return at once.
func (s *Subscription) again() {
	select {
	case s.woken <- struct{}{}:
	default:
	}
}

// syncedFrame tells that the subscriber has what was there when it joined.
func (s *Subscription) syncedFrame() (Frame, error) {
	return liveFrame(s.request.Session, nil, stream.TypeStreamSynced, s.hub.Clock(),
		stream.StreamSynced{UID: s.request.Session.UID, Sequence: s.last})
}

// EndFrame is the last frame of a stream.
func EndFrame(s journal.Session, at time.Time, reason, message string) (Frame, error) {
	return liveFrame(s, nil, stream.TypeStreamEnded, at, stream.StreamEnded{Reason: reason, Message: message})
}

// head is the start of a text, between characters.
func head(text string, limit int) string { return excerpt.Head(text, limit) }
