package mcpcall

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/credential"
	"github.com/capstan-dev/capstan/internal/runtime/egress"
	"github.com/capstan-dev/capstan/internal/runtime/mcp"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
	"github.com/capstan-dev/capstan/internal/runtime/tool/httpcall"
	"github.com/capstan-dev/capstan/internal/runtime/tool/result"
)

// Ended returns the outcome of a call that has ended: with a result of the server, or with an error. secret is what the
// result must not show. waits reports whether a client may set up a connection that the tool needs. The caller sets the
// times.
func Ended(
	call v1alpha1.ToolCall, timeout time.Duration, secret http.Header, waits bool, answer *mcp.Result, err error,
) tool.Outcome {
	switch {
	case err != nil:
		return failed(call, timeout, secret, err)
	case answer.Connection != "" && credential.RedactText(answer.Connection, secret) == answer.Connection:
		return tool.NeedsConnection(answer.Connection, waits)
	case answer.Asked != nil:
		return asked(secret, answer.Asked)
	}
	text := credential.RedactText(answer.Text, secret)
	if answer.IsError {
		return tool.AfterStart(tool.Failed(v1alpha1.ToolCallReasonToolError, shortened(text, "The tool failed.")))
	}
	text, output := tool.Cut([]byte(text), int64(len(text)))
	return tool.AfterStart(tool.Outcome{
		State: v1alpha1.ToolCallStateSucceeded, Reason: v1alpha1.ToolCallReasonCompleted, Result: &text, Output: output,
	})
}

// failed is the outcome of a call without a result.
func failed(call v1alpha1.ToolCall, timeout time.Duration, secret http.Header, err error) tool.Outcome {
	var e *mcp.Error
	if !errors.As(err, &e) {
		e = &mcp.Error{}
	}
	if !e.Called {
		return notCalled(call, timeout, secret, e)
	}
	switch {
	case e.Rejected != "":
		text := credential.RedactText(e.Rejected, secret)
		return tool.AfterStart(tool.Failed(v1alpha1.ToolCallReasonServerError,
			"The server responded with an error: "+shortened(text, "it has no text.")))
	case e.Status != 0:
		return tool.AfterStart(tool.Failed(v1alpha1.ToolCallReasonHTTPStatus, capitalized(e)))
	case errors.Is(e, context.DeadlineExceeded):
		return ofRequest(call, timeout, &egress.Error{Reason: egress.ReasonTimeout, Sent: true})
	case e.Request != nil:
		return ofRequest(call, timeout, e.Request)
	case errors.Is(e, context.Canceled) || !e.Answered:
		return ofRequest(call, timeout, &egress.Error{Reason: egress.ReasonLost, Text: e.Error(), Sent: true})
	default:
		return tool.OutputLost(call, e.Error())
	}
}

// ofRequest is the outcome of a call whose request has no response, as that of an HTTP tool.
func ofRequest(call v1alpha1.ToolCall, timeout time.Duration, e *egress.Error) tool.Outcome {
	return httpcall.Ended(call, egress.Request{Timeout: timeout}, nil, e)
}

// notCalled is the outcome of a call before which the connection to the server has failed.
func notCalled(call v1alpha1.ToolCall, timeout time.Duration, secret http.Header, e *mcp.Error) tool.Outcome {
	// Requests of the handshake change nothing, so that it does not matter whether the server received them.
	before := egress.Error{Reason: egress.ReasonUnreachable, Text: e.Error()}
	switch {
	case errors.Is(e, context.DeadlineExceeded):
		before.Reason = egress.ReasonTimeout
	case e.Rejected != "":
		before.Reason, before.Text = egress.ReasonUntrusted,
			"the server refused the connection: "+result.Head(credential.RedactText(e.Rejected, secret), 512)
	case e.Status/100 == 4:
		before.Reason = egress.ReasonUntrusted
	case e.Request != nil && e.Request.Reason == egress.ReasonRedirect:
		before.Reason, before.Text = egress.ReasonUntrusted, "the server redirects its requests, which is not supported"
	case e.Request != nil && e.Request.Reason != egress.ReasonLost:
		before.Reason = e.Request.Reason
	}
	return ofRequest(call, timeout, &before)
}

// shortened is an error text of a server, for the model.
func shortened(text, without string) string {
	if text == "" {
		return without
	}
	return result.Head(text, tool.MaxErrorBodyBytes)
}

// capitalized is an error as a sentence.
func capitalized(e *mcp.Error) string {
	return fmt.Sprintf("The server responded with status %d (%s).", e.Status, http.StatusText(e.Status))
}
