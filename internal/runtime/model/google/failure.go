package google

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"google.golang.org/genai"

	"github.com/capstan-dev/capstan/internal/runtime/model/provider"
)

// failure returns why there is no complete response.
func (d *driver) failure(ctx context.Context, asked string, seen *record, err error, chunks int) error {
	var reported genai.APIError
	within := errors.As(err, &reported)
	// A redirect that was not followed is an error of the request.
	if within || seen.status >= http.StatusBadRequest {
		status := seen.status
		if status < http.StatusMultipleChoices && reported.Code >= http.StatusBadRequest && reported.Code < 600 {
			status = reported.Code
		}
		refusal := provider.StatusError(name, asked, status, retryAfter(seen, reported), d.kind(reported))
		refusal = provider.WithProblem(refusal, provider.SafeText(reported.Message, d.key))
		switch {
		case refusesReasoning(status, reported.Message):
			return &provider.ReasoningRefused{Err: refusal}
		case status == http.StatusBadRequest:
			return provider.WithImage(refusal, reported.Message, unfetchedImage, unreadableImage)
		}
		return refusal
	}
	if seen.broke != nil {
		return provider.RequestError(ctx, name, seen.broke)
	}
	if seen.status != 0 && seen.status < http.StatusMultipleChoices && chunks == 0 &&
		!provider.IsEventStream(seen.header) {
		return provider.NoStream(name)
	}
	return provider.RequestError(ctx, name, err)
}

// Google's messages about an image that it could not fetch from its address: github.com/googleapis/js-genai/issues/1385
// (2026-03), which passes at times, and github.com/BoundaryML/baml/issues/1548 (2025-03); and about one that it cannot
// read: github.com/AmberSahdev/Open-Interface/issues/64 (2025-08).
var (
	unfetchedImage  = []string{"cannot fetch content from the provided url", "invalid or unsupported file uri"}
	unreadableImage = []string{
		"provided image is not valid", "unable to process input image", "image files but the model only supports",
	}
)

// retryAfter is the pause that Google requests in the details of the error.
func retryAfter(seen *record, reported genai.APIError) time.Duration {
	for _, detail := range reported.Details {
		text, _ := detail["retryDelay"].(string)
		if delay, err := time.ParseDuration(text); err == nil && delay > 0 {
			return delay
		}
	}
	return provider.RetryAfter(seen.header, time.Now())
}

// kind is Google's word for an error, or ours if that is too general. The message of the error is only examined, and
// not passed on.
func (d *driver) kind(reported genai.APIError) string {
	switch {
	case hasReason(reported, "API_KEY_INVALID"):
		return provider.KindInvalidKey
	case strings.Contains(reported.Message, "exceeds the maximum number of tokens"):
		return provider.KindContextLength
	case isDailyQuota(reported):
		return provider.KindQuota
	default:
		return provider.SafeCode(reported.Status, d.key)
	}
}

// hasReason reports whether one of an error's details has a reason.
func hasReason(reported genai.APIError, reason string) bool {
	for _, detail := range reported.Details {
		if detail["reason"] == reason {
			return true
		}
	}
	return false
}

// isDailyQuota reports whether the exhausted quota is not a limit per minute, which waiting would solve.
func isDailyQuota(reported genai.APIError) bool {
	for _, detail := range reported.Details {
		violations, _ := detail["violations"].([]any)
		for _, v := range violations {
			violation, _ := v.(map[string]any)
			if id, _ := violation["quotaId"].(string); strings.Contains(id, "PerDay") {
				return true
			}
		}
	}
	return false
}
