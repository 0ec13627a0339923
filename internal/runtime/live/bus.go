package live

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/event"
)

// buffered is how many events a subscriber may be behind before it loses some.
const buffered = 64

// Event is an event of a Turn.
type Event struct {
	// Session that the Turn belongs to, by its name and its UID.
	Session types.NamespacedName
	UID     types.UID
	Turn    v1alpha1.JournalTurn
	// Event that has happened.
	Event event.Event
}

// Sink receives events. Its methods return at once.
type Sink interface {
	// Wanted reports whether there is a receiver for the events of a Session. What is not wanted need not be made.
	Wanted(session types.UID) bool
	// Publish passes an event on.
	Publish(e Event)
	// Respond passes on the text of a response while it streams.
	Respond(r Response) Text
}

// Response names a response that streams.
type Response struct {
	// Session that the response belongs to, by its name and its UID.
	Session types.NamespacedName
	UID     types.UID
	Turn    v1alpha1.JournalTurn
	// Message is the id that the message will have.
	Message string
}

// Text receives the text of one response. Its methods return at once.
type Text interface {
	// Write passes on the text so far.
	Write(text string)
	// Replace reports that the text so far is not the response.
	Replace()
	// End reports that no more text follows.
	End()
}

// Func is a Sink that calls a function, which must return at once.
type Func func(Event)

// Wanted implements Sink.
func (Func) Wanted(types.UID) bool { return true }

// Publish implements Sink.
func (f Func) Publish(e Event) { f(e) }

// Respond implements Sink. The text of responses is for subscribers of a Bus only.
func (Func) Respond(Response) Text { return discarded{} }

// discarded is a Text without a receiver.
type discarded struct{}

// Write implements Text.
func (discarded) Write(string) {}

// Replace implements Text.
func (discarded) Replace() {}

// End implements Text.
func (discarded) End() {}

// Bus is a Sink with subscribers. The zero value has none.
type Bus struct {
	mu sync.RWMutex
	// subscribers by the Session whose events they get; those who get all are under the empty UID.
	subscribers map[types.UID]map[*subscriber]struct{}

	texts texts
}

type subscriber struct{ receive func(Event) }

var _ Sink = &Bus{}

// Subscribe returns the events of a Session from now on; those of all for an empty UID. A subscriber that is too far
// behind loses events. The function ends that, and closes the channel.
func (b *Bus) Subscribe(session types.UID) (events <-chan Event, end func()) {
	kept := make(chan Event, buffered)
	stop := b.Listen(session, func(e Event) {
		select {
		case kept <- e:
		default:
		}
	})
	return kept, sync.OnceFunc(func() {
		stop()
		close(kept)
	})
}

// Listen calls receive with the events of a Session from now on, until the returned function has returned; with those
// of all for an empty UID. receive returns at once, and does not call the Bus.
func (b *Bus) Listen(session types.UID, receive func(Event)) (end func()) {
	s := &subscriber{receive}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.subscribers == nil {
		b.subscribers = map[types.UID]map[*subscriber]struct{}{}
	}
	if b.subscribers[session] == nil {
		b.subscribers[session] = map[*subscriber]struct{}{}
	}
	b.subscribers[session][s] = struct{}{}
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.subscribers[session], s)
		if len(b.subscribers[session]) == 0 {
			delete(b.subscribers, session)
		}
	}
}

// Wanted implements Sink.
func (b *Bus) Wanted(session types.UID) bool {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return len(b.subscribers[session])+len(b.subscribers[""]) > 0
}

// Publish implements Sink.
func (b *Bus) Publish(e Event) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	for _, session := range []types.UID{e.UID, ""} {
		for s := range b.subscribers[session] {
			s.receive(e)
		}
	}
}
