package openai

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/openai/openai-go/v3/packages/ssestream"

	"github.com/capstan-dev/capstan/internal/runtime/model/provider"
)

// failure is why there is no whole answer. raw is the answer's header and, where the status is an error, its body, which the SDK has read.
func (d *driver) failure(ctx context.Context, asked string, raw *http.Response, err error, chunks int) error {
	// A redirect that was not followed is an error of the request.
	if raw != nil && (raw.StatusCode >= http.StatusBadRequest || raw.StatusCode >= http.StatusMultipleChoices && err == nil) {
		body, _ := io.ReadAll(raw.Body)
		kind, _ := d.kind(body)
		return provider.StatusError(name, asked, raw.StatusCode, provider.RetryAfter(raw.Header, time.Now()), kind)
	}
	var within *ssestream.StreamError
	if errors.As(err, &within) {
		kind, status := d.kind(within.Event.Data)
		return provider.StatusError(name, asked, status, 0, kind)
	}
	if raw != nil && raw.StatusCode < http.StatusMultipleChoices && chunks == 0 && !provider.IsEventStream(raw.Header) {
		return provider.NoStream(name)
	}
	return provider.RequestError(ctx, name, err)
}

// problem is what OpenAI and those like it say of an error.
type problem struct {
	Code    any    `json:"code"`
	Type    string `json:"type"`
	Param   string `json:"param"`
	Message string `json:"message"`
}

// kind is the provider's word for an error, and the status that it names, if it does. Servers give the error under "error" or as the whole, and that
// may be a mere text. What it says is looked at only, and not passed on.
func (d *driver) kind(body []byte) (kind string, status int) {
	var outer struct {
		Error json.RawMessage `json:"error"`
	}
	_ = json.Unmarshal(body, &outer)
	if len(outer.Error) > 0 {
		body = outer.Error
	}
	var p problem
	if err := json.Unmarshal(body, &p); err != nil {
		_ = json.Unmarshal(body, &p.Message)
	}
	if code, ok := p.Code.(float64); ok && code >= http.StatusBadRequest && code < 600 {
		status = int(code)
	}
	word, _ := p.Code.(string)
	if word == "" {
		word = p.Type
	}
	switch {
	case isTooLong(word, p.Message):
		return provider.KindContextLength, status
	case word == "billing_hard_limit_reached", p.Type == provider.KindQuota:
		return provider.KindQuota, status
	case word == provider.KindModelNotFound, word == provider.KindInvalidKey:
		return word, status
	}
	word = provider.Words(word, d.key)
	if param := provider.Words(p.Param, d.key); word != "" && param != "" {
		word += " of " + param
	}
	return word, status
}

// isTooLong says that the conversation was longer than the model can read. Servers other than OpenAI's own say it in their texts only.
func isTooLong(word, message string) bool {
	message = strings.ToLower(message)
	return word == provider.KindContextLength || word == "exceed_context_size_error" ||
		strings.Contains(message, "maximum context length") || strings.Contains(message, "context window") ||
		strings.Contains(message, "exceeds the available context size")
}
