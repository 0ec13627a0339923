package provider

import (
	"fmt"
	"net/http"

	"github.com/capstan-dev/capstan/internal/runtime/model"
)

const (
	// MaxAnswer is the maximum size of a response, its text and the arguments of its calls together, in bytes. No model
	// writes as much at once.
	MaxAnswer = 2 << 20
	// MaxArguments is the maximum size of the arguments of one call, in bytes. A tool accepts a tenth of it; the model
	// receives an error about that.
	MaxArguments = 1 << 20
	// MaxCalls is the maximum number of calls of a response. A step runs far fewer, and the model gets errors for the
	// rest; no model intends more.
	MaxCalls = 1024
)

// TooLong is the error of a response with so many bytes and calls, and so many bytes of arguments in the largest call;
// nil if it is within the bounds.
func TooLong(provider string, size, calls, arguments int) error {
	if size <= MaxAnswer && calls <= MaxCalls && arguments <= MaxArguments {
		return nil
	}
	return &Error{Provider: provider, text: fmt.Sprintf("the response of %s is too long to be stored", provider)}
}

// Broken returns the usable part of a response that broke off with an error (LLM-05): its text, and the calls with
// complete arguments. It returns the error for a response that broke off within its first call, because the text before
// it would look like a whole response, and for an empty one.
func Broken(r model.Response, err error) (*model.Response, error) {
	begun := len(r.ToolCalls)
	r.KeepCalls(func(c model.ToolCall) bool { return isObject(c.Arguments) })
	if len(r.ToolCalls) == 0 && (begun > 0 || r.Text == "") {
		return nil, err
	}
	r.FinishReason = ""
	return &r, nil
}

// CutShort returns the usable part of a response that reached its token limit: its text, and the calls with complete
// arguments. It is an error if the limit was reached within the first call, or before any content.
func CutShort(provider string, r model.Response) (*model.Response, error) {
	return ended(r, &Error{Provider: provider, text: fmt.Sprintf(
		"the response of %s reached its token limit too early: raise maxOutputTokens of the Model", provider)})
}

// OutOfContext returns the usable part of a response that reached the end of the context window, as CutShort does. It
// is an error if the conversation left no room for a response.
func OutOfContext(provider, asked string, r model.Response) (*model.Response, error) {
	return ended(r, StatusError(provider, asked, http.StatusBadRequest, 0, KindContextLength))
}

// ended returns the usable part of a response that broke off, with its own finish reason.
func ended(r model.Response, err error) (*model.Response, error) {
	finish := r.FinishReason
	kept, err := Broken(r, err)
	if err != nil {
		return nil, err
	}
	kept.FinishReason = finish
	return kept, nil
}

// Filtered returns the usable part of a response that a filter of the provider has ended: its text, which may be empty.
// Calls that it has begun are dropped.
func Filtered(r model.Response) *model.Response {
	if r.FinishReason != model.FinishFiltered {
		r.FinishReason, r.FinishWord = model.FinishFiltered, r.FinishReason
	}
	r.ToolCalls, r.Content = nil, nil
	return &r
}

// Stopped returns the usable part of a response that the provider has ended for a reason of its own, which it reports:
// its text. It is an error if there is none, or if the text led up to a call.
func Stopped(provider string, r model.Response) (*model.Response, error) {
	if len(r.ToolCalls) > 0 || r.Text == "" {
		return nil, NoAnswer(provider, r.FinishReason, false)
	}
	return &r, nil
}

// NoAnswer is the error of a provider that ended its response before any content, with the provider's word for the
// reason.
func NoAnswer(provider, kind string, transient bool) error {
	e := &Error{
		Provider: provider, Kind: SafeCode(kind, ""), text: provider + " returned no response", transient: transient,
	}
	if e.Kind != "" {
		e.text += ": " + e.Kind
	}
	return e
}
