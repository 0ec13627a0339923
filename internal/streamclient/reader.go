package streamclient

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// maxEvent bounds an event. A journal, whose events are smaller, has at most 32 MiB.
const maxEvent = 64 << 20

// reader reads server-sent events, of which it needs the data only: the rest is in there as well.
type reader struct {
	from *bufio.Reader
	// heard is called whenever something has come.
	heard func()
}

func newReader(from io.Reader, heard func()) *reader {
	return &reader{from: bufio.NewReaderSize(hearing{from, heard}, 32<<10), heard: heard}
}

// hearing is a reader that reports when something has come.
type hearing struct {
	io.Reader
	heard func()
}

// Read implements io.Reader.
func (h hearing) Read(p []byte) (int, error) {
	n, err := h.Reader.Read(p)
	if n > 0 {
		h.heard()
	}
	return n, err
}

// next returns the data of the next event that has any.
func (r *reader) next() ([]byte, error) {
	var data []byte
	for {
		line, err := r.line()
		if err != nil {
			return nil, err
		}
		if len(line) == 0 {
			if len(data) > 0 {
				return data, nil
			}
			continue
		}
		if value, ok := bytes.CutPrefix(line, []byte("data:")); ok {
			if data != nil {
				data = append(data, '\n')
			}
			data = append(data, bytes.TrimPrefix(value, []byte(" "))...)
			if len(data) > maxEvent {
				return nil, fmt.Errorf("an event has more than %d bytes", maxEvent)
			}
		}
	}
}

// line returns the next line without its end.
func (r *reader) line() ([]byte, error) {
	var line []byte
	for {
		piece, err := r.from.ReadSlice('\n')
		line = append(line, piece...)
		if err == nil {
			return bytes.TrimSuffix(bytes.TrimSuffix(line, []byte("\n")), []byte("\r")), nil
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF // Events end with the reason for which the stream ends.
			}
			return nil, err
		}
		if len(line) > maxEvent {
			return nil, fmt.Errorf("a line has more than %d bytes", maxEvent)
		}
	}
}
