package httpcall

import (
	"errors"
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/credential"
	"github.com/capstan-dev/capstan/internal/runtime/egress"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
	"github.com/capstan-dev/capstan/internal/runtime/tool/content"
	"github.com/capstan-dev/capstan/internal/runtime/tool/result"
)

// Ended returns the outcome of a call whose request has ended: with a response, or with an error of the egress
// client. hidden are the values of secrets that it must not show. The caller sets its times.
func Ended(
	call v1alpha1.ToolCall, request egress.Request, answer *egress.Response, err error, hidden ...string,
) tool.Outcome {
	secret := credential.Hiding(request.Secret, hidden...)
	if err != nil {
		return noResponse(call, request, secret, err)
	}
	body := credential.Redact(answer.Body, secret)
	if answer.Status/100 == 2 {
		cut := int64(0)
		if len(secret) > 0 {
			cut = reserved(hidden)
		}
		text, output := answerText(body, cut, answer)
		if mediaType := imageType(answer.Header); mediaType != "" {
			text, output = answerImage(mediaType, body, answer), nil
		}
		return tool.AfterStart(tool.Outcome{
			State: v1alpha1.ToolCallStateSucceeded, Reason: v1alpha1.ToolCallReasonCompleted, Result: &text, Output: output,
		})
	}
	return failedStatus(answer, body)
}

// failedStatus is the outcome of a response that reports an error.
func failedStatus(answer *egress.Response, body []byte) tool.Outcome {
	status := fmt.Sprintf("The server responded with status %d", answer.Status)
	if words := http.StatusText(answer.Status); words != "" {
		status += " (" + words + ")"
	}
	if len(body) == 0 {
		status += " and an empty body."
	} else {
		start := result.Head(strings.ToValidUTF8(string(body), string(utf8.RuneError)), tool.MaxErrorBodyBytes)
		status += ". The start of the response:\n" + start
	}
	outcome := tool.AfterStart(tool.Failed(v1alpha1.ToolCallReasonHTTPStatus, status))
	outcome.Status = answer.Status
	return outcome
}

// answerText is the result, cut where it is too long, and what it is the start of.
//
// The end of a response that goes on may be the start of a Secret's value, of at most cut bytes.
func answerText(body []byte, cut int64, answer *egress.Response) (string, *tool.Output) {
	if !answer.More {
		return tool.Cut(body, int64(len(body)))
	}
	body = body[:max(int64(len(body))-cut, 0)]
	if answer.Length > int64(len(body)) {
		return tool.Cut(body, answer.Length)
	}
	return tool.Cut(body, -1)
}

// imageType returns the type of a response that is an image which models can read; empty for any other.
func imageType(header http.Header) string {
	mediaType, _, err := mime.ParseMediaType(header.Get("Content-Type"))
	if err != nil || !slices.Contains(content.MediaTypes, mediaType) {
		return ""
	}
	return mediaType
}

// answerImage is the result of a response that is an image.
func answerImage(mediaType string, body []byte, answer *egress.Response) string {
	size := int64(len(body))
	if answer.More {
		if size = -1; answer.Length > int64(len(body)) {
			size = answer.Length
		}
	}
	return content.FromImage(mediaType, body, size)
}

// noResponse is the outcome of a request without a response.
func noResponse(call v1alpha1.ToolCall, request egress.Request, secret http.Header, err error) tool.Outcome {
	e := &egress.Error{Reason: egress.ReasonLost, Text: "the request failed", Sent: true}
	if is := (*egress.Error)(nil); errors.As(err, &is) {
		copied := *is
		e, copied.Text = &copied, withoutHosts(is.Text, secret)
	}
	if e.Status/100 == 2 {
		return tool.OutputLost(call, e.Text)
	}
	switch e.Reason {
	case egress.ReasonRedirect:
		return tool.AfterStart(
			tool.Failed(v1alpha1.ToolCallReasonRedirectRefused, "The redirect was not followed: "+e.Text+"."),
		)
	case egress.ReasonTimeout:
		return timedOut(call, request, e)
	case egress.ReasonInvalid:
		return undelivered(call, v1alpha1.ToolCallReasonInvalidRequest, e, false)
	case egress.ReasonForbidden:
		return undelivered(call, v1alpha1.ToolCallReasonNetworkAccessDenied, e, false)
	case egress.ReasonRefused:
		return undelivered(call, v1alpha1.ToolCallReasonAddressRefused, e, false)
	case egress.ReasonUntrusted:
		return undelivered(call, v1alpha1.ToolCallReasonConnectionFailed, e, false)
	case egress.ReasonUnresolved, egress.ReasonUnreachable:
		return undelivered(call, v1alpha1.ToolCallReasonConnectionFailed, e, true)
	default: // Lost and Cancelled
		return undelivered(call, v1alpha1.ToolCallReasonConnectionLost, e, e.Reason == egress.ReasonLost)
	}
}

// withoutHosts is the text of an error without secrets. It may name the host that a server has redirected to, in lower
// case.
func withoutHosts(text string, secret http.Header) string {
	lower := http.Header{}
	for name, values := range secret {
		for _, value := range values {
			lower[name] = append(lower[name], value, strings.ToLower(value))
		}
	}
	return credential.RedactText(text, lower)
}

// undelivered is the outcome of a request without a response because of the connection. Transient errors are retryable.
func undelivered(call v1alpha1.ToolCall, reason string, e *egress.Error, passes bool) tool.Outcome {
	if !e.Sent {
		outcome := NotSent(call, reason, e.Text)
		outcome.Retryable = passes && !tool.AtMostOnce(call)
		return outcome
	}
	outcome := tool.AfterStart(tool.Interrupted(call, reason, e.Text))
	outcome.Retryable = outcome.Retryable && passes
	return outcome
}

// timedOut is the outcome of a request that took too long. The server may continue with it.
func timedOut(call v1alpha1.ToolCall, request egress.Request, e *egress.Error) tool.Outcome {
	why := e.Text
	if request.Timeout > 0 {
		why = "no complete response arrived within " + request.Timeout.String()
	}
	switch {
	case !e.Sent:
		return NotSent(call, v1alpha1.ToolCallReasonTimeout,
			"no connection was established within "+request.Timeout.String())
	case tool.AtMostOnce(call):
		return tool.AfterStart(tool.Unknown(v1alpha1.ToolCallReasonTimeout, why))
	default:
		return tool.AfterStart(
			tool.Failed(
				v1alpha1.ToolCallReasonTimeout,
				"The tool timed out: "+why+". It may have done part of its work. It is safe to call it again.",
			),
		)
	}
}

// NotSent is the outcome of a call whose request was not sent. Only for the first attempt is it certain that nothing
// has happened.
func NotSent(call v1alpha1.ToolCall, reason, why string) tool.Outcome {
	if tool.AtMostOnce(call) || call.Attempt <= 1 {
		return tool.NotExecuted(reason, why)
	}
	return tool.Failed(reason, tool.InterruptedText(why))
}

// NotPaid is the outcome of a call whose server asks for a payment that was not made. why is a sentence without its
// end. It has nothing of the response: what the server writes to those who should pay is not for the model.
func NotPaid(reason, why string) tool.Outcome {
	return tool.AfterStart(tool.Failed(reason, "The server asks for a payment, which was not made: "+why+"."))
}

// Abandoned is the outcome of a call whose claim has no recorded outcome.
func Abandoned() tool.Outcome {
	return tool.AfterStart(
		tool.Unknown(
			v1alpha1.ToolCallReasonManagerLost,
			"the manager was restarted or replaced while the request was in progress",
		),
	)
}
