package tool

import (
	"bytes"

	"github.com/capstan-dev/capstan/internal/runtime/tool/result"
)

// MaxOutputBytes is how much of an output is kept as a file.
const MaxOutputBytes = result.MaxOutputBytes

// Output is what a tool returned, where its result is only the start of it.
type Output struct {
	// Content is the start of the output, at most MaxOutputBytes.
	Content []byte
	// Total is the length of the whole output in bytes; -1 if it is longer than Content by an unknown number of bytes.
	Total int64
}

// Cut returns a result from an output, as result.Cut does, and the Output if the result is only the start of it; nil
// otherwise. total is the length of the whole output, of which output may be only the first part; -1 if it is unknown.
func Cut(output []byte, total int64) (text string, rest *Output) {
	if total < 0 {
		text = result.CutOpen(output)
	} else {
		var cut bool
		if text, cut = result.Cut(output, total); !cut {
			return text, nil
		}
		total = max(total, int64(len(output)))
	}
	if len(output) > MaxOutputBytes {
		output = bytes.Clone(output[:MaxOutputBytes]) // so that the rest is not kept in memory
	}
	return text, &Output{Content: output, Total: total}
}

// Kept returns the result of a call whose output is in a file: its start, with a note about the file.
func (o Output) Kept(path string, isText bool) string {
	return result.CutKept(o.Content, o.Total, path, isText)
}
