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
}

// Func is a Sink that calls a function, which must return at once.
type Func func(Event)

// Wanted implements Sink.
func (Func) Wanted(types.UID) bool { return true }

// Publish implements Sink.
func (f Func) Publish(e Event) { f(e) }

// Bus is a Sink with subscribers. The zero value has none.
type Bus struct {
	mu          sync.RWMutex
	subscribers map[*subscriber]struct{}
}

type subscriber struct {
	session types.UID
	events  chan Event
}

var _ Sink = &Bus{}

// Subscribe returns the events of a Session from now on; those of all for an empty UID. The function ends that, and
// closes the channel.
func (b *Bus) Subscribe(session types.UID) (events <-chan Event, end func()) {
	s := &subscriber{session: session, events: make(chan Event, buffered)}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.subscribers == nil {
		b.subscribers = map[*subscriber]struct{}{}
	}
	b.subscribers[s] = struct{}{}
	return s.events, sync.OnceFunc(func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		delete(b.subscribers, s)
		close(s.events)
	})
}

// Wanted implements Sink.
func (b *Bus) Wanted(session types.UID) bool {
	b.mu.RLock()
	defer b.mu.RUnlock()
	for s := range b.subscribers {
		if s.wants(session) {
			return true
		}
	}
	return false
}

// Publish implements Sink. A subscriber that is too far behind does not get the event.
func (b *Bus) Publish(e Event) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	for s := range b.subscribers {
		if !s.wants(e.UID) {
			continue
		}
		select {
		case s.events <- e:
		default:
		}
	}
}

func (s *subscriber) wants(session types.UID) bool { return s.session == "" || s.session == session }
