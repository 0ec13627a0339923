package executor

import "fmt"

// PanicError is the end of an activity that has panicked.
type PanicError struct {
	// Value that it panicked with.
	Value any
	// Stack of its goroutine.
	Stack []byte
}

// Error implements error.
func (e *PanicError) Error() string {
	return fmt.Sprintf("activity panicked: %v\n%s", e.Value, e.Stack)
}
