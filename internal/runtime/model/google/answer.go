package google

import (
	"encoding/json"
	"slices"
	"strings"

	"google.golang.org/genai"

	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/runtime/model/provider"
)

// maxResponseID is the maximum length of a response id that is kept, in bytes.
const maxResponseID = 256

// answer accumulates the response from the chunks of a stream.
type answer struct {
	id      string
	model   string
	text    strings.Builder
	calls   []model.ToolCall
	finish  genai.FinishReason
	blocked string
	usage   model.Usage
	// chunks counts the received chunks, and size their texts and arguments in bytes. largest is the size of the
	// largest arguments of a call.
	chunks, size, largest int
	// pieces are the parts in order, and reasoning is the size of their signatures.
	pieces    []piece
	reasoning int
}

// add processes one chunk, with the arguments of its calls as they arrived. It is an error if the response has become
// too long.
func (a *answer) add(chunk *genai.GenerateContentResponse, arguments []json.RawMessage) error {
	a.chunks++
	if a.id == "" && len(chunk.ResponseID) <= maxResponseID {
		a.id = chunk.ResponseID
	}
	if a.model == "" {
		a.model = chunk.ModelVersion
	}
	if u := chunk.UsageMetadata; u != nil {
		// The tokens of the prompt include those read from a cache. Each chunk has the sum so far.
		a.usage = model.Usage{
			InputTokens:     int64(u.PromptTokenCount) + int64(u.ToolUsePromptTokenCount),
			CacheReadTokens: int64(u.CachedContentTokenCount),
			OutputTokens:    int64(u.CandidatesTokenCount) + int64(u.ThoughtsTokenCount),
		}
	}
	if chunk.PromptFeedback != nil && chunk.PromptFeedback.BlockReason != "" {
		a.blocked = string(chunk.PromptFeedback.BlockReason)
	}
	if len(chunk.Candidates) > 0 && chunk.Candidates[0] != nil {
		a.addCandidate(chunk.Candidates[0], arguments)
	}
	return provider.TooLong(name, a.size, len(a.calls), a.largest)
}

// addCandidate processes the content of one chunk. A call arrives as a whole.
func (a *answer) addCandidate(c *genai.Candidate, arguments []json.RawMessage) {
	if c.FinishReason != "" && c.FinishReason != genai.FinishReasonUnspecified {
		a.finish = c.FinishReason
	}
	if c.Content == nil {
		return
	}
	for _, part := range c.Content.Parts {
		switch {
		case part == nil:
		case part.Thought:
			a.addThought(part)
		case part.FunctionCall != nil:
			given := json.RawMessage("{}") // A call without arguments has none at all.
			if len(arguments) > 0 && len(arguments[0]) > 0 {
				given = arguments[0]
			}
			arguments = arguments[min(1, len(arguments)):]
			a.calls = append(a.calls, model.ToolCall{
				ProviderID: part.FunctionCall.ID, Name: toolName(part.FunctionCall.Name), Arguments: string(given),
			})
			a.pieces = append(a.pieces, piece{call: len(a.calls), reasoning: a.signature(part)})
			a.size += len(part.FunctionCall.ID) + len(part.FunctionCall.Name) + len(given)
			a.largest = max(a.largest, len(given))
		default:
			a.addText(part)
		}
	}
}

// response returns the response so far.
func (a *answer) response(asked string) model.Response {
	r := model.Response{
		Text: a.text.String(), ToolCalls: a.calls, Content: a.content(), Usage: a.usage, ResponseID: a.id, Model: a.model,
	}
	if r.Model == "" {
		r.Model = asked
	}
	return r
}

// complete is a response that has ended.
func (a *answer) complete(asked, key string) (*model.Response, error) {
	r := a.response(asked)
	r.FinishReason = provider.SafeCode(string(a.finish), key)
	switch a.finish {
	case genai.FinishReasonStop:
		return &r, nil
	case genai.FinishReasonMaxTokens:
		return provider.CutShort(name, r)
	case genai.FinishReasonMalformedFunctionCall, genai.FinishReasonUnexpectedToolCall:
		// The text led up to a call that the model failed to make. A retry may succeed.
		return nil, provider.NoAnswer(name, r.FinishReason, true)
	case genai.FinishReasonSafety, genai.FinishReasonRecitation, genai.FinishReasonLanguage, genai.FinishReasonBlocklist,
		genai.FinishReasonProhibitedContent, genai.FinishReasonSPII, genai.FinishReasonImageSafety,
		genai.FinishReasonImageProhibitedContent,
		genai.FinishReasonImageRecitation:
		return provider.Filtered(r), nil
	default:
		return provider.Stopped(name, r)
	}
}

// refused is the response to a prompt that a filter has rejected.
func (a *answer) refused(asked, key string) *model.Response {
	r := a.response(asked)
	r.FinishReason = provider.SafeCode(a.blocked, key)
	return provider.Filtered(r)
}

// hasContent reports whether a chunk has content of the response, the model's reasoning included.
func hasContent(chunk *genai.GenerateContentResponse) bool {
	for _, candidate := range chunk.Candidates {
		if candidate.FinishReason != "" ||
			candidate.Content != nil && slices.ContainsFunc(candidate.Content.Parts, carriesContent) {
			return true
		}
	}
	return false
}

// carriesContent reports whether a part has content.
func carriesContent(part *genai.Part) bool {
	return part != nil && (part.Text != "" || part.FunctionCall != nil || len(part.ThoughtSignature) > 0)
}
