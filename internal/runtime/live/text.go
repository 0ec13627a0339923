package live

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// texts are the responses that stream now, of which a Session has one. They are kept without a subscriber as well: one
// that joins in the middle gets the text so far. A text is that of the model call, and takes no memory of its own.
type texts struct {
	mu       sync.Mutex
	of       map[types.UID]*text
	watchers map[types.UID]map[*watcher]struct{}
	// started numbers the texts: another attempt has another one.
	started int64
}

type watcher struct{ receive func(Snapshot) }

// Snapshot is the text of a response at one time.
type Snapshot struct {
	Response
	// Attempt changes when the text so far is not the response.
	Attempt int64
	// Text so far.
	Text string
	// Ended reports whether no more text follows.
	Ended bool
}

// Respond implements Sink.
func (b *Bus) Respond(r Response) Text {
	b.texts.mu.Lock()
	defer b.texts.mu.Unlock()
	if b.texts.of == nil {
		b.texts.of = map[types.UID]*text{}
	}
	b.texts.started++
	t := &text{all: &b.texts, at: Snapshot{Response: r, Attempt: b.texts.started}}
	b.texts.of[r.UID] = t
	return t
}

// Watch calls receive with the response of a Session that streams now, and after each change of it, until the returned
// function is called. receive returns at once, and does not call the Bus.
func (b *Bus) Watch(session types.UID, receive func(Snapshot)) (end func()) {
	w := &watcher{receive}
	b.texts.mu.Lock()
	defer b.texts.mu.Unlock()
	if b.texts.watchers == nil {
		b.texts.watchers = map[types.UID]map[*watcher]struct{}{}
	}
	if b.texts.watchers[session] == nil {
		b.texts.watchers[session] = map[*watcher]struct{}{}
	}
	b.texts.watchers[session][w] = struct{}{}
	if t := b.texts.of[session]; t != nil {
		receive(t.at)
	}
	return func() {
		b.texts.mu.Lock()
		defer b.texts.mu.Unlock()
		delete(b.texts.watchers[session], w)
		if len(b.texts.watchers[session]) == 0 {
			delete(b.texts.watchers, session)
		}
	}
}

// text is a response of a Bus.
type text struct {
	all *texts
	at  Snapshot
}

// Write implements Text.
func (t *text) Write(text string) {
	t.change(func() bool {
		if t.at.Text == text {
			return false
		}
		t.at.Text = text
		return true
	})
}

// Replace implements Text.
func (t *text) Replace() {
	t.change(func() bool {
		t.all.started++
		t.at.Attempt, t.at.Text = t.all.started, ""
		return true
	})
}

// End implements Text.
func (t *text) End() {
	t.change(func() bool {
		delete(t.all.of, t.at.UID)
		t.at.Ended = true
		return true
	})
}

// change changes the text, unless another response of the Session has begun, and tells the watchers if do has changed
// something.
func (t *text) change(do func() bool) {
	t.all.mu.Lock()
	defer t.all.mu.Unlock()
	if t.all.of[t.at.UID] != t || !do() {
		return
	}
	for w := range t.all.watchers[t.at.UID] {
		w.receive(t.at)
	}
}
