package provider

import (
	"bufio"
	"bytes"
	"io"
)

// keptBuffer is the largest buffer that is reused for the next event, in bytes.
const keptBuffer = 64 << 10

// eventBody reads the events of a stream one by one. It passes on complete events within their limits, so that an SDK
// scans each only a few times, however small the received pieces are, and decodes none that is too large. It fails with
// errTooLong where io.LimitedReader would pretend that the body has ended.
type eventBody struct {
	body   io.Closer
	reader *bufio.Reader
	limits limits
	// left are the bytes that may still be read, and events those that were passed on.
	left, events int
	// event is the buffer of the event that is passed on, and rest its unread part. err follows it.
	event, rest []byte
	err         error
}

func newEventBody(body io.ReadCloser, l limits) *eventBody {
	return &eventBody{body: body, reader: bufio.NewReader(body), limits: l, left: l.body}
}

// Read implements io.Reader. What it returns is of one event.
func (b *eventBody) Read(p []byte) (int, error) {
	for len(b.rest) == 0 {
		if b.err != nil {
			return 0, b.err
		}
		b.next()
	}
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

// Close implements io.Closer.
func (b *eventBody) Close() error {
	return b.body.Close()
}

// next reads the next event, or the part of it before the end of the body. An event that is too large is not passed on.
func (b *eventBody) next() {
	if cap(b.event) > keptBuffer {
		b.event = nil
	}
	b.event = b.event[:0]
	var seen extent
	for ended := false; !ended; {
		c, err := b.reader.ReadByte()
		if err != nil {
			b.err = err
			break
		}
		b.left--
		if b.left < 0 {
			b.err = errTooLong
			break
		}
		b.event = append(b.event, c)
		ended = seen.grow(c)
		if seen.exceeds(b.limits) {
			b.err, b.event = errTooLong, nil
			return
		}
	}
	if seen.bytes > len("\r\n") {
		b.events++
		if b.events > b.limits.events {
			b.err, b.event = errTooLong, nil
		}
	}
	if b.err == nil && isComment(b.event) {
		// Servers keep the connection open with such an event, and the SDK of Google would treat it as a broken stream.
		return
	}
	b.rest = b.event
}

// isComment reports whether there are only comments in an event.
func isComment(event []byte) bool {
	for line := range bytes.Lines(event) {
		if line = bytes.TrimRight(line, "\r\n"); len(line) > 0 && line[0] != ':' {
			return false
		}
	}
	return bytes.HasPrefix(event, []byte(":"))
}

// extent describes the received part of an event.
type extent struct {
	// bytes of it, commas and opening brackets outside of its texts, and how many brackets are open.
	bytes, values, depth int
	// quoted reports whether a string is open, and escaped whether its next character is escaped.
	quoted, escaped bool
	// last are the last bytes, the newest first.
	last [3]byte
}

// grow counts the next byte and reports whether it ends the event. An empty line does, where all SDKs see one: behind a
// line that ends the same way. At the beginning of an event it is an event by itself.
func (e *extent) grow(c byte) (ended bool) {
	e.bytes++
	switch {
	case c == '\n':
		// No JSON string spans lines.
		e.quoted, e.escaped = false, false
		ended = e.last[0] == '\n' || e.last == [3]byte{'\r', '\n', '\r'} || e.bytes == 1 || e.bytes == 2 && e.last[0] == '\r'
	case e.escaped:
		e.escaped = false
	case c == '\\':
		e.escaped = e.quoted
	case c == '"':
		e.quoted = !e.quoted
	case e.quoted:
	case c == ',':
		e.values++
	case c == '{' || c == '[':
		e.values++
		e.depth++
	case c == '}' || c == ']':
		e.depth = max(e.depth-1, 0)
	}
	e.last = [3]byte{c, e.last[0], e.last[1]}
	return ended
}

// exceeds reports whether the event is larger than it may be.
func (e *extent) exceeds(l limits) bool {
	return e.bytes > l.event || e.values > l.values || e.depth > l.depth
}
