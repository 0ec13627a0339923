package provider

// ReasoningRefused is the error of a request that the provider refused because of reasoning in it. The same request
// without reasoning may be accepted.
type ReasoningRefused struct {
	// Err is the error of the request.
	Err error
}

// Error implements error.
func (e *ReasoningRefused) Error() string { return e.Err.Error() }

// Unwrap returns the error of the request.
func (e *ReasoningRefused) Unwrap() error { return e.Err }
