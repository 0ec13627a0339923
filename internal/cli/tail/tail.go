// Package tail keeps the last lines of what running tools write, to be shown below a conversation while they run.
package tail

import (
	"slices"
	"strings"
	"unicode/utf8"

	stream "github.com/capstan-dev/capstan/api/stream/v1alpha1"
	"github.com/capstan-dev/capstan/internal/cli/text"
	"github.com/capstan-dev/capstan/internal/runtime/excerpt"
)

const (
	// maxCalls and maxLines bound the calls that are kept, and the lines of one.
	maxCalls, maxLines = 8, 6
	// maxLineBytes bounds a line. A terminal shows no more of it.
	maxLineBytes = 1 << 10
	// labels is the width of the column of labels of a transcript.
	labels = 11
)

// Tail is the end of the output of running calls. The zero value is empty.
type Tail struct {
	// calls in the order of their last output.
	calls []*call
}

// call is the end of the output of one call.
type call struct {
	id      string
	attempt int32
	// next is the offset behind the output that is known.
	next  int64
	lines []string
	// last is the line that has no end yet. returned reports whether the next character but a line feed replaces it.
	last     []byte
	returned bool
}

// Add adds a piece of output. What is known of it already is passed over.
func (t *Tail) Add(d stream.ToolOutputDelta) {
	c := t.of(d)
	skip := c.next - d.Offset
	if c.attempt > d.Attempt || skip >= int64(len(d.Delta)) {
		return
	}
	if skip < 0 && len(c.lines)+len(c.last) > 0 {
		c.last = []byte("…")
		c.end()
	}
	c.next = d.Offset + int64(len(d.Delta))
	for _, r := range d.Delta[max(skip, 0):] {
		c.add(r)
	}
}

// of returns the call of a piece of output, as the one that has written last.
func (t *Tail) of(d stream.ToolOutputDelta) *call {
	at := slices.IndexFunc(t.calls, func(c *call) bool { return c.id == d.ToolCallID })
	c := &call{id: d.ToolCallID, attempt: d.Attempt}
	if at >= 0 {
		if t.calls[at].attempt >= d.Attempt {
			c = t.calls[at]
		}
		t.calls = slices.Delete(t.calls, at, at+1)
	}
	t.calls = append(t.calls, c)
	t.calls = t.calls[max(len(t.calls)-maxCalls, 0):]
	return c
}

// add adds a character. A carriage return begins the line again, as on a terminal.
func (c *call) add(r rune) {
	switch {
	case r == '\n':
		c.end()
		return
	case r == '\r':
		c.returned = true
		return
	case c.returned:
		c.last, c.returned = nil, false
	}
	if len(c.last) < maxLineBytes {
		c.last = utf8.AppendRune(c.last, r)
	}
}

// end ends the last line.
func (c *call) end() {
	c.lines = append(c.lines, string(c.last))
	c.lines = c.lines[max(len(c.lines)-maxLines, 0):]
	c.last, c.returned = nil, false
}

// Drop drops the output of a call that runs no more.
func (t *Tail) Drop(id string) {
	t.calls = slices.DeleteFunc(t.calls, func(c *call) bool { return c.id == id })
}

// Reset drops all.
func (t *Tail) Reset() { t.calls = nil }

// Lines returns at most so many lines: the last ones of each call, of the calls that have written last.
func (t *Tail) Lines(most int) []text.Line {
	calls := t.calls[max(len(t.calls)-most, 0):]
	var lines []text.Line
	for i, c := range slices.SortedFunc(slices.Values(calls), byID) {
		each := most / len(calls)
		if i < most%len(calls) {
			each++
		}
		own := c.lines
		if len(c.last) > 0 {
			own = append(own[:len(own):len(own)], string(c.last))
		}
		for _, line := range own[max(len(own)-min(each, maxLines), 0):] {
			lines = append(lines, text.Line{
				{Style: text.Notice, Text: text.Pad("output", labels)},
				{Style: text.Faint, Text: c.id + "  " + excerpt.Head(line, maxLineBytes)},
			})
		}
	}
	return lines
}

func byID(a, b *call) int { return strings.Compare(a.id, b.id) }
