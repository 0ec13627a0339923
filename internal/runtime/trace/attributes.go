package trace

import (
	"encoding/json"
	"strings"

	"go.opentelemetry.io/otel/attribute"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/excerpt"
	"github.com/capstan-dev/capstan/internal/runtime/semconv"
)

// MaxContentBytes is the length of the longest text of a user, a model or a tool in a span.
const MaxContentBytes = 8 << 10

// provider is the name of a provider in the conventions.
func provider(name string) string {
	switch v1alpha1.ModelProvider(name) {
	case v1alpha1.ModelProviderOpenAI:
		return "openai"
	case v1alpha1.ModelProviderAnthropic:
		return "anthropic"
	case v1alpha1.ModelProviderGoogle:
		return "gcp.gemini"
	default:
		return semconv.ProviderOther
	}
}

// usage are the attributes of token counts.
func usage(u *event.Usage) []attribute.KeyValue {
	if u == nil {
		return nil
	}
	counts := []attribute.KeyValue{
		attribute.Int64(semconv.InputTokens, u.InputTokens), attribute.Int64(semconv.OutputTokens, u.OutputTokens),
	}
	if u.CacheReadTokens > 0 {
		counts = append(counts, attribute.Int64(semconv.CacheReadTokens, u.CacheReadTokens))
	}
	if u.CacheWriteTokens > 0 {
		counts = append(counts, attribute.Int64(semconv.CacheWriteTokens, u.CacheWriteTokens))
	}
	return counts
}

// bounded is a text that is cut to the length that a span may have.
func bounded(text string) string {
	return excerpt.Of(text, MaxContentBytes)
}

// messages returns a message in the form of the conventions: a JSON array. Its text is cut.
func messages(m event.Message) string {
	type part struct {
		Type    string `json:"type"`
		Content string `json:"content"`
	}
	type message struct {
		Role  string `json:"role"`
		Parts []part `json:"parts"`
	}
	encoded, err := json.Marshal([]message{{
		Role: string(m.Role), Parts: []part{{Type: "text", Content: bounded(m.PlainText())}},
	}})
	if err != nil {
		return ""
	}
	return string(encoded)
}

// textOf is the text of a tool's outcome.
func textOf(data event.ToolCompleted) string {
	if !data.Success {
		return data.Error
	}
	var text strings.Builder
	for _, p := range data.Result {
		text.WriteString(p.Text)
	}
	return text.String()
}
