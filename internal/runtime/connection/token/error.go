package token

import (
	"fmt"
	"time"
)

// MissingError is the error for a connection that its user has to set up, or to set up again.
type MissingError struct {
	// Provider that the connection is to.
	Provider string
	// Why is a sentence without its end. It has no value of a Secret.
	Why string
	// None reports whether the user has no such connection at all.
	None bool
}

// Error implements error.
func (e *MissingError) Error() string { return e.Why }

// UnavailableError is the error for a token that cannot be refreshed at the moment.
type UnavailableError struct {
	// Provider that the connection is to.
	Provider string
	// Why is a sentence without its end. It has no value of a Secret.
	Why string
	// Until is when the token endpoint may be asked again.
	Until time.Time
}

// Error implements error.
func (e *UnavailableError) Error() string { return e.Why }

func missing(provider, format string, args ...any) *MissingError {
	return &MissingError{Provider: provider, Why: fmt.Sprintf(format, args...)}
}
