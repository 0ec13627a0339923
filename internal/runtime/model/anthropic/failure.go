package anthropic

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"regexp"
	"strings"
	"time"

	sdk "github.com/anthropics/anthropic-sdk-go"

	"github.com/capstan-dev/capstan/internal/runtime/model/provider"
)

// failure returns why there is no complete response. raw is the response, if there is any, and err the SDK's own error,
// which includes the URL and the body.
func (d *driver) failure(ctx context.Context, asked string, raw *http.Response, err error, events int) error {
	var refused *sdk.Error
	if errors.As(err, &refused) {
		status, wait := refused.StatusCode, time.Duration(0)
		if refused.Response != nil {
			wait = provider.RetryAfter(refused.Response.Header, time.Now())
		}
		reported := errorOf(refused)
		err := provider.StatusError(name, asked, status, wait, d.kind(reported))
		err = provider.WithProblem(err, provider.SafeText(reported.Message, d.key))
		switch {
		case reported.refusesReasoning():
			return &provider.ReasoningRefused{Err: err}
		case reported.Type == string(sdk.ErrorTypeInvalidRequestError):
			return provider.WithImage(err, reported.Message, unfetchedImage, unreadableImage)
		}
		return err
	}
	if err == nil && raw != nil && events == 0 && !provider.IsEventStream(raw.Header) {
		return provider.NoStream(name)
	}
	return provider.RequestError(ctx, name, err)
}

// The API's messages about an image that it could not fetch from its address, also because of robots.txt, in the words
// that public clients of the API match (read 2026-11), and about one that it cannot read:
// github.com/anthropics/claude-code/issues/19031 and 17452 (2026-01), 49836 (2026-04). It refuses too many in the words
// of 3397 (2025-07) and 24541 (2026-02): a proxy may have a lower limit than the API.
var (
	unfetchedImage  = []string{"unable to download the file", "robots.txt", ".image.source.url"}
	unreadableImage = []string{"could not process image", ".image.source.", "too much media", "too many images"}
)

// fieldName is the path of a field of the request. It begins with a field that a Model determines, so that no other
// text matches.
var fieldName = regexp.MustCompile(
	`^(max_tokens|model|output_config|stop_sequences|temperature|thinking|tools|top_p)(\.[a-z_]{1,32}){0,2}$`,
)

// spent is the API's message, without an error type of its own, for an organization or a workspace that has reached its
// spend limit.
var spent = regexp.MustCompile(`^you have reached your specified (\w+ )?api usage limits`)

// apiError is the API's description of an error.
type apiError struct {
	Type    string `json:"type"`
	Message string `json:"message"`
}

func errorOf(refused *sdk.Error) apiError {
	var body struct {
		Error apiError `json:"error"`
	}
	_ = json.Unmarshal([]byte(refused.RawJSON()), &body) // A body that is not JSON has no word.
	return body.Error
}

// filtered reports whether a filter of the provider ended the response, which it reports as an error
// (github.com/anthropics/claude-code/issues/58367).
func (t apiError) filtered() bool {
	return t.Type == string(sdk.ErrorTypeInvalidRequestError) &&
		strings.Contains(strings.ToLower(t.Message), "blocked by content filtering policy")
}

// kind is the provider's word for an error, with the invalid field of the request if the error names it.
func (d *driver) kind(t apiError) string {
	message := strings.ToLower(t.Message)
	switch {
	case strings.Contains(message, "prompt is too long"),
		strings.Contains(message, "exceed context limit"),
		strings.Contains(message, "context window"):
		return provider.KindContextLength
	case t.Type == string(sdk.ErrorTypeBillingError), strings.Contains(message, "credit balance is too low"),
		spent.MatchString(message):
		return provider.KindQuota
	}
	word := provider.SafeCode(t.Type, d.key)
	// Only an invalid request has such a field.
	field, _, found := strings.Cut(t.Message, ":")
	if found && word == string(sdk.ErrorTypeInvalidRequestError) && fieldName.MatchString(field) &&
		!strings.Contains(field, d.key) {
		word += " of " + field
	}
	return word
}
