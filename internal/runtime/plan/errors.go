package plan

import "errors"

// ErrorKind is the cause of an Error (ERR-04).
type ErrorKind string

const (
	// KindConfiguration is a wrong use of the planner, such as an activity name it does not know. Trying again can
	// not help.
	KindConfiguration ErrorKind = "configuration"
	// KindInternal is data that the planner can not work with, such as an undecodable step result.
	KindInternal ErrorKind = "internal"
)

// Error is returned by Next and Machine when they cannot decide. No effect was planned and no state has changed.
type Error struct {
	// Kind distinguishes the two kinds of errors.
	Kind ErrorKind

	cause error
}

// Error returns the kind and the cause.
func (e *Error) Error() string {
	return string(e.Kind) + " error: " + e.cause.Error()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error {
	return e.cause
}

// IsConfiguration reports whether err is, or wraps, a planner Error of KindConfiguration.
func IsConfiguration(err error) bool {
	return hasKind(err, KindConfiguration)
}

// IsInternal reports whether err is, or wraps, a planner Error of KindInternal.
func IsInternal(err error) bool {
	return hasKind(err, KindInternal)
}

func hasKind(err error, kind ErrorKind) bool {
	var planError *Error
	return errors.As(err, &planError) && planError.Kind == kind
}

func internalError(cause error) error {
	return &Error{Kind: KindInternal, cause: cause}
}

func configurationError(cause error) error {
	return &Error{Kind: KindConfiguration, cause: cause}
}
