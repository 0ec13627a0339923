package compaction

import (
	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/journal/format"
)

// bytesPerToken estimates the size of a prompt that no provider has counted. Most texts have more bytes for each token,
// so that a conversation is rather compacted too early.
const bytesPerToken = 3

// Conversation is what a model is about to be called with.
type Conversation struct {
	// Messages are those of the journal, without that of a Turn that begins.
	Messages []event.Message
	// Input is the id of the message of the open Turn. It is kept.
	Input string
	// Beside is the size of the rest of the prompt: system prompt, tools, and the message of a Turn that begins.
	Beside int64
	// Tokens is the number of tokens of the newest model call, with its response, and Measured the number of messages up
	// to that; 0 for unknown.
	Tokens   int64
	Measured int
}

// Size returns the size of the prompt in tokens: what the provider has counted last, with an estimate of what came
// since then, or an estimate of all.
func (c Conversation) Size() int64 {
	if c.Tokens > 0 {
		size := c.Tokens + bytesOf(c.Messages[min(c.Measured, len(c.Messages)):])/bytesPerToken
		return max(size, 1)
	}
	return max(c.bytes()/bytesPerToken, 1)
}

// bytes is the size of the prompt.
func (c Conversation) bytes() int64 { return bytesOf(c.Messages) + c.Beside }

// tokens is the part of the size of the prompt that a number of its bytes has.
func (c Conversation) tokens(bytes int64) int64 {
	return int64(float64(bytes) * float64(c.Size()) / float64(max(c.bytes(), 1)))
}

// After returns an estimate of the size of the prompt in tokens, once these messages are left.
func (c Conversation) After(left []event.Message) int64 { return c.tokens(bytesOf(left) + c.Beside) }

func bytesOf(messages []event.Message) int64 {
	var n int64
	for _, m := range messages {
		n += m.Bytes()
	}
	return n
}

// Decision is how a conversation is to be compacted.
type Decision struct {
	// Mode of the compaction. The messages before Cut are summarized or left out with Summarize and Trim; the tool results
	// before Cut are masked with Mask.
	Mode Mode
	Cut  int
}

// Decide returns how to compact a conversation, and whether that makes it smaller by enough. threshold is the size in
// tokens that it has reached; 0 if a provider has refused a prompt and no threshold is known. Without summaries,
// because no model could write one, older messages can only be left out.
func Decide(p *Policy, c Conversation, threshold int64, summaries bool) (Decision, bool) {
	size := c.Size()
	limit := size
	if threshold > 0 {
		limit = min(limit, threshold)
	}
	recent := c.cut(p.keep, size)
	saved := c.tokens(savedByMask(c.Messages[:recent]))
	if p.allows(Mask) && summaries && size-saved <= limit*3/4 {
		return Decision{Mode: Mask, Cut: recent}, true
	}
	cut := c.cut(p.keep, limit/2)
	worthwhile := c.tokens(bytesOf(c.dropped(cut))) >= size/10
	switch {
	case worthwhile && summaries && p.allows(Summarize):
		return Decision{Mode: Summarize, Cut: cut}, true
	case worthwhile && p.allows(Trim):
		return Decision{Mode: Trim, Cut: cut}, true
	case p.allows(Mask) && saved >= size/10:
		return Decision{Mode: Mask, Cut: recent}, true
	default:
		return Decision{}, false
	}
}

// cut returns the number of messages before the kept ones: at most all but keep, more only if these take more than
// largest tokens. In an open Turn at least its newest response stays, with the results of its calls.
func (c Conversation) cut(keep int, largest int64) int {
	last := len(c.Messages)
	if i := c.position(c.Input); i >= 0 {
		last--
		for last > i && c.Messages[last].Role != event.RoleAssistant {
			last--
		}
	}
	at := 0
	for i := 1; i <= last; i++ {
		if i < len(c.Messages) && c.Messages[i].Role == event.RoleToolResult {
			continue
		}
		if i > len(c.Messages)-keep && c.tokens(bytesOf(c.Messages[at:])) <= largest {
			break
		}
		at = i
	}
	return at
}

// position is that of the message with an id; -1 for none.
func (c Conversation) position(id string) int {
	for i := len(c.Messages) - 1; i >= 0; i-- {
		if c.Messages[i].ID == id {
			return i
		}
	}
	return -1
}

// dropped are the messages before a cut that a summary replaces, but for an earlier summary and the message of the open
// Turn.
func (c Conversation) dropped(cut int) []event.Message {
	var dropped []event.Message
	for _, m := range c.Messages[:cut] {
		if m.ID != c.Input && !m.IsSummary() {
			dropped = append(dropped, m)
		}
	}
	return dropped
}

func savedByMask(messages []event.Message) int64 {
	var saved int64
	for _, m := range messages {
		saved += m.Bytes() - m.Masked().Bytes()
	}
	return saved
}

// Record returns a decision in the form that the journal has. summary stands for the messages that are left out; it is
// not used with Mask.
func (c Conversation) Record(d Decision, summary event.Message) *format.Compaction {
	at := ""
	if d.Cut < len(c.Messages) {
		at = c.Messages[d.Cut].ID
	}
	if d.Mode == Mask {
		return &format.Compaction{KeptFrom: c.Messages[0].ID, MaskedBefore: at}
	}
	record := &format.Compaction{KeptFrom: at, Summary: &summary}
	if i := c.position(c.Input); i >= 0 && i < d.Cut {
		record.Pinned = c.Input
	}
	return record
}
