package crash_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"
)

// A watch may be late, and never shows the events of one resource in another order.
func TestLateEventsKeepTheirOrder(t *testing.T) {
	const events = 500
	w := newWire()
	f := &feed{resource: "turns", kept: map[string][]frame{}, seen: map[string]int{}, wake: make(chan struct{}, 1)}
	b := &streamBody{wire: w, feed: f}
	l := w.of("crash-order")
	l.open, l.streams = true, streamFault{late: map[string]time.Duration{"turns": 2 * time.Millisecond}}
	var want []string
	for i := range events {
		name := fmt.Sprint(i)
		want = append(want, name)
		w.mu.Lock()
		w.route(b, frame{kind: "MODIFIED", namespace: "crash-order", key: name, raw: []byte(name)})
		w.mu.Unlock()
	}
	var got []string
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err := await(ctx, func() error {
		w.mu.Lock()
		defer w.mu.Unlock()
		got = nil
		for _, raw := range f.queue {
			got = append(got, string(raw))
		}
		if len(got) < events {
			return fmt.Errorf("%d of %d events came", len(got), events)
		}
		return nil
	})
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("the events came in the order %v (%v)", got, err)
	}
}

// An informer that missed a deletion sees an object of another UID in one change.
func TestAnObjectThatIsReplacedComesAsOneChange(t *testing.T) {
	w := newWire()
	f := &feed{
		resource: "turns",
		kept:     map[string][]frame{},
		seen:     map[string]int{},
		deleted:  map[string]bool{},
		wake:     make(chan struct{}, 1),
	}
	b := &streamBody{wire: w, feed: f}
	l := w.of("crash-merged")
	l.open, l.streams = true, streamFault{merged: "turns"}
	for _, kind := range []string{"ADDED", "MODIFIED", "DELETED", "ADDED", "MODIFIED"} {
		w.route(b, frame{kind: kind, namespace: "crash-merged", key: "demo-1", raw: fmt.Appendf(nil, `{"type":%q}`, kind)})
	}
	var got []string
	for _, raw := range f.queue {
		got = append(got, string(raw))
	}
	want := []string{`{"type":"ADDED"}`, `{"type":"MODIFIED"}`, `{"type":"MODIFIED"}`, `{"type":"MODIFIED"}`}
	if !slices.Equal(got, want) || l.disturbed != 1 {
		t.Errorf("the events are %v, want %v; %d of them are disturbed, want 1", got, want, l.disturbed)
	}
}
