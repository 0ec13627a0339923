package trace

import (
	"time"

	"go.opentelemetry.io/otel/attribute"
)

// Span is a span that has ended.
type Span struct {
	// Trace has 32 hexadecimal digits, ID and Parent have 16. Parent is empty for the root of a trace.
	Trace, ID, Parent string
	// Flags are the two hexadecimal digits of the trace context.
	Flags string
	// Name of the operation.
	Name string
	// Client reports whether the span is a request to another system.
	Client bool
	// Remote reports whether another program has made the parent.
	Remote     bool
	Start, End time.Time
	Attributes []attribute.KeyValue
	// Error is the class of the error; empty for none.
	Error string
}

// Sink exports spans. It is safe for concurrent use.
type Sink interface {
	// Export accepts spans and never waits. It drops them if there are too many.
	Export(spans []Span)
	// Content reports whether spans have the texts of users, models and tools.
	Content() bool
}

// Func is a Sink that calls a function with each span, without texts of users, models and tools.
type Func func(Span)

// Export implements Sink.
func (f Func) Export(spans []Span) {
	for _, s := range spans {
		f(s)
	}
}

// Content implements Sink.
func (Func) Content() bool { return false }
