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

// failure is why there is no whole answer. raw is the answer, if there is any, and err the SDK's own error, which has the URL and the body in it.
func (d *driver) failure(ctx context.Context, asked string, raw *http.Response, err error, events int) error {
	var refused *sdk.Error
	if errors.As(err, &refused) {
		status, wait := refused.StatusCode, time.Duration(0)
		if refused.Response != nil {
			wait = provider.RetryAfter(refused.Response.Header, time.Now())
		}
		return provider.StatusError(name, asked, status, wait, d.kind(refused))
	}
	if err == nil && raw != nil && events == 0 && !provider.IsEventStream(raw.Header) {
		return provider.NoStream(name)
	}
	return provider.RequestError(ctx, name, err)
}

// fieldName is the path of a field of the request. It begins with one of those that a Model decides on, so that nothing else is taken for one.
var fieldName = regexp.MustCompile(`^(max_tokens|model|output_config|stop_sequences|temperature|thinking|tools|top_p)(\.[a-z_]{1,32}){0,2}$`)

// spent is what the API says, under no word of its own, when an organization or a workspace has spent as much as it has set itself.
var spent = regexp.MustCompile(`^you have reached your specified (\w+ )?api usage limits`)

// kind is the provider's word for an error, with the field of the request that is at fault where it says so. What the provider says besides may have
// the prompt in it: it is looked at only, and not passed on.
func (d *driver) kind(refused *sdk.Error) string {
	var body struct {
		Error struct {
			Type    string `json:"type"`
			Message string `json:"message"`
		} `json:"error"`
	}
	_ = json.Unmarshal([]byte(refused.RawJSON()), &body) // What is no JSON has no word.
	message := strings.ToLower(body.Error.Message)
	switch {
	case strings.Contains(message, "prompt is too long"), strings.Contains(message, "exceed context limit"), strings.Contains(message, "context window"):
		return provider.KindContextLength
	case body.Error.Type == string(sdk.ErrorTypeBillingError), strings.Contains(message, "credit balance is too low"), spent.MatchString(message):
		return provider.KindQuota
	}
	word := provider.Words(body.Error.Type, d.key)
	// Only a request that is not well-formed has such a field.
	field, _, found := strings.Cut(body.Error.Message, ":")
	if found && word == string(sdk.ErrorTypeInvalidRequestError) && fieldName.MatchString(field) && !strings.Contains(field, d.key) {
		word += " of " + field
	}
	return word
}
