package feed

import (
	"bytes"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	stream "github.com/capstan-dev/capstan/api/stream/v1alpha1"
	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/live"
	"github.com/capstan-dev/capstan/internal/runtime/queue"
	internalstream "github.com/capstan-dev/capstan/internal/runtime/stream"
)

// maxLevels bounds the Turns, and the tool calls, whose newest state a feed keeps.
const maxLevels = 64

// feed is what the subscribers of a Session share.
type feed struct {
	session journal.Session
	clock   func() time.Time
	// stop ends what the Bus sends. The Hub's lock protects it.
	stop []func()

	// encoding is held by the one subscriber that looks for its next live event. It is taken before mu.
	encoding sync.Mutex

	mu          sync.Mutex
	subscribers map[*Subscription]struct{}
	// head is the ordinal of the newest entry that is known to exist, and probed whether it was the last one in the
	// store since the feed began.
	head   int64
	probed bool
	// response streams now, or has streamed last, and completed is the message that has come as a durable event last:
	// only those who have a part of it may get the rest, if that is short.
	response  live.Snapshot
	completed string
	delta     delta
	levels    levels
	outputs   outputs
	// ended is the reason for which the streams end; empty while they do not.
	ended string
}

func newFeed(s journal.Session, clock func() time.Time) *feed {
	return &feed{session: s, clock: clock, subscribers: map[*Subscription]struct{}{}}
}

// level is the newest live event about one thing.
type level struct {
	key     string
	version int64
	frame   Frame
	// progress marks the progress of a tool call, done the state of a Turn that has ended.
	progress, done bool
	// data is what the event shows.
	data []byte
}

func stateKey(turn types.UID) string { return "turn/" + string(turn) }

func progressKey(turn types.UID, call string) string { return "call/" + string(turn) + "/" + call }

// levels are the newest live events, in the order of their change.
type levels struct {
	version int64
	all     []level
}

// set replaces the level of a key. Beyond the bound the oldest one is dropped.
func (l *levels) set(one level) {
	l.drop(func(other level) bool { return other.key == one.key })
	if len(l.all) == maxLevels {
		l.all = l.all[1:]
	}
	l.version++
	one.version = l.version
	l.all = append(l.all, one)
}

// shows reports whether the level of a key shows the data already.
func (l *levels) shows(key string, data []byte) bool {
	return slices.ContainsFunc(l.all, func(one level) bool { return one.key == key && bytes.Equal(one.data, data) })
}

func (l *levels) drop(which func(level) bool) {
	kept := l.all[:0:0]
	for _, one := range l.all {
		if !which(one) {
			kept = append(kept, one)
		}
	}
	l.all = kept
}

// after returns the first level that is newer than a version. Turns that had ended at the version joined are left out.
func (l *levels) after(version, joined int64) (level, bool) {
	for _, one := range l.all {
		if one.version > version && (!one.done || one.version > joined) {
			return one, true
		}
	}
	return level{}, false
}

// add registers a subscriber.
func (f *feed) add(s *Subscription) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.subscribers[s] = struct{}{}
	s.joined = f.levels.version
}

// remove returns how many subscribers are left.
func (f *feed) remove(s *Subscription) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.subscribers, s)
	return len(f.subscribers)
}

// wake wakes the subscribers. The lock is held.
func (f *feed) wake() {
	for s := range f.subscribers {
		s.again()
	}
}

// noticed takes note of an entry of the journal.
func (f *feed) noticed(ordinal int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if ordinal > f.head {
		f.head = ordinal
		f.wake()
	}
}

// atEnd takes note that the store had no entry at an ordinal, and all before it.
func (f *feed) atEnd(ordinal int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.head, f.probed = max(f.head, ordinal-1), true
}

// last is the ordinal of the last entry; journal.Unknown if there may be more than are known.
func (f *feed) last() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.probed {
		return journal.Unknown
	}
	return f.head
}

// over returns an *EndedError once the streams end.
func (f *feed) over() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended == "" {
		return nil
	}
	return &EndedError{Reason: f.ended}
}

// end ends the streams.
func (f *feed) end(reason string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ended = reason
	f.wake()
}

// respond receives the text of the response that streams. It is called with the lock of the Bus.
func (f *feed) respond(at live.Snapshot) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.response = at
	for s := range f.subscribers {
		if !s.dozing {
			s.again()
		}
	}
}

// passed takes note that a subscriber has the durable events of a step, and whether it was not behind: what was live of
// the step is of no use any more.
func (f *feed) passed(read *batch, synced bool) {
	message := read.message
	f.mu.Lock()
	defer f.mu.Unlock()
	f.outputs.close(read)
	if !synced {
		return
	}
	if message != "" {
		f.completed = message
	}
	if f.response.Message == f.completed && len(f.response.Text) > maxDelta {
		f.response.Text, f.delta = "", delta{}
	}
	f.levels.drop(func(one level) bool { return one.progress })
}

// stateOf encodes the status of a Turn; false if it cannot be encoded.
func stateOf(s journal.Session, t *v1alpha1.Turn, at time.Time) (level, bool) {
	state, done := internalstream.State(t), queue.Finished(t)
	if done {
		state.ToolCalls = nil // The cache has only some of them. All are in the journal.
	}
	event := internalstream.Live(s, &stream.Turn{Name: t.Name, UID: t.UID}, stream.TypeTurnState, at, state)
	frame, err := NewFrame(event)
	return level{key: stateKey(t.UID), frame: frame, done: done, data: event.Data}, err == nil
}

// statesOf encodes the status of Turns. It takes no lock: each may have many calls.
func statesOf(s journal.Session, turns []*v1alpha1.Turn, at time.Time) []level {
	var all []level
	for _, t := range turns {
		if state, ok := stateOf(s, t, at); ok {
			all = append(all, state)
		}
	}
	return all
}

// show shows the status of Turns that was encoded.
func (f *feed) show(states ...level) {
	f.mu.Lock()
	defer f.mu.Unlock()
	changed := false
	for _, state := range states {
		if !f.levels.shows(state.key, state.data) {
			f.levels.set(state)
			changed = true
		}
	}
	if changed {
		f.wake()
	}
}

// turn shows the status of a Turn.
func (f *feed) turn(t *v1alpha1.Turn) {
	if state, ok := stateOf(f.session, t, f.clock()); ok {
		f.show(state)
	}
}

// progress receives the progress of a tool call. It is called with the lock of the Bus.
func (f *feed) progress(e live.Event) {
	if e.Event.Type != stream.TypeToolProgress || e.Event.Data == nil {
		return
	}
	public, err := internalstream.Progress(f.session, stream.Turn{Name: e.Turn.Name, UID: e.Turn.UID}, e.Event)
	if err != nil {
		return
	}
	frame, err := NewFrame(public)
	if err != nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.levels.set(level{key: progressKey(e.Turn.UID, e.Event.Subject), frame: frame, progress: true})
	f.wake()
}

// output receives a piece of output of a running tool call.
func (f *feed) output(o Output) {
	frame, err := NewFrame(internalstream.Output(f.session, o.Turn, o.Context, f.clock(), o.Data))
	if err != nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.outputs.add(o, frame) {
		f.wake()
	}
}

// forget drops what was live of a Turn that was deleted, but not its end, which some may not have seen.
func (f *feed) forget(turn types.UID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.levels.drop(func(one level) bool {
		return !one.done && one.key == stateKey(turn) || strings.HasPrefix(one.key, progressKey(turn, ""))
	})
	f.outputs.drop(func(p piece) bool { return p.turn == turn })
}

// delta is the newest piece of a response that was encoded. Subscribers that are equally far share it.
type delta struct {
	attempt  int64
	from, to int
	frame    Frame
}

// maxDelta bounds the text of one delta.
const maxDelta = 64 << 10

// more reports whether piece returns a frame. The lock is held.
func (f *feed) more(has heard) bool {
	now := f.response
	if now.Message == "" || now.Message == has.completed || now.Message == f.completed && has.message != now.Message {
		return false
	}
	return now.Attempt != has.attempt && (now.Text != "" || has.offset > 0) || has.offset < len(now.Text)
}

// piece returns the text of the response behind what a subscriber has, with what it has then; false if it has all of
// it. The locks of the encoding and of the feed are held; that of the feed is let go while the piece is encoded.
func (f *feed) piece(has heard) (Frame, heard, bool) {
	now := f.response
	if !f.more(has) {
		return Frame{}, has, false
	}
	turn := &stream.Turn{Name: now.Turn.Name, UID: now.Turn.UID}
	if now.Attempt != has.attempt {
		replaced := has.attempt > 0 && has.offset > 0 && has.message == now.Message
		has = heard{attempt: now.Attempt, message: now.Message, completed: has.completed}
		if replaced && now.Text == "" {
			frame, ok := f.encode(turn, stream.TypeOutputMessageReplaced, stream.OutputMessageReplaced{MessageID: now.Message})
			return frame, has, ok
		}
	}
	if has.offset >= len(now.Text) {
		return Frame{}, has, false
	}
	text := head(now.Text[has.offset:], maxDelta)
	from, to := has.offset, has.offset+len(text)
	if d := f.delta; d.attempt == now.Attempt && d.from == from && d.to == to {
		has.offset = to
		return d.frame, has, true
	}
	frame, ok := f.encode(turn, stream.TypeOutputMessageDelta, stream.OutputMessageDelta{
		MessageID: now.Message, Offset: int64(from), Text: text,
	})
	if !ok {
		return Frame{}, has, false
	}
	f.delta = delta{now.Attempt, from, to, frame}
	has.offset = to
	return frame, has, true
}

// encode encodes a live event without the lock, which is held before and after: publishers wait for it.
func (f *feed) encode(turn *stream.Turn, kind string, data any) (Frame, bool) {
	f.mu.Unlock()
	defer f.mu.Lock()
	frame, err := liveFrame(f.session, turn, kind, f.clock(), data)
	return frame, err == nil
}
