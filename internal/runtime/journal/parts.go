package journal

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/event"
)

// piece is the content of one entry of a step.
type piece struct {
	events []event.Event
	calls  []PlannedCall
}

// splitter fills pieces in order, each with at most budget bytes of JSON.
type splitter struct {
	budget int
	pieces []piece
	used   int // by the last piece
}

// split distributes events and calls over pieces of at most budget bytes, in order. An item that is larger than a piece
// is cut: an event into events of the same id whose data is text, a call into calls of the same id. join reverses it.
// There is at least one piece. The second value is the size of the last piece.
func split(events []event.Event, calls []PlannedCall, budget int) ([]piece, int, error) {
	s := &splitter{budget: budget, pieces: make([]piece, 1)}
	for _, e := range events {
		if err := s.event(e); err != nil {
			return nil, 0, err
		}
	}
	for _, c := range calls {
		if err := s.call(c); err != nil {
			return nil, 0, err
		}
	}
	return s.pieces, s.used, nil
}

// room ensures that the last piece has a number of free bytes, by beginning another if necessary.
func (s *splitter) room(size int) *piece {
	if s.used > 0 && s.used+size > s.budget {
		s.pieces = append(s.pieces, piece{})
		s.used = 0
	}
	s.used += size
	return &s.pieces[len(s.pieces)-1]
}

func (s *splitter) event(e event.Event) error {
	size, err := jsonSize(e)
	if err != nil {
		return fmt.Errorf("encoding event %s of type %s: %w", e.ID, e.Type, err)
	}
	if size <= s.budget {
		p := s.room(size)
		p.events = append(p.events, e)
		return nil
	}
	if e.Data == nil {
		return fmt.Errorf("%w: event %s of type %s takes %d bytes without any data", ErrTooLarge, e.ID, e.Type, size)
	}
	fragment := e
	fragment.Data = &v1alpha1.JSON{Raw: []byte(`""`)}
	frame, err := jsonSize(fragment)
	if err != nil {
		return fmt.Errorf("encoding event %s of type %s: %w", e.ID, e.Type, err)
	}
	if frame+minChunk > s.budget {
		return fmt.Errorf("%w: event %s of type %s takes %d bytes around its data", ErrTooLarge, e.ID, e.Type, frame)
	}
	for _, text := range chunks(string(e.Data.Raw), s.budget-frame) {
		raw, err := json.Marshal(text)
		if err != nil {
			return fmt.Errorf("encoding a part of event %s of type %s: %w", e.ID, e.Type, err)
		}
		fragment.Data = &v1alpha1.JSON{Raw: raw}
		p := s.room(frame + len(raw) - len(`""`))
		p.events = append(p.events, fragment)
	}
	return nil
}

func (s *splitter) call(c PlannedCall) error {
	size, err := jsonSize(c)
	if err != nil {
		return fmt.Errorf("encoding call %s: %w", c.ID, err)
	}
	if size <= s.budget {
		p := s.room(size)
		p.calls = append(p.calls, c)
		return nil
	}
	fragment := c
	fragment.Arguments, fragment.Refusal = "", ""
	frame, err := jsonSize(fragment)
	if err != nil {
		return fmt.Errorf("encoding call %s: %w", c.ID, err)
	}
	frame += len(`,"arguments":""`)
	if frame+minChunk > s.budget {
		return fmt.Errorf("%w: call %s takes %d bytes around its arguments", ErrTooLarge, c.ID, frame)
	}
	for _, text := range chunks(c.Arguments, s.budget-frame) {
		p := s.room(frame + escapedSize(text))
		part := fragment
		part.Arguments = text
		p.calls = append(p.calls, part)
	}
	for _, text := range chunks(c.Refusal, s.budget-frame) {
		p := s.room(frame + escapedSize(text))
		part := fragment
		part.Refusal = text
		p.calls = append(p.calls, part)
	}
	return nil
}

// minChunk is the minimum room for a piece of text: any one character fits.
const minChunk = 16

// jsonSize returns the size of a list member, with the comma.
func jsonSize(v any) (int, error) {
	raw, err := json.Marshal(v)
	return len(raw) + 1, err
}

// chunks cuts a text, between characters, into pieces that take at most limit bytes within a JSON string.
func chunks(text string, limit int) []string {
	var cut []string
	for start := 0; start < len(text); {
		end, size := start, 0
		for end < len(text) {
			r, n := utf8.DecodeRuneInString(text[end:])
			if size += escapedRune(r, n); size > limit {
				break
			}
			end += n
		}
		cut = append(cut, text[start:end])
		start = end
	}
	return cut
}

func escapedSize(text string) int {
	size := 0
	for i := 0; i < len(text); {
		r, n := utf8.DecodeRuneInString(text[i:])
		size += escapedRune(r, n)
		i += n
	}
	return size
}

// escapedRune returns the most that a character takes within a JSON string as encoding/json writes it.
func escapedRune(r rune, n int) int {
	switch {
	case r == '"' || r == '\\':
		return 2
	case r < 0x20 || r == '<' || r == '>' || r == '&' || r == '\u2028' || r == '\u2029' || (r == utf8.RuneError && n == 1):
		return 6
	default:
		return n
	}
}

// joinEvents reverses split for events: consecutive events of one id become one.
func joinEvents(events []event.Event) ([]event.Event, error) {
	if len(events) == 0 {
		return nil, nil
	}
	joined := make([]event.Event, 0, len(events))
	for i := 0; i < len(events); {
		end := i + 1
		for end < len(events) && events[end].ID == events[i].ID {
			end++
		}
		e := events[i]
		if end > i+1 {
			raw, err := joinData(events[i:end])
			if err != nil {
				return nil, err
			}
			e.Data = &v1alpha1.JSON{Raw: raw}
		}
		joined = append(joined, e)
		i = end
	}
	return joined, nil
}

func joinData(fragments []event.Event) ([]byte, error) {
	var data bytes.Buffer
	for _, f := range fragments {
		var text string
		if f.Data == nil {
			return nil, fmt.Errorf("%w: a part of event %s has no data", ErrCorrupt, f.ID)
		}
		if err := json.Unmarshal(f.Data.Raw, &text); err != nil {
			return nil, fmt.Errorf("%w: a part of event %s is not text: %w", ErrCorrupt, f.ID, err)
		}
		data.WriteString(text)
	}
	if !json.Valid(data.Bytes()) {
		return nil, fmt.Errorf("%w: the parts of event %s do not make up its data", ErrCorrupt, fragments[0].ID)
	}
	return data.Bytes(), nil
}

// joinCalls reverses split for calls.
func joinCalls(calls []PlannedCall) []PlannedCall {
	var joined []PlannedCall
	for _, c := range calls {
		if n := len(joined); n > 0 && joined[n-1].ID == c.ID {
			joined[n-1].Arguments += c.Arguments
			joined[n-1].Refusal += c.Refusal
			continue
		}
		joined = append(joined, c)
	}
	return joined
}
