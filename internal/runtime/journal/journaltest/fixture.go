package journaltest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/journal/format"
)

// fixture is one Session on the store under test.
type fixture struct {
	t       *testing.T
	store   journal.Store
	session journal.Session
}

func newFixture(t *testing.T, newStore func(*testing.T) journal.Store) *fixture {
	t.Helper()
	return &fixture{t: t, store: newStore(t), session: newSession()}
}

func newSession() journal.Session {
	uid := uuid.NewString()
	return journal.Session{Namespace: "default", Name: "session-" + uid[:8], UID: types.UID(uid)}
}

// another is a further Session on the same store.
func (f *fixture) another() *fixture {
	return &fixture{t: f.t, store: f.store, session: newSession()}
}

// log returns a Log with an empty cache, as in a new process.
func (f *fixture) log() *journal.Log {
	return journal.New(f.store, journal.Options{})
}

func turn(name string) journal.Turn {
	return journal.Turn{Name: name, UID: types.UID(name + "-uid")}
}

// respond returns a record of a turn's step with a response of the model, which opens a further reason step.
func respond(of journal.Turn, step int32, openedAt int64, texts ...string) journal.Record {
	factory := event.NewFactory(event.Identity{Session: "session", Turn: of.UID, InputMessage: "input"}, nil)
	r := journal.Record{
		Turn: of, Step: step, OpenedAt: openedAt,
		Transition: v1alpha1.TurnProgress{
			Phase: v1alpha1.TurnPhaseReason, Iteration: step,
			Plan: &v1alpha1.TurnPlan{Step: step + 1, Phase: v1alpha1.PlanPhaseReason},
		},
	}
	if step == 1 {
		r.Digest = strings.Repeat("d", 64)
		r.Events = append(r.Events, factory.InputMessage(event.NewUserMessage("input of "+of.Name)))
	}
	for _, text := range texts {
		r.Events = append(r.Events, factory.Step(step, 1).OutputMessageCompleted(
			event.OutputMessageCompleted{Message: event.NewAssistantMessage(text, nil)}))
	}
	event.Identify(of.UID, step, r.Events)
	return r
}

// cancel is a record that ends a turn.
func cancel(of journal.Turn, step int32, openedAt int64) journal.Record {
	factory := event.NewFactory(event.Identity{Session: "session", Turn: of.UID}, nil)
	return journal.Record{
		Turn:     of,
		Step:     step,
		OpenedAt: openedAt,
		Closing:  true,
		Events: []event.Event{
			factory.TurnFailed(event.TurnFailed{Error: "cancelled"}),
			factory.SessionIdled(event.SessionIdled{}),
		},
		Transition: v1alpha1.TurnProgress{
			Phase: v1alpha1.TurnPhaseCancelled, Plan: &v1alpha1.TurnPlan{Step: step, Phase: v1alpha1.PlanPhaseComplete},
		},
	}
}

// noise is text of so many bytes that does not compress well.
func noise(seed uint64, size int) string {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+/"
	random := rand.New(rand.NewPCG(seed, 1))
	text := make([]byte, size)
	for i := range text {
		text[i] = letters[random.IntN(len(letters))]
	}
	return string(text)
}

// append closes a step and fails the test if that is not possible.
func (f *fixture) append(log *journal.Log, r journal.Record) *journal.Closed {
	f.t.Helper()
	closed, err := log.Append(f.t.Context(), f.session, r)
	if err != nil {
		f.t.Fatalf("closing step %d of %s: %v", r.Step, r.Turn.Name, err)
	}
	return closed
}

// fill appends one step each of as many turns as needed for the head to be at an ordinal.
func (f *fixture) fill(head int64) {
	f.t.Helper()
	log, openedAt := f.log(), int64(1)
	for i := 1; ; i++ {
		closed := f.append(log, respond(turn(fmt.Sprintf("filler-%d", i)), 1, openedAt, fmt.Sprintf("answer %d", i)))
		openedAt = closed.Ordinal + 1
		if closed.Ordinal == head {
			return
		}
		if closed.Ordinal > head {
			f.t.Fatalf("the log cannot be filled up to ordinal %d", head)
		}
	}
}

func (f *fixture) view(log *journal.Log, hint int64) *journal.View {
	f.t.Helper()
	v, err := log.View(f.t.Context(), f.session, hint)
	if err != nil {
		f.t.Fatalf("viewing with hint %d: %v", hint, err)
	}
	return v
}

// written is an entry as it was read back, with its size before compression.
type written struct {
	*journal.Entry
	size int
}

// create writes an entry past the journal.
func (f *fixture) create(e *journal.Entry) error {
	f.t.Helper()
	spec, err := format.Encode(e)
	if err != nil {
		f.t.Fatal(err)
	}
	return f.store.Create(f.t.Context(), f.session, spec)
}

// entries returns all entries of the journal. It fails the test if there is one after a gap.
func (f *fixture) entries() []written {
	f.t.Helper()
	var entries []written
	for ordinal := int64(1); ; ordinal++ {
		e, err := f.store.Get(f.t.Context(), f.session, ordinal)
		if errors.Is(err, journal.ErrNotFound) {
			break
		}
		if err != nil {
			f.t.Fatalf("reading ordinal %d: %v", ordinal, err)
		}
		if e.Ordinal != ordinal {
			f.t.Fatalf("the entry at ordinal %d has the ordinal %d", ordinal, e.Ordinal)
		}
		content, err := format.Decode(e)
		if err != nil {
			f.t.Fatalf("decoding the entry at ordinal %d: %v", ordinal, err)
		}
		plain, err := format.Unpack(e)
		if err != nil {
			f.t.Fatalf("decompressing the entry at ordinal %d: %v", ordinal, err)
		}
		size, stored := len(f.json(plain)), len(f.json(e))
		if stored > size {
			f.t.Fatalf("the entry at ordinal %d takes %d bytes in the store, and %d before compression", ordinal, stored, size)
		}
		entries = append(entries, written{content, size})
	}
	for ordinal := int64(len(entries)) + 2; ordinal < int64(len(entries))+5; ordinal++ {
		if _, err := f.store.Get(f.t.Context(), f.session, ordinal); !errors.Is(err, journal.ErrNotFound) {
			f.t.Fatalf("ordinal %d is taken (%v) behind a gap at %d", ordinal, err, len(entries)+1)
		}
	}
	return entries
}

// naive folds entries in the simplest way there is.
func (f *fixture) naive(entries []written) *journal.View {
	f.t.Helper()
	v := &journal.View{NextSequence: 1, Turns: map[string]journal.RecordedTurn{}}
	for _, e := range entries {
		v.Head = e.Ordinal
		v.Bytes += int64(e.size)
		v.Conversation = v.Bytes
		if !e.Final {
			continue
		}
		events := f.events(entries, e)
		v.NextSequence += int64(len(events))
		messages, err := event.MessagesOf(events)
		if err != nil {
			f.t.Fatalf("the messages of the entry at ordinal %d: %v", e.Ordinal, err)
		}
		if c := e.Compaction; c != nil {
			left, found := journal.Compacted(v.Messages, c)
			if !found {
				f.t.Fatalf("the entry at ordinal %d compacts other messages", e.Ordinal)
			}
			v.Messages = left
		}
		v.Messages = append(v.Messages, messages...)
		if c := e.Context; c != nil {
			ordinal := e.Ordinal
			if len(c.Content) == 0 {
				ordinal = v.Context.Ordinal
			}
			v.Context = &journal.ContextRef{Turn: e.Turn.UID, Digest: c.Digest, Ordinal: ordinal}
		}
		if _, used := v.Turns[e.Turn.Name]; e.Digest != "" && !used {
			v.Turns[e.Turn.Name] = journal.RecordedTurn{Name: e.Turn.Name, UID: e.Turn.UID, Digest: e.Digest}
		}
		for _, t := range e.Steered {
			if _, used := v.Turns[t.Name]; !used {
				t.SteeredInto = e.Turn
				v.Turns[t.Name] = t
			}
		}
	}
	return v
}

// events returns the events of a final entry and its parts, joined.
func (f *fixture) events(
	entries []written,
	final written,
) []event.Event {
	f.t.Helper()
	var all []event.Event
	for _, ordinal := range append(slices.Clone(final.Parts), final.Ordinal) {
		for _, e := range entries[ordinal-1].Events {
			if n := len(all); n == 0 || all[n-1].ID != e.ID {
				all = append(all, e)
				continue
			}
			whole, part := &all[len(all)-1], ""
			if whole.Data.Raw[0] == '"' {
				var first string
				f.unjson(whole.Data.Raw, &first)
				whole.Data = &v1alpha1.JSON{Raw: []byte(first)}
			}
			f.unjson(e.Data.Raw, &part)
			whole.Data = &v1alpha1.JSON{Raw: append(slices.Clone(whole.Data.Raw), part...)}
		}
	}
	return all
}

func (f *fixture) json(v any) string {
	f.t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		f.t.Fatalf("encoding %T: %v", v, err)
	}
	return string(raw)
}

func (f *fixture) unjson(raw []byte, into any) {
	f.t.Helper()
	if err := json.Unmarshal(raw, into); err != nil {
		f.t.Fatalf("decoding %T: %v", into, err)
	}
}

// same fails the test unless two values are the same as JSON.
func (f *fixture) same(what string, got, want any) {
	f.t.Helper()
	if g, w := f.json(got), f.json(want); g != w {
		f.t.Fatalf("%s differs:\n got %s\nwant %s", what, shorten(g), shorten(w))
	}
}

func shorten(s string) string {
	if len(s) > 2000 {
		return s[:1000] + " ... " + s[len(s)-1000:]
	}
	return s
}

// check verifies all guarantees of the journal.
func (f *fixture) check() []written {
	f.t.Helper()
	entries := f.entries()
	finals := map[string]int64{}
	named := map[int64]int64{}
	counted := map[string]int64{}
	for i, e := range entries {
		if e.size > journal.MaxEntryBytes {
			f.t.Fatalf("the entry at ordinal %d takes %d bytes", e.Ordinal, e.size)
		}
		if (e.Ordinal%journal.CheckpointInterval == 0) != (e.Checkpoint != nil) {
			f.t.Fatalf("a checkpoint is missing or out of place at ordinal %d", e.Ordinal)
		}
		if e.Checkpoint != nil {
			f.checkpoint(entries[:i], e)
		}
		if !e.Final {
			continue
		}
		step := fmt.Sprintf("%s/%d", e.Turn.UID, e.Step)
		if before, ok := finals[step]; ok {
			f.t.Fatalf("step %s is closed twice, at the ordinals %d and %d", step, before, e.Ordinal)
		}
		finals[step] = e.Ordinal
		for _, ordinal := range e.Parts {
			part := entries[ordinal-1]
			if ordinal >= e.Ordinal || part.Final || part.Turn.UID != e.Turn.UID || part.Step != e.Step || named[ordinal] != 0 {
				f.t.Fatalf("the entry at ordinal %d names %d, which is no part of it, or of another one", e.Ordinal, ordinal)
			}
			named[ordinal] = e.Ordinal
		}
		for _, ev := range f.events(entries, e) {
			if before, ok := counted[ev.ID]; ok {
				f.t.Fatalf("event %s is there twice, in the steps closed at the ordinals %d and %d", ev.ID, before, e.Ordinal)
			}
			counted[ev.ID] = e.Ordinal
		}
	}
	want := f.naive(entries)
	if slices.ContainsFunc(entries, func(e written) bool { return e.Compaction != nil }) {
		want.Conversation = f.view(f.log(), 0).Conversation // The test compares it.
	}
	f.same("the cold view without a hint", f.view(f.log(), 0), want)
	f.same("the cold view with the head as hint", f.view(f.log(), want.Head), want)
	return entries
}

// checkpoint verifies a checkpoint against the entries before it.
func (f *fixture) checkpoint(before []written, e written) {
	f.t.Helper()
	want := f.naive(before)
	c := e.Checkpoint
	if c.Bytes != want.Bytes || c.Events != want.NextSequence-1 {
		f.t.Fatalf(
			"the checkpoint at ordinal %d reports %d bytes and %d events, not %d and %d",
			e.Ordinal,
			c.Bytes,
			c.Events,
			want.Bytes,
			want.NextSequence-1,
		)
	}
	blocks := e.Ordinal / journal.CheckpointInterval
	if c.From == e.Ordinal {
		if len(c.Transcript) > 0 || len(c.Turns) > 0 {
			f.t.Fatalf("the checkpoint at ordinal %d sums up nothing and has a transcript or turns", e.Ordinal)
		}
		return
	}
	span := blocks - (c.From-1)/journal.CheckpointInterval
	if (c.From-1)%journal.CheckpointInterval != 0 || span < 1 || span > blocks&-blocks || span&(span-1) != 0 {
		f.t.Fatalf("the checkpoint at ordinal %d sums up from %d", e.Ordinal, c.From)
	}
}

// deadline returns a context for calls that may block if the code under test is wrong.
func deadline(t *testing.T) context.Context {
	t.Helper()
	ctx, done := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(done)
	return ctx
}
