package anthropic

import (
	"strings"

	sdk "github.com/anthropics/anthropic-sdk-go"

	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/runtime/model/provider"
)

// The forms of reasoning that the API sends and accepts.
const (
	// kindThinking is a block with a text and its signature. Newer models leave the text empty.
	kindThinking = "thinking"
	// kindRedacted is a block that is encrypted as a whole.
	kindRedacted = "redacted_thinking"
)

// piece is a relevant block of a response: a text, a call or a thought.
type piece struct {
	// from is where a text begins in the text of the response.
	from int
	// call is the number of a call, counted from 1.
	call int
	// thought is reasoning; nil for a text or a call.
	thought *thought
}

// thought is a thinking block that arrives in pieces.
type thought struct {
	kind               string
	summary, signature strings.Builder
	ended              bool
}

func (t *thought) bytes() int { return t.summary.Len() + t.signature.Len() }

// think processes a piece of a thinking block. A block that exceeds the bound of a response is dropped as a whole,
// because the provider accepts only whole blocks.
func (a *answer) think(index int64, summary, signature string) {
	t := a.thoughts[index]
	if t == nil {
		return
	}
	if a.thinking+len(summary)+len(signature) > event.MaxReasoningBytes {
		a.thinking -= t.bytes()
		t.summary.Reset()
		t.signature.Reset()
		t.kind = ""
		delete(a.thoughts, index)
		return
	}
	a.thinking += len(summary) + len(signature)
	t.summary.WriteString(summary)
	t.signature.WriteString(signature)
}

// beginThought processes the start of a thinking block.
func (a *answer) beginThought(e sdk.MessageStreamEventUnion) {
	t := &thought{kind: e.ContentBlock.Type}
	a.pieces = append(a.pieces, piece{thought: t})
	if a.thoughts == nil {
		a.thoughts = map[int64]*thought{}
	}
	a.thoughts[e.Index] = t
	a.think(e.Index, e.ContentBlock.Thinking, e.ContentBlock.Signature+e.ContentBlock.Data)
}

// content is the response so far in the order of its blocks. An incomplete thinking block has no signature yet, and
// would be refused.
func (a *answer) content() []model.Content {
	text := a.text.String()
	var content []model.Content
	for i, p := range a.pieces {
		switch {
		case p.thought != nil:
			if p.thought.kind != "" && p.thought.ended {
				content = append(content, model.ReasoningPart(event.Reasoning{
					Kind: p.thought.kind, Data: p.thought.signature.String(), Summary: p.thought.summary.String(),
				}))
			}
		case p.call > 0:
			content = append(content, model.CallPart(p.call))
		default:
			end := len(text)
			for _, next := range a.pieces[i+1:] {
				if next.thought == nil && next.call == 0 {
					end = next.from
					break
				}
			}
			content = append(content, model.TextPart(text[p.from:end]))
		}
	}
	return content
}

// thoughtBlock is reasoning in the form that the API accepts; nil for other reasoning.
func thoughtBlock(r *event.Reasoning) *sdk.ContentBlockParamUnion {
	if r == nil {
		return nil
	}
	var block sdk.ContentBlockParamUnion
	switch r.Kind {
	case kindThinking:
		block = sdk.NewThinkingBlock(r.Data, r.Summary)
	case kindRedacted:
		block = sdk.NewRedactedThinkingBlock(r.Data)
	default:
		return nil
	}
	return &block
}

// isThought reports whether a block is one of thinking.
func isThought(block sdk.ContentBlockParamUnion) bool {
	return block.OfThinking != nil || block.OfRedactedThinking != nil
}

// beganElsewhere reports whether the conversation is within a tool loop whose last message of the model does not begin
// with a thought: another model wrote it, or this one without thinking. Asked to think with a budget, the API refuses
// such a conversation ("a final assistant message must start with a thinking block",
// github.com/lbjlaq/Antigravity-Manager/issues/139, 2025-12), and its documentation recommends to think again from
// the next message of the user on (platform.claude.com/docs/en/build-with-claude/thinking-tool-workflows, read
// 2026-11). With adaptive thinking the API accepts it.
func beganElsewhere(entries []provider.Entry) bool {
	if len(entries) == 0 {
		return false
	}
	last := entries[len(entries)-1]
	if last.Message.Role == event.RoleUser || len(last.Calls) == 0 {
		return false
	}
	for _, p := range last.Pieces() {
		if p.Type == event.PartText && !isText(p.Part) {
			continue
		}
		return thoughtBlock(p.Reasoning) == nil
	}
	return true
}

// refusesReasoning reports whether the API refused a request because of a block of thinking: one that is not its own,
// was changed, stands where none may, or is missing. The messages are those of
// github.com/anthropics/anthropic-sdk-python/issues/1598 (2026-08), github.com/anomalyco/opencode/issues/48637
// (2026-09), github.com/anthropics/claude-code/issues/63404 (2026-05) and
// github.com/lbjlaq/Antigravity-Manager/issues/139 (2025-12); that of a compatible server is from
// github.com/leookun/cursor-byok/pull/276 (2026-08).
func (t apiError) refusesReasoning() bool {
	if t.Type != string(sdk.ErrorTypeInvalidRequestError) {
		return false
	}
	message := strings.ToLower(t.Message)
	return strings.Contains(message, "thinking") && (strings.Contains(message, "signature") ||
		strings.Contains(message, "block") || strings.Contains(message, "redacted_thinking") ||
		strings.Contains(message, "must be passed back"))
}
