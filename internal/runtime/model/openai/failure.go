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

// failure returns why there is no complete response: an error, or a filter of the server, of which filtered is the
// word.
type failure struct {
	err      error
	filtered string
}

// failure returns why there is no complete response. raw is the response's header and, if the status is an error, its
// body, which the SDK has read.
func (d *driver) failure(ctx context.Context, asked string, raw *http.Response, err error, chunks int) failure {
	// A redirect that was not followed is an error of the request.
	if raw != nil &&
		(raw.StatusCode >= http.StatusBadRequest || raw.StatusCode >= http.StatusMultipleChoices && err == nil) {
		body, _ := io.ReadAll(raw.Body)
		return d.failureFor(asked, raw.StatusCode, provider.RetryAfter(raw.Header, time.Now()), problemOf(body))
	}
	var within *ssestream.StreamError
	if errors.As(err, &within) {
		p := problemOf(within.Event.Data)
		return d.failureFor(asked, p.status(), 0, p)
	}
	if raw != nil && raw.StatusCode < http.StatusMultipleChoices && chunks == 0 && !provider.IsEventStream(raw.Header) {
		return failure{err: provider.NoStream(name)}
	}
	return failure{err: provider.RequestError(ctx, name, err)}
}

// failureFor is a failure with a reason from the server.
func (d *driver) failureFor(asked string, status int, wait time.Duration, p problem) failure {
	if word := p.filter(); word != "" {
		return failure{filtered: word}
	}
	err := provider.StatusError(name, asked, status, wait, d.kind(p))
	err = provider.WithProblem(err, provider.SafeText(p.Message, d.key))
	switch {
	case d.refusesReasoning(status, p):
		err = &provider.ReasoningRefused{Err: err}
	case status == http.StatusBadRequest || status == http.StatusUnprocessableEntity || status == 0:
		err = provider.WithImage(err, p.word()+": "+p.Message, unfetchedImage, unreadableImage)
	}
	return failure{err: err}
}

// The messages of OpenAI about an image that it could not fetch: github.com/vercel/ai/issues/8857 (2025-09),
// github.com/gaoren002/GPT2Image-Pro/issues/34 (2026-06), portkey.ai/error-library/download-error-10510 (read 2026-11);
// and of DashScope: github.com/agentscope-ai/agentscope-java/issues/2700 (2026-08). Then those about an image that they
// cannot read: github.com/STranslate/STranslate/issues/277 (2024-12). Models that read no images are among them,
// because a tool may return one unasked: github.com/vllm-project/vllm/issues/11629 (2025-01) for OpenAI,
// github.com/rikkahub/rikkahub/issues/1433 (2026-07) for DeepSeek, github.com/ollama/ollama/issues/17301 (2026-07) for
// Ollama, github.com/anomalyco/opencode/issues/47994 (2026-09). So are more images than a server accepts:
// github.com/the-open-agent/openagent/issues/874 (2024-06), github.com/vllm-project/vllm/issues/17092 (2025-04),
// github.com/AgnesAI-Labs/AgnesCode/issues/61 (2026-07), github.com/anomalyco/opencode/issues/47721 (2026-09).
var (
	unfetchedImage = []string{
		"while downloading", "failed to download image", "invalid_image_url", "failed to download multimodal content",
	}
	unreadableImage = []string{
		"you uploaded an unsupported image",
		"not support image input",
		"image_url is only supported by certain models",
		"unknown variant `image_url`",
		"unknown variant image_url",
		"too many images in request",
		"image(s) may be provided in one request",
		"image count ",
		"images, exceeding the maximum",
	}
)

// problem is the description of an error by OpenAI and compatible servers.
type problem struct {
	Code    any    `json:"code"`
	Type    string `json:"type"`
	Param   string `json:"param"`
	Message string `json:"message"`
	Inner   inner  `json:"innererror"`
	// Behind is what a gateway passes on of the error of the provider behind it.
	Behind struct {
		Inner inner `json:"innererror"`
	} `json:"provider_specific_fields"`
}

// inner is the precise part of an error.
type inner struct {
	Code string `json:"code"`
}

// problemOf reads an error. Servers send it under "error" or as the whole body, and it may be a plain text.
func problemOf(body []byte) problem {
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
	return p
}

// status is the status in an error, if there is one.
func (p problem) status() int {
	if code, ok := p.Code.(float64); ok && code >= http.StatusBadRequest && code < 600 {
		return int(code)
	}
	return 0
}

// word is the error's own.
func (p problem) word() string {
	if word, _ := p.Code.(string); word != "" {
		return word
	}
	return p.Type
}

// filterViolation is Azure's precise code of an error of its content filter.
const filterViolation = "ResponsibleAIPolicyViolation"

// filter is the word of an error that reports that a filter refused the prompt or the response; empty for any other.
// Azure answers 400 with the first, and the second within it (github.com/openai/openai-dotnet/issues/55); gateways use
// content_policy_violation, or pass the second one on (github.com/BerriAI/litellm/pull/16231, 2025-11).
func (p problem) filter() string {
	switch {
	case p.word() == finishFilter, p.Inner.Code == filterViolation, p.Behind.Inner.Code == filterViolation:
		return finishFilter
	case p.word() == "content_policy_violation":
		return p.word()
	default:
		return ""
	}
}

// kind is the provider's word for an error.
func (d *driver) kind(p problem) string {
	word := p.word()
	switch {
	case isTooLong(word, p.Message):
		return provider.KindContextLength
	case word == "billing_hard_limit_reached", p.Type == provider.KindQuota:
		return provider.KindQuota
	case word == provider.KindModelNotFound, word == provider.KindInvalidKey:
		return word
	}
	word = provider.SafeCode(word, d.key)
	if param := provider.SafeCode(p.Param, d.key); word != "" && param != "" {
		word += " of " + param
	}
	return word
}

// isTooLong reports whether the conversation was longer than the model can read. Compatible servers report it only in
// their messages.
func isTooLong(word, message string) bool {
	message = strings.ToLower(message)
	return word == provider.KindContextLength || word == "exceed_context_size_error" ||
		strings.Contains(message, "maximum context length") || strings.Contains(message, "context window") ||
		strings.Contains(message, "exceeds the available context size")
}
