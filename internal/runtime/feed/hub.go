package feed

import (
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	stream "github.com/capstan-dev/capstan/api/stream/v1alpha1"
	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/fairshare"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/live"
	internalstream "github.com/capstan-dev/capstan/internal/runtime/stream"
)

const (
	// batchBytes bounds the encoded events that are kept for all subscribers, and heldBytes those that subscribers
	// hold while they are written.
	batchBytes, heldBytes = 16 << 20, 32 << 20
	// readPlaces is how many steps are read at once. Each may take several times its size in memory.
	readPlaces = 4
)

// Options are the settings of a Hub.
type Options struct {
	// Log has the journals. Its OnEntry calls Noticed.
	Log *journal.Log
	// Bus has the live events.
	Bus *live.Bus
	// Outputs has the output of running tool calls; nil for none.
	Outputs Outputs
	// Limits of the subscribers.
	Limits Limits
	// Clock returns the current time.
	Clock func() time.Time
}

// Hub serves the events of Sessions. It is safe for concurrent use.
type Hub struct {
	Options

	counts *counts
	places *fairshare.Pool
	held   *fairshare.Pool
	reads  singleflight.Group

	mu      sync.Mutex
	feeds   map[types.UID]*feed
	batches *batches
	// ended is the reason for which all streams end; empty while they do not.
	ended string
}

// NewHub returns a Hub without subscribers.
func NewHub(o Options) *Hub {
	return &Hub{
		Options: o, counts: newCounts(), feeds: map[types.UID]*feed{}, batches: newBatches(batchBytes),
		places: fairshare.NewPool(fairshare.Options{Total: fairshare.Amount{Places: readPlaces}}),
		held: fairshare.NewPool(fairshare.Options{
			// The readers of four namespaces may be slow before those of a fifth wait.
			Total: fairshare.Amount{Bytes: heldBytes}, PerNamespace: fairshare.Amount{Bytes: heldBytes / 4},
		}),
	}
}

// Request is a request for the events of a Session.
type Request struct {
	// Session whose events are wanted.
	Session journal.Session
	// User who wants them, for the limit.
	User string
	// After is the sequence number after which they begin.
	After int64
	// Head is an ordinal at which the journal may have an entry, 0 for none.
	Head int64
	// Turns of the Session that have not ended.
	Turns []*v1alpha1.Turn
}

// Subscribe begins a subscription. The error is a *LimitError, or an *EndedError if the Hub has ended.
func (h *Hub) Subscribe(r Request) (*Subscription, error) {
	if err := h.counts.add(h.Limits, r.Session.Namespace, r.User, r.Session.UID); err != nil {
		return nil, err
	}
	states := statesOf(r.Session, r.Turns, h.Clock())
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended != "" {
		h.counts.remove(r.Session.Namespace, r.User, r.Session.UID)
		return nil, &EndedError{Reason: h.ended}
	}
	f := h.feeds[r.Session.UID]
	if f == nil {
		f = newFeed(r.Session, h.Clock)
		h.feeds[r.Session.UID] = f
		f.stop = []func(){
			h.Bus.Watch(r.Session.UID, f.respond), h.Bus.Listen(r.Session.UID, f.progress),
		}
		if h.Outputs != nil {
			f.stop = append(f.stop, h.Outputs.Follow(r.Session, f.output))
		}
	}
	h.observe(r.Session.UID, r.Turns...)
	f.noticed(r.Head)
	f.show(states...)
	return newSubscription(h, f, r), nil
}

// feed returns that of a Session; nil without subscribers.
func (h *Hub) feed(session types.UID) *feed {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.feeds[session]
}

// Wanted reports whether a Session has subscribers.
func (h *Hub) Wanted(session types.UID) bool { return h.feed(session) != nil }

// Noticed wakes the subscribers of a Session whose journal has an entry at an ordinal.
func (h *Hub) Noticed(session types.UID, ordinal int64) {
	if f := h.feed(session); f != nil {
		f.noticed(ordinal)
	}
}

// Turn shows the status of a Turn of a Session to its subscribers.
func (h *Hub) Turn(session types.UID, turn *v1alpha1.Turn) {
	if f := h.feed(session); f != nil {
		f.turn(turn)
		h.observe(session, turn)
	}
}

// TurnDeleted takes note that a Turn of a Session was deleted. While it runs, no status and no step shows its end.
func (h *Hub) TurnDeleted(session, turn types.UID) {
	if f := h.feed(session); f != nil {
		h.observe(session, &v1alpha1.Turn{ObjectMeta: metav1.ObjectMeta{UID: turn}})
		f.forget(turn)
	}
}

// observe passes the status of Turns of a Session with subscribers on to the outputs of their calls.
func (h *Hub) observe(session types.UID, turns ...*v1alpha1.Turn) {
	for _, turn := range turns {
		if h.Outputs != nil {
			h.Outputs.Turn(session, turn)
		}
	}
}

// End ends the streams of a Session. Events that its journal has may be lost: it is deleted as well.
func (h *Hub) End(session types.UID, reason string) {
	if f := h.feed(session); f != nil {
		f.end(reason)
	}
}

// Close ends all streams, and all later ones at once.
func (h *Hub) Close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ended = stream.EndedShutdown
	for _, f := range h.feeds {
		f.end(h.ended)
	}
}

// Subscribers is the number of subscriptions.
func (h *Hub) Subscribers() int {
	h.counts.mu.Lock()
	defer h.counts.mu.Unlock()
	return h.counts.total
}

// release forgets a subscriber, and its feed with the last one.
func (h *Hub) release(s *Subscription) {
	h.counts.remove(s.request.Session.Namespace, s.request.User, s.request.Session.UID)
	h.mu.Lock()
	defer h.mu.Unlock()
	if s.feed.remove(s) > 0 {
		return
	}
	delete(h.feeds, s.request.Session.UID)
	for _, stop := range s.feed.stop {
		stop()
	}
}

// EndedError reports that a stream has ended.
type EndedError struct {
	// Reason is one of the Ended constants of api/stream.
	Reason string
}

// Error implements error.
func (e *EndedError) Error() string { return fmt.Sprintf("the event stream has ended (%s)", e.Reason) }

// liveFrame returns the frame of a live event.
func liveFrame(s journal.Session, turn *stream.Turn, kind string, at time.Time, data any) (Frame, error) {
	return NewFrame(internalstream.Live(s, turn, kind, at, data))
}
