package provider

import (
	"fmt"
	"net/http"

	"github.com/capstan-dev/capstan/internal/runtime/model"
)

const (
	// MaxAnswer is the most that a response may come to, its text and the arguments of its calls together, in bytes. No
	// model writes as much at once.
	MaxAnswer = 2 << 20
	// MaxArguments is the most that the arguments of one call may come to, in bytes. A tool can be given a tenth of it;
	// the model is told so.
	MaxArguments = 1 << 20
	// MaxCalls is how many tools a response may call. A step runs far fewer, and tells the model of the rest; more than
	// these no model means.
	MaxCalls = 1024
)

// TooLong is the error of a response that comes to so many bytes and calls, with so many bytes of arguments in the
// largest of them; nil for one that may be kept.
func TooLong(provider string, size, calls, arguments int) error {
	if size <= MaxAnswer && calls <= MaxCalls && arguments <= MaxArguments {
		return nil
	}
	return &Error{Provider: provider, text: fmt.Sprintf("the response of %s is too long to be stored", provider)}
}

// Broken is what counts of a response that broke off with an error (LLM-05): its text, and the calls whose arguments
// are whole. A response that broke off within its first call is the error: what was said before would pass for a
// response that the model never gave. So is one with nothing in it.
func Broken(r model.Response, err error) (*model.Response, error) {
	begun := len(r.ToolCalls)
	r.KeepCalls(func(c model.ToolCall) bool { return isObject(c.Arguments) })
	if len(r.ToolCalls) == 0 && (begun > 0 || r.Text == "") {
		return nil, err
	}
	r.FinishReason = ""
	return &r, nil
}

// CutShort is what counts of a response that the limit of its tokens has ended: its text, and the calls whose arguments
// are whole. It is an error when the limit was reached within the first call, or before anything was said.
func CutShort(provider string, r model.Response) (*model.Response, error) {
	return ended(r, &Error{Provider: provider, text: fmt.Sprintf(
		"the response of %s reached its token limit too early: raise maxOutputTokens of the Model", provider)})
}

// OutOfContext is what counts of a response that ended where the model could read and write no more: what CutShort
// keeps. It is an error when the conversation left no room for it.
func OutOfContext(provider, asked string, r model.Response) (*model.Response, error) {
	return ended(r, StatusError(provider, asked, http.StatusBadRequest, 0, KindContextLength))
}

// ended is what is kept of a response that broke off, with the reason that it gave for that.
func ended(r model.Response, err error) (*model.Response, error) {
	finish := r.FinishReason
	kept, err := Broken(r, err)
	if err != nil {
		return nil, err
	}
	kept.FinishReason = finish
	return kept, nil
}

// Filtered is what counts of a response that a filter of the provider has ended: its text, which may be none. What it
// had begun to call before is not what it wants, or not what it may want.
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

// NoAnswer is the error of a provider that ended its response before it said anything, with its own word for why.
func NoAnswer(provider, kind string, transient bool) error {
	e := &Error{Provider: provider, Kind: Words(kind, ""), text: provider + " returned no response", transient: transient}
	if e.Kind != "" {
		e.text += ": " + e.Kind
	}
	return e
}
