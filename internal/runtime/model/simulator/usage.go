package simulator

import "github.com/capstan-dev/capstan/internal/runtime/model"

// bytesPerToken is how many bytes count as one token.
const bytesPerToken = 4

// promptTokens counts the system prompt and the messages: their texts, errors and tool calls. Tool definitions do not
// count, so that a test can foretell the number.
func promptTokens(r model.Request) int64 {
	size := len(r.SystemPrompt)
	for _, m := range r.Messages {
		size += len(m.PlainText()) + len(m.Error)
		for _, call := range m.ToolCalls {
			size += len(call.Name) + len(call.Arguments)
		}
	}
	return tokens(size)
}

// answerTokens counts the text and the tool calls of a response.
func answerTokens(answer *model.Response) int64 {
	size := len(answer.Text)
	for _, call := range answer.ToolCalls {
		size += len(call.Name) + len(call.Arguments)
	}
	return tokens(size)
}

// tokens rounds up.
func tokens(size int) int64 {
	return int64((size + bytesPerToken - 1) / bytesPerToken)
}
