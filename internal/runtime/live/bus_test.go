package live

import (
	"strconv"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/internal/runtime/event"
)

func of(session types.UID, id int) Event {
	return Event{UID: session, Event: event.Event{Type: strconv.Itoa(id)}}
}

// Rules: CTX-03.
func TestASubscriberGetsTheEventsOfItsSession(t *testing.T) {
	b := &Bus{}
	if b.Wanted("a") {
		t.Error("events without a receiver are wanted")
	}
	own, end := b.Subscribe("a")
	all, endAll := b.Subscribe("")
	if !b.Wanted("a") || !b.Wanted("b") {
		t.Error("the events are not wanted")
	}
	b.Publish(of("a", 1))
	b.Publish(of("b", 2))
	endAll()
	end()
	end()
	b.Publish(of("a", 3))
	count := func(events <-chan Event) (got string) {
		for e := range events {
			got += e.Event.Type
		}
		return got
	}
	if a, every := count(own), count(all); a != "1" || every != "12" {
		t.Errorf("the subscribers have got %q and %q", a, every)
	}
	if b.Wanted("a") {
		t.Error("events are wanted after the end")
	}
}

// Rules: CTX-03.
func TestASlowSubscriberDelaysNoEvent(t *testing.T) {
	b := &Bus{}
	slow, end := b.Subscribe("a")
	defer end()
	published := make(chan struct{})
	go func() {
		defer close(published)
		for i := range 10 * buffered {
			b.Publish(of("a", i))
		}
	}()
	select {
	case <-published:
	case <-time.After(10 * time.Second):
		t.Fatal("a subscriber that reads nothing holds events up")
	}
	if len(slow) != buffered || (<-slow).Event.Type != "0" {
		t.Errorf("%d events are kept", len(slow))
	}
}
