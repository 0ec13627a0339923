package format

import "time"

// each converts the items of a list; nil stays nil.
func each[A, B any](items []A, convert func(A) B) []B {
	if items == nil {
		return nil
	}
	converted := make([]B, len(items))
	for i, item := range items {
		converted[i] = convert(item)
	}
	return converted
}

// microseconds is a time in the form of format 2.
func microseconds(t time.Time) int64 { return t.UnixMicro() }
