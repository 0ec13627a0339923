package text

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
)

// Region is lines at the end of what was printed to a terminal, which are replaced. Other lines are printed only while
// it shows nothing, or Above. It is safe for concurrent use.
type Region struct {
	Printer

	mu     sync.Mutex
	height int
	shown  []byte
}

// Show replaces the lines, each of which takes at most so many columns: a terminal that breaks a line has more of them
// than are erased later.
func (r *Region) Show(columns int, lines ...Line) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.height+len(lines) == 0 {
		return nil
	}
	var b bytes.Buffer
	for _, line := range lines {
		left := columns
		for _, s := range line {
			s.Text = clip(Escape(s.Text), &left)
			r.span(&b, s)
		}
		b.WriteByte('\n')
	}
	erase := r.erase()
	r.height, r.shown = len(lines), b.Bytes()
	return r.write(append(erase, r.shown...))
}

// Above prints something else above the lines. Nil has no lines.
func (r *Region) Above(other func() error) error {
	if r == nil {
		return other()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.height == 0 {
		return other()
	}
	erase, height := r.erase(), r.height
	r.height = 0
	if err := r.write(erase); err != nil {
		return err
	}
	if err := other(); err != nil {
		return err
	}
	r.height = height
	return r.write(r.shown)
}

// erase returns what erases the lines. The lock is held.
func (r *Region) erase() []byte {
	if r.height == 0 {
		return nil
	}
	return fmt.Appendf(nil, "\x1b[%dA\x1b[J", r.height)
}

// Clear shows nothing.
func (r *Region) Clear() error { return r.Show(0) }

// wide is the first character that may take two columns.
const wide = 0x1100

// clip returns as much of an escaped text as fits into some columns, which it takes off.
func clip(escaped string, columns *int) string {
	var b strings.Builder
	for _, char := range escaped {
		width := 1
		if char >= wide {
			width = 2
		}
		if width > *columns {
			*columns = 0
			break
		}
		*columns -= width
		b.WriteRune(char)
	}
	return b.String()
}
