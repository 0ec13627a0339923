package egress

import "fmt"

// Reason says what kept a request from its answer. The list is closed.
type Reason string

const (
	// ReasonInvalid: the request cannot be sent as it is: its URL, its method or one of its headers.
	ReasonInvalid Reason = "Invalid"
	// ReasonForbidden: Request.Permits does not let the request go to the URL.
	ReasonForbidden Reason = "Forbidden"
	// ReasonRefused: the host does not exist, or has no address that a request may go to.
	ReasonRefused Reason = "Refused"
	// ReasonUnresolved: whether the host exists could not be found out.
	ReasonUnresolved Reason = "Unresolved"
	// ReasonUnreachable: no connection came about.
	ReasonUnreachable Reason = "Unreachable"
	// ReasonUntrusted: the server could not prove that it is the host.
	ReasonUntrusted Reason = "Untrusted"
	// ReasonRedirect: the server sent the request elsewhere, and it may not go there, or has gone elsewhere too often.
	ReasonRedirect Reason = "Redirect"
	// ReasonLost: the connection broke, or what came over it was no answer.
	ReasonLost Reason = "Lost"
	// ReasonTimeout: there was no whole answer in time.
	ReasonTimeout Reason = "Timeout"
	// ReasonCancelled: whoever asked does not want the answer any more.
	ReasonCancelled Reason = "Cancelled"
)

// Error is why a request has no answer. It has no header, query, body or address in it, and wraps nothing that has: it
// may be shown to anybody.
type Error struct {
	// Reason of the failure.
	Reason Reason
	// Text says more, in words without a full stop.
	Text string
	// Sent reports whether the request, or the one that led to it by a redirect, may have reached a server. Without it
	// nothing has happened.
	Sent bool
	// Status of the answer whose body did not arrive as a whole; 0 when not even the answer's header did.
	Status int
}

// Error implements error.
func (e *Error) Error() string {
	return fmt.Sprintf("%s: %s", e.Reason, e.Text)
}

// behind is the error of a request that so many redirects have led to. Where it may not go, the last of them is at
// fault.
func (e *Error) behind(redirects int) *Error {
	if redirects == 0 {
		return e
	}
	e.Sent = true
	if e.Reason == ReasonRefused {
		e.Reason, e.Text = ReasonRedirect, "the server redirected elsewhere: "+e.Text
	}
	return e
}

func failure(reason Reason, format string, args ...any) *Error {
	return &Error{Reason: reason, Text: fmt.Sprintf(format, args...)}
}
