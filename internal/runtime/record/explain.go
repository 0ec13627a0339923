package record

import (
	"errors"
	"fmt"
)

// ExplainedError is an error that the user of a service can correct, or has to know: a wrong key, a limit, a missing
// permission. Its text may be shown to the model.
type ExplainedError struct{ text string }

// Error implements error.
func (e *ExplainedError) Error() string { return e.text }

// Explainf returns an ExplainedError.
func Explainf(format string, args ...any) error {
	return &ExplainedError{text: fmt.Sprintf(format, args...)}
}

// Explain adds an ExplainedError to an error of a Store that users have to know. full and namespaceFull are the texts
// for a store, and for a namespace, that has no room. Other errors are returned as they are.
func Explain(err error, full, namespaceFull string) error {
	var text string
	switch {
	case errors.Is(err, ErrNamespaceFull):
		text = namespaceFull
	case errors.Is(err, ErrFull):
		text = full
	case errors.Is(err, ErrRefused):
		text = "The server refuses the change. A quota of the namespace may be used up, or the namespace is being deleted."
	default:
		return err
	}
	return fmt.Errorf("%w (%w)", Explainf("%s", text), err)
}
