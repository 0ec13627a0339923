package egress

import "fmt"

// Reason is why a request has no response. The list is closed.
type Reason string

const (
	// ReasonInvalid: the request cannot be sent as it is: its URL, its method or one of its headers.
	ReasonInvalid Reason = "Invalid"
	// ReasonForbidden: Request.Permits does not permit the URL.
	ReasonForbidden Reason = "Forbidden"
	// ReasonRefused: the host does not exist, or has no address that a request may go to.
	ReasonRefused Reason = "Refused"
	// ReasonUnresolved: looking up the host failed.
	ReasonUnresolved Reason = "Unresolved"
	// ReasonUnreachable: no connection was established.
	ReasonUnreachable Reason = "Unreachable"
	// ReasonUntrusted: the server could not prove that it is the host.
	ReasonUntrusted Reason = "Untrusted"
	// ReasonRedirect: the server redirected the request to a forbidden destination, or too often.
	ReasonRedirect Reason = "Redirect"
	// ReasonLost: the connection broke, or its data was not a valid response.
	ReasonLost Reason = "Lost"
	// ReasonTimeout: there was no complete response in time.
	ReasonTimeout Reason = "Timeout"
	// ReasonCancelled: the caller has cancelled the request.
	ReasonCancelled Reason = "Cancelled"
)

// Error is why a request has no response. It contains no header, query, body or address, and wraps no error that does:
// it may be shown to any user.
type Error struct {
	// Reason of the failure.
	Reason Reason
	// Text has details, without a final stop.
	Text string
	// Sent reports whether the request, or the one that led to it by a redirect, may have reached a server. Otherwise
	// nothing has happened.
	Sent bool
	// Status of a response whose body did not arrive completely; 0 if not even its header did.
	Status int
}

// Error implements error.
func (e *Error) Error() string {
	return fmt.Sprintf("%s: %s", e.Reason, e.Text)
}

// behind returns the error of a request after a number of redirects. If its destination is forbidden, the last redirect
// is the cause.
func (e *Error) behind(redirects int) *Error {
	if redirects == 0 {
		return e
	}
	e.Sent = true
	if e.Reason == ReasonRefused {
		e.Reason, e.Text = ReasonRedirect, "invalid redirect target: "+e.Text
	}
	return e
}

func failure(reason Reason, format string, args ...any) *Error {
	return &Error{Reason: reason, Text: fmt.Sprintf(format, args...)}
}
