package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"time"
	"unicode/utf8"
)

// Kinds of events of a recording.
const (
	// shown is what a terminal has printed.
	shown = "o"
	// marked is something that happened outside the terminal.
	marked = "m"
)

// header is the first line of a recording in version 2 of asciicast, which asciinema plays.
type header struct {
	Version int    `json:"version"`
	Width   int    `json:"width"`
	Height  int    `json:"height"`
	Title   string `json:"title"`
}

// moment is something that a recording shows, and when.
type moment struct {
	at   time.Duration
	kind string
	text string
}

// recording is a session at a terminal.
type recording struct {
	header  header
	moments []moment
}

// encode writes a recording, a line for each moment.
func (r recording) encode(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(r.header); err != nil {
		return fmt.Errorf("writing the header: %w", err)
	}
	for _, m := range r.moments {
		seconds := math.Round(m.at.Seconds()*1000) / 1000
		if err := encoder.Encode([]any{seconds, m.kind, m.text}); err != nil {
			return fmt.Errorf("writing a moment: %w", err)
		}
	}
	return nil
}

// decode reads a recording.
func decode(in io.Reader) (recording, error) {
	var r recording
	lines := bufio.NewScanner(in)
	if !lines.Scan() {
		return r, errors.New("the recording is empty")
	}
	if err := json.Unmarshal(lines.Bytes(), &r.header); err != nil {
		return r, fmt.Errorf("reading the header: %w", err)
	}
	for lines.Scan() {
		var fields []json.RawMessage
		if err := json.Unmarshal(lines.Bytes(), &fields); err != nil || len(fields) != 3 {
			return r, fmt.Errorf("%q is not a moment: %w", lines.Text(), err)
		}
		var m moment
		var seconds float64
		err := errors.Join(json.Unmarshal(fields[0], &seconds), json.Unmarshal(fields[1], &m.kind),
			json.Unmarshal(fields[2], &m.text))
		if err != nil {
			return r, fmt.Errorf("%q is not a moment: %w", lines.Text(), err)
		}
		m.at = time.Duration(math.Round(seconds*1000)) * time.Millisecond
		r.moments = append(r.moments, m)
	}
	return r, lines.Err()
}

// hurried returns a recording whose moments are at most a pause apart.
func (r recording) hurried(pause time.Duration) recording {
	faster := recording{header: r.header}
	var before, now time.Duration
	for _, m := range r.moments {
		now += min(m.at-before, pause)
		before = m.at
		m.at = now
		faster.moments = append(faster.moments, m)
	}
	return faster
}

// whole joins the parts of characters that were read in two pieces.
func (r recording) whole() recording {
	joined := recording{header: r.header}
	rest := ""
	for _, m := range r.moments {
		if m.kind == shown {
			m.text = rest + m.text
			end := len(m.text)
			for end > 0 && end > len(m.text)-utf8.UTFMax && !utf8.ValidString(m.text[:end]) {
				end--
			}
			m.text, rest = m.text[:end], m.text[end:]
		}
		if m.text != "" {
			joined.moments = append(joined.moments, m)
		}
	}
	return joined
}
