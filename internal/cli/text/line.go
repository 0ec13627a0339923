package text

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// Style is how a piece of a line looks on a terminal with colors.
type Style string

// The styles, as parameters of the terminal's sequence for them.
const (
	Plain  Style = ""
	Strong Style = "1"
	Faint  Style = "2"
	Bad    Style = "31"
	Good   Style = "32"
	Notice Style = "33"
	User   Style = "36"
)

// Span is a piece of a line. Its text is escaped when it is printed.
type Span struct {
	Style Style
	Text  string
}

// Line is one line of output.
type Line []Span

// Of is a line of one style.
func Of(style Style, content string) Line {
	return Line{{style, content}}
}

// Format is a formatted line of one style.
func Format(style Style, format string, arguments ...any) Line {
	return Of(style, fmt.Sprintf(format, arguments...))
}

// String returns the line without styles, as it is printed.
func (l Line) String() string {
	var b strings.Builder
	for _, s := range l {
		b.WriteString(Escape(s.Text))
	}
	return b.String()
}

// Printer writes lines.
type Printer struct {
	Out io.Writer
	// Color reports whether the styles are shown.
	Color bool
}

// Lines writes lines, all in one write.
func (p Printer) Lines(lines ...Line) error {
	if len(lines) == 0 {
		return nil
	}
	var b bytes.Buffer
	for _, line := range lines {
		for _, s := range line {
			p.span(&b, s)
		}
		b.WriteByte('\n')
	}
	return p.write(b.Bytes())
}

// Chunk writes a piece of running text, which may have line breaks. Those that follow a line break are indented.
func (p Printer) Chunk(style Style, indent, chunk string) error {
	var b bytes.Buffer
	for i, piece := range strings.Split(chunk, "\n") {
		if i > 0 {
			b.WriteString("\n" + indent)
		}
		p.span(&b, Span{style, piece})
	}
	return p.write(b.Bytes())
}

func (p Printer) write(content []byte) error {
	if _, err := p.Out.Write(content); err != nil {
		return fmt.Errorf("writing the output: %w", err)
	}
	return nil
}

func (p Printer) span(b *bytes.Buffer, s Span) {
	escaped := Escape(s.Text)
	if !p.Color || s.Style == Plain || escaped == "" {
		b.WriteString(escaped)
		return
	}
	b.WriteString("\x1b[" + string(s.Style) + "m" + escaped + "\x1b[0m")
}

// Bound limits how much of one text is shown; 0 for no limit.
type Bound struct {
	Lines, Bytes int
}

// Block returns a text in lines, each behind a label or, from the second on, behind an indent of the same width. If the
// bound leaves out some of it, the last line reports how much.
func Block(label Span, width int, style Style, content string, bound Bound) []Line {
	shown, left := bound.cut(strings.TrimRight(strings.ReplaceAll(content, "\r\n", "\n"), "\n"))
	var lines []Line
	for i, piece := range strings.Split(shown, "\n") {
		head := Span{label.Style, Pad(label.Text, width)}
		if i > 0 {
			head = Span{Plain, strings.Repeat(" ", width)}
		}
		lines = append(lines, Line{head, {style, piece}})
	}
	if left > 0 {
		lines = append(lines, Line{
			{Plain, strings.Repeat(" ", width)}, {Faint, fmt.Sprintf("… %d bytes more", left)},
		})
	}
	return lines
}

// cut returns the beginning of a text that the bound permits, and the number of bytes that it leaves out.
func (b Bound) cut(s string) (shown string, left int) {
	shown = s
	if b.Bytes > 0 && len(shown) > b.Bytes {
		end := b.Bytes
		for end > 0 && !utf8.RuneStart(shown[end]) {
			end--
		}
		shown = shown[:end]
	}
	if b.Lines > 0 {
		end := 0
		for range b.Lines {
			at := strings.IndexByte(shown[end:], '\n')
			if at < 0 {
				return shown, len(s) - len(shown)
			}
			end += at + 1
		}
		shown = shown[:end-1]
	}
	return shown, len(s) - len(shown)
}

// Pad returns a text with at least as many characters as the width, by spaces at its end.
func Pad(s string, width int) string {
	if missing := width - utf8.RuneCountInString(s); missing > 0 {
		return s + strings.Repeat(" ", missing)
	}
	return s
}

// Table returns rows as columns. The first row is the header.
func Table(rows [][]string) []Line {
	var widths []int
	for _, row := range rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(Escape(cell)))
		}
	}
	lines := make([]Line, 0, len(rows))
	for at, row := range rows {
		style := Plain
		if at == 0 {
			style = Strong
		}
		var b strings.Builder
		for i, cell := range row {
			if i == len(row)-1 {
				b.WriteString(Escape(cell))
				continue
			}
			b.WriteString(Pad(Escape(cell), widths[i]+2))
		}
		lines = append(lines, Line{{style, strings.TrimRight(b.String(), " ")}})
	}
	return lines
}
