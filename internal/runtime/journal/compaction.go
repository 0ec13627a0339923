package journal

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/internal/runtime/event"
)

// Compacted returns the conversation that a compaction leaves of messages, and whether it is about these messages. It
// changes none of them.
func Compacted(messages []event.Message, c *Compaction) ([]event.Message, bool) {
	keptFrom, found := positionOf(messages, c.KeptFrom)
	if !found {
		return nil, false
	}
	masked := 0
	if c.MaskedBefore != "" {
		if masked, found = positionOf(messages, c.MaskedBefore); !found {
			return nil, false
		}
	}
	left := make([]event.Message, 0, len(messages)-keptFrom+2)
	if c.Summary != nil {
		left = append(left, *c.Summary)
	}
	if c.Pinned != "" {
		pinned, found := positionOf(messages, c.Pinned)
		if !found {
			return nil, false
		}
		if pinned < keptFrom {
			left = append(left, messages[pinned])
		}
	}
	for i := keptFrom; i < len(messages); i++ {
		m := messages[i]
		if i < masked {
			m = m.Masked()
		}
		left = append(left, m)
	}
	return left, true
}

// positionOf is the position of the message with an id; that behind the last message for an empty id.
func positionOf(messages []event.Message, id string) (int, bool) {
	if id == "" {
		return len(messages), true
	}
	at := slices.IndexFunc(messages, func(m event.Message) bool { return m.ID == id })
	return at, at >= 0
}

// compact applies the compaction of the entry at an ordinal; nil for none. The messages that views have stay as they
// are.
func (st *state) compact(ordinal int64, c *Compaction) error {
	if c == nil {
		return nil
	}
	left, found := Compacted(st.messages, c)
	if !found {
		return fmt.Errorf("%w: the entry at ordinal %d compacts messages that the journal does not have", ErrCorrupt, ordinal)
	}
	st.replace(ordinal, left)
	return nil
}

// has reports whether a compaction is about the messages of the state.
func (st *state) has(c *Compaction) bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	_, found := Compacted(st.messages, c)
	return found
}

// replace replaces all messages by those of the block that begins at an ordinal.
func (st *state) replace(ordinal int64, messages []event.Message) {
	for _, m := range st.messages {
		st.memory -= weigh(m)
	}
	st.messages, st.since, st.compacted, st.conversation = messages, make([]int64, len(messages)), ordinal, 0
	st.tokens, st.measured, st.images = 0, 0, 0
	for i, m := range messages {
		st.since[i] = ordinal
		weight := weigh(m)
		st.memory += weight
		st.conversation += weight
		st.images += m.StoredBytes()
	}
}

// conversationBytes is the size of what prompts are made of, without stored images.
func (st *state) conversationBytes() int64 {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.conversation
}

// KnownConversation is the size of what the prompts of a Session are made of, as far as it is in the cache; 0 for a
// Session that is not.
func (l *Log) KnownConversation(session types.UID) int64 {
	if st := l.cache.state(session); st != nil {
		st.mu.Lock()
		defer st.mu.Unlock()
		return st.conversation + st.images
	}
	return 0
}
