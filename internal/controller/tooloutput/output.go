package tooloutput

import (
	"time"

	"github.com/capstan-dev/capstan/internal/runtime/excerpt"
	"github.com/capstan-dev/capstan/internal/runtime/tool/result"
)

const (
	// maxRead bounds the bytes of a log that are read for one call: all that the launcher shows of stderr, and its note
	// about the rest.
	maxRead = result.MaxLogStderrBytes + 1<<10
	// pieceBytes bounds a piece of output, as it is encoded.
	pieceBytes = 4 << 10
)

// output is the output of a call as far as it was read. The zero value is at the beginning.
type output struct {
	shown result.Shown
	// bytes of the log that were read. What is behind them is the same whenever the log is opened again.
	bytes int64
	// offset is that of text, which was read and not passed on.
	offset int64
	text   string
	// ended reports whether there is no more output in the log.
	ended bool
	// next is the earliest time of the next piece.
	next time.Time
}

// add adds the next bytes of the log, up to the bound of a call.
func (o *output) add(log []byte) {
	log = log[:min(int64(len(log)), maxRead-o.bytes)]
	text, more := o.shown.Next(log)
	o.bytes += int64(len(log))
	o.text += text
	o.ended = !more || o.bytes == maxRead
}

// full reports whether there is enough text for a piece.
func (o *output) full() bool { return len(o.text) >= pieceBytes }

// over reports whether all output was passed on.
func (o *output) over() bool { return o.ended && o.text == "" }

// piece returns the next piece; empty without one.
func (o *output) piece() string {
	size := 0
	for at, r := range o.text {
		if size += excerpt.EncodedLength(r); size > pieceBytes {
			return o.text[:at]
		}
	}
	return o.text
}

// passed takes note that the next piece was passed on.
func (o *output) passed(piece string) {
	o.text = o.text[len(piece):]
	o.offset += int64(len(piece))
}
