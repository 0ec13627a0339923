package feed

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	stream "github.com/capstan-dev/capstan/api/stream/v1alpha1"
)

// Frame is an event in the form of server-sent events.
type Frame struct {
	// Type of the event.
	Type string
	// Sequence of a durable event; 0 for a live one.
	Sequence int64
	// Bytes to be written. They are shared.
	Bytes []byte
}

// NewFrame encodes an event.
func NewFrame(e stream.Event) (Frame, error) {
	if strings.ContainsAny(e.Type, "\r\n") {
		return Frame{}, fmt.Errorf("the type %q of an event has more than one line", e.Type)
	}
	data, err := json.Marshal(e)
	if err != nil {
		return Frame{}, fmt.Errorf("encoding an event of type %s: %w", e.Type, err)
	}
	var b bytes.Buffer
	b.Grow(len(data) + len(e.Type) + 48)
	if e.Sequence > 0 {
		b.WriteString("id: ")
		b.WriteString(strconv.FormatInt(e.Sequence, 10))
		b.WriteByte('\n')
	}
	b.WriteString("event: ")
	b.WriteString(e.Type)
	b.WriteString("\ndata: ")
	b.Write(data)
	b.WriteString("\n\n")
	return Frame{Type: e.Type, Sequence: e.Sequence, Bytes: b.Bytes()}, nil
}
