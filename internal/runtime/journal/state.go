package journal

import (
	"fmt"
	"maps"
	"sync"

	"github.com/capstan-dev/capstan/internal/runtime/event"
)

// state is the journal of one Session folded up to a head. It grows entry by entry and is shared by all readers of the
// Session.
type state struct {
	mu     sync.Mutex
	head   int64
	size   int64 // of all entries, in bytes
	events int64 // that count

	messages []event.Message
	since    []int64 // since[i] is the first ordinal of the block that messages[i] was read with
	// compacted is the first ordinal of the block with the newest compaction, 0 for none; conversation is the number of
	// bytes since then, with what the compaction has kept.
	compacted, conversation int64
	// images is the size in base64 of the stored images that messages name: prompts have them.
	images int64
	// tokens is the number of tokens of the newest model call, with its response, and measured the number of messages up
	// to that; both are 0 if it is not known.
	tokens   int64
	measured int

	began []beginning
	turns map[string]RecordedTurn
	lent  bool // turns is in the hands of a View

	context *ContextRef // replaced, and never changed

	memory int64
}

// beginning is a Turn whose first step was closed, or whose message went into another Turn, at one of the ordinals from
// first to last.
type beginning struct {
	turn        RecordedTurn
	first, last int64
}

// change is the addition of an entry, or of all entries that a checkpoint summarizes, to a state.
type change struct {
	events   int64
	messages []event.Message
	turns    []RecordedTurn
	context  *ContextRef
	// tokens is the number of tokens of the step's model call, with its response; 0 if it is not known.
	tokens int64
	// compaction is that of the entry; whole reports whether the messages of a checkpoint are the whole conversation.
	compaction *Compaction
	whole      bool
}

func newState() *state {
	return &state{turns: map[string]RecordedTurn{}}
}

// changeOf returns the addition of a closed step.
func changeOf(closed *Closed) (change, error) {
	messages, err := event.MessagesOf(closed.Events)
	if err != nil {
		return change{}, fmt.Errorf("%w: the step that the entry at ordinal %d closes: %w", ErrCorrupt, closed.Ordinal, err)
	}
	c := change{
		events: int64(len(closed.Events)), messages: messages, compaction: closed.Compaction,
		tokens: event.TokensOf(closed.Events),
	}
	if closed.Digest != "" {
		c.turns = []RecordedTurn{{Name: closed.Turn.Name, UID: closed.Turn.UID, Digest: closed.Digest}}
	}
	for _, t := range closed.Steered {
		t.SteeredInto = &closed.Turn
		c.turns = append(c.turns, t)
	}
	if p := closed.Context; p != nil {
		c.context = &ContextRef{Turn: closed.Turn.UID, Digest: p.Digest}
		if len(p.Content) > 0 {
			c.context.Ordinal = closed.Ordinal
		}
	}
	return c, nil
}

// fold adds the entry after the head. Any other entry changes nothing: another goroutine has folded it.
func (st *state) fold(e *entry, c change) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	if e.spec.Ordinal != st.head+1 {
		return nil
	}
	if err := st.compact(e.spec.Ordinal, c.compaction); err != nil {
		return err
	}
	st.add(e.spec.Ordinal, e.spec.Ordinal, c)
	st.head = e.spec.Ordinal
	st.size += e.size
	st.events += c.events
	st.conversation += e.size
	return nil
}

// block adds the content of a checkpoint to a state that is not shared yet.
func (st *state) block(checkpoint *entry, c change) {
	at, summary := checkpoint.spec.Ordinal, checkpoint.spec.Checkpoint
	if c.whole {
		st.replace(summary.From, nil)
		st.conversation = summary.Conversation
	} else {
		st.conversation += summary.Bytes - st.size
	}
	st.add(summary.From, at-1, c)
	st.conversation += checkpoint.size
	st.head = at
	st.size = checkpoint.spec.Checkpoint.Bytes + checkpoint.size
	st.events = checkpoint.spec.Checkpoint.Events
}

func (st *state) add(first, last int64, c change) {
	for _, m := range c.messages {
		st.messages = append(st.messages, m)
		st.since = append(st.since, first)
		st.memory += weigh(m)
		st.images += m.StoredBytes()
	}
	if c.tokens > 0 {
		st.tokens, st.measured = c.tokens, len(st.messages)
	}
	for _, t := range c.turns {
		st.began = append(st.began, beginning{turn: t, first: first, last: last})
		st.memory += 2 * int64(128+len(t.Name)+len(t.UID)+len(t.Digest))
		if _, used := st.turns[t.Name]; used {
			continue
		}
		if st.lent {
			st.turns = maps.Clone(st.turns)
			st.lent = false
		}
		st.turns[t.Name] = t
	}
	if c.context != nil {
		st.context = latest(st.context, c.context)
	}
}

// at is the head.
func (st *state) at() int64 {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.head
}

// weight estimates the memory that the state takes.
func (st *state) weight() int64 {
	st.mu.Lock()
	defer st.mu.Unlock()
	return 1024 + st.memory
}

// bytes is the size of all entries.
func (st *state) bytes() int64 {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.size
}

// view returns the current state. Later folding does not change it.
func (st *state) view() *View {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.lent = true
	n := len(st.messages)
	return &View{
		Head: st.head, Bytes: st.size, NextSequence: st.events + 1, Messages: st.messages[:n:n], Turns: st.turns,
		Context: st.context, Conversation: st.conversation + st.images, Tokens: st.tokens, Measured: st.measured,
	}
}

// sum returns the content of a checkpoint that begins at an ordinal.
type sum struct {
	from     int64
	messages []event.Message
	turns    []RecordedTurn
	whole    bool
}

// totals returns the totals that every checkpoint after the head has, and sums the contents from each of the given
// ordinals.
func (st *state) sums(from []int64) (Checkpoint, []sum) {
	st.mu.Lock()
	defer st.mu.Unlock()
	sums := make([]sum, 0, len(from))
	for _, ordinal := range from {
		s := sum{from: ordinal, whole: st.compacted >= ordinal}
		n := len(st.messages)
		first := n
		for first > 0 && st.since[first-1] >= ordinal {
			first--
		}
		s.messages = st.messages[first:n:n]
		for _, b := range st.began {
			if b.first >= ordinal {
				s.turns = append(s.turns, b.turn)
			}
		}
		sums = append(sums, s)
	}
	return Checkpoint{Events: st.events, Bytes: st.size, Context: st.context}, sums
}

// recorded is the first Turn of a name.
func (st *state) recorded(name string) (RecordedTurn, bool) {
	st.mu.Lock()
	defer st.mu.Unlock()
	turn, known := st.turns[name]
	return turn, known
}

// beginningOf is where the first Turn of a name began.
func (st *state) beginningOf(name string) (beginning, bool) {
	st.mu.Lock()
	defer st.mu.Unlock()
	for _, b := range st.began {
		if b.turn.Name == name {
			return b, true
		}
	}
	return beginning{}, false
}

// weigh estimates the memory that a message takes.
func weigh(m event.Message) int64 {
	n := 256 + len(m.ID) + len(m.ToolCallID) + len(m.ToolName) + len(m.Error)
	for _, p := range m.Content {
		n += 128 + len(p.Text) + len(p.Base64) + len(p.MediaType) + len(p.URL) + len(p.ToolCallID) + len(p.ImageID)
		if p.Reasoning != nil {
			n += 64 + p.Reasoning.Bytes()
		}
	}
	if m.Origin != nil {
		n += 48 + len(m.Origin.Provider) + len(m.Origin.Model) + len(m.Origin.Binding)
	}
	for _, c := range m.ToolCalls {
		n += 64 + len(c.ID) + len(c.ProviderID) + len(c.Name) + len(c.Arguments)
	}
	return int64(n) + 256*int64(len(m.Metadata))
}
