package main

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"
	"time"
)

// Sizes in the picture, in pixels.
const (
	cellWidth  = 8.4
	cellHeight = 19
	margin     = 16
)

// colors are those of the styles of a terminal that kubectl capstan uses.
var colors = map[string]string{
	"": "#d0d7de", "1": "#ffffff", "2": "#8b949e", "31": "#ff7b72", "32": "#7ee787", "33": "#e3b341", "34": "#79c0ff",
	"35": "#d2a8ff", "36": "#76e3ea", note: "#ff7b72",
}

// note is the style of what happened outside the terminal.
const note = "note"

// run is text in one line that appears at once.
type run struct {
	row, column int
	style, text string
	at          time.Duration
}

// screen draws what a terminal prints.
type screen struct {
	width       int
	row, column int
	style       string
	runs        []run
}

// draw draws what was printed at a time. It knows line breaks and styles, which is all that the commands print.
func (s *screen) draw(text string, at time.Duration) error {
	for text != "" {
		if rest, found := strings.CutPrefix(text, "\x1b["); found {
			style, after, found := strings.Cut(rest, "m")
			if !found || strings.Trim(style, "0123456789;") != "" {
				return fmt.Errorf("%.20q is no style", text)
			}
			s.style, text = strings.TrimPrefix(style, "0"), after
			continue
		}
		character := []rune(text)[0]
		text = text[len(string(character)):]
		switch {
		case character == '\r':
			s.column = 0
		case character == '\n':
			s.row++
		case character < ' ':
			return fmt.Errorf("%q cannot be drawn", character)
		default:
			s.put(character, at)
		}
	}
	return nil
}

func (s *screen) put(character rune, at time.Duration) {
	if s.column == s.width {
		s.row, s.column = s.row+1, 0
	}
	if n := len(s.runs); n > 0 {
		last := &s.runs[n-1]
		if last.row == s.row && last.at == at && last.style == s.style &&
			last.column+len([]rune(last.text)) == s.column {
			last.text += string(character)
			s.column++
			return
		}
	}
	s.runs = append(s.runs, run{row: s.row, column: s.column, style: s.style, text: string(character), at: at})
	s.column++
}

// mark is something that happened outside the terminal. It has a line of its own below.
type mark struct {
	text string
	at   time.Duration
}

// render draws a recording as an animation that runs once. A viewer that knows no animations shows its end.
func (r recording) render(w io.Writer) error {
	s := &screen{width: r.header.Width}
	var marks []mark
	for _, m := range r.moments {
		if m.kind == marked {
			marks = append(marks, mark{text: m.text, at: m.at})
			continue
		}
		if err := s.draw(m.text, m.at); err != nil {
			return err
		}
	}
	// What happens outside has a terminal of its own, below the one of the chat.
	below := s.row + 2
	for i, m := range marks {
		s.runs = append(s.runs, run{row: below + i, style: note, text: m.text, at: m.at})
	}
	width := float64(2*margin) + cellWidth*float64(r.header.Width)
	height := 2*margin + cellHeight*(below+len(marks))
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %d" font-family="ui-monospace, `+
		`SFMono-Regular, Menlo, Consolas, monospace" font-size="14" xml:space="preserve">`+"\n", width, height)
	fmt.Fprintf(&b, "<title>%s</title>\n", escape(r.header.Title))
	fmt.Fprintf(&b, `<rect width="100%%" height="100%%" rx="8" fill="#0d1117"/>`+"\n")
	for _, run := range s.runs {
		b.WriteString(run.element())
	}
	b.WriteString("</svg>\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// element hides a run until it appears.
func (r run) element() string {
	color, known := colors[r.style]
	if !known {
		color = colors[""]
	}
	hidden := ""
	if r.at > 0 {
		hidden = fmt.Sprintf(`<set attributeName="visibility" to="hidden" begin="0s" dur="%gs"/>`, r.at.Seconds())
	}
	length := cellWidth * float64(len([]rune(r.text)))
	return fmt.Sprintf(`<text x="%.1f" y="%d" textLength="%.1f" fill="%s">%s%s</text>`+"\n",
		margin+cellWidth*float64(r.column), margin+cellHeight*(r.row+1)-5, length, color, escape(r.text), hidden)
}

func escape(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text)) // writes to memory do not fail
	return b.String()
}
