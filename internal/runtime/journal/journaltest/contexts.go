package journaltest

import (
	"bytes"
	"errors"

	"github.com/capstan-dev/capstan/internal/runtime/journal"
)

// pinned is a context, with its content or without.
func pinned(digest string, whole bool) *journal.PinnedContext {
	if !whole {
		return &journal.PinnedContext{Digest: digest}
	}
	return &journal.PinnedContext{Digest: digest, Content: []byte("the content of " + digest)}
}

// contextIsRead: a context is found by a process that knows nothing, behind checkpoints too, and is read once.
func contextIsRead(f *fixture) {
	f.fill(60)
	first := respond(turn("asks"), 1, 61, "let me look")
	first.Context = pinned("a", true)
	f.append(f.log(), first)
	again := respond(turn("asks"), 2, 62, "and again")
	again.Context = pinned("a", false)
	closed := f.append(f.log(), again)
	if closed.Context == nil || closed.Context.Digest != "a" {
		f.t.Fatalf("the step has the context %+v", closed.Context)
	}
	for i := range int32(4) { // across the checkpoint
		closed = f.append(f.log(), respond(turn("asks"), 3+i, closed.Ordinal+1, "on"))
	}
	counting := Wrap(f.store)
	log := journal.New(counting, journal.Options{})
	view := f.view(log, closed.Ordinal)
	want := &journal.ContextRef{Turn: turn("asks").UID, Digest: "a", Ordinal: 61}
	f.same("the reference behind a checkpoint", view.Context, want)
	for range 2 {
		content, err := log.Context(f.t.Context(), f.session, view.Context)
		if err != nil || string(content) != "the content of a" {
			f.t.Fatalf("the content is %q, %v", content, err)
		}
	}
	counting.Reset()
	if _, err := log.Context(f.t.Context(), f.session, view.Context); err != nil || counting.Reads() != 0 {
		f.t.Errorf("reading again takes %d reads, %v", counting.Reads(), err)
	}
	_, err := log.Context(f.t.Context(), f.session, &journal.ContextRef{Digest: "b", Ordinal: 61})
	if !errors.Is(err, journal.ErrCorrupt) {
		f.t.Errorf("another digest: %v", err)
	}
	f.check()
}

// largestContext: a context of the largest size fits into an entry beside a response that is split.
func largestContext(f *fixture) {
	r := respond(turn("asks"), 1, 1, noise(1, 2*journal.MaxEntryBytes))
	r.Context = &journal.PinnedContext{Digest: "a", Content: []byte(noise(2, journal.MaxContextBytes))}
	f.append(f.log(), r)
	view := f.view(f.log(), 0)
	content, err := f.log().Context(f.t.Context(), f.session, view.Context)
	if err != nil || !bytes.Equal(content, r.Context.Content) {
		f.t.Errorf("%d bytes of content, %v", len(content), err)
	}
	f.check()
}
