package google

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
)

// record has the parts of a response that the SDK does not expose: its status and header, the error that ended it, and
// its raw events. The SDK reads the arguments of calls into numbers that lose digits; a call's arguments are the
// original bytes.
type record struct {
	status int
	header http.Header
	events bytes.Buffer
	broke  error
}

// recordKey is the key of the record in a request's context.
type recordKey struct{}

// recordingTransport fills the record that a request's context holds.
type recordingTransport struct {
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (t recordingTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := t.next.RoundTrip(r)
	seen, ok := r.Context().Value(recordKey{}).(*record)
	if err != nil || !ok {
		return answer, err
	}
	seen.status, seen.header = answer.StatusCode, answer.Header
	answer.Body = &recordedBody{body: answer.Body, seen: seen}
	return answer, nil
}

// recordedBody copies the read data to the record. An error ends the body without being passed on, because the SDK
// would log it.
type recordedBody struct {
	body io.ReadCloser
	seen *record
}

// Read implements io.Reader.
func (b *recordedBody) Read(p []byte) (int, error) {
	n, err := b.body.Read(p)
	if b.seen.status < http.StatusMultipleChoices {
		b.seen.write(p[:n])
	}
	if err != nil && !errors.Is(err, io.EOF) {
		b.seen.broke, err = err, io.EOF
	}
	return n, err
}

// Close implements io.Closer.
func (b *recordedBody) Close() error {
	b.body.Close()
	return nil
}

// write records the read data, without the empty lines between events, of which there may be any number.
func (s *record) write(read []byte) {
	s.events.Write(read)
	pending := s.events.Bytes()
	s.events.Next(len(pending) - len(bytes.TrimLeft(pending, "\r\n")))
}

// next returns the arguments of the calls in the next event, in order. The SDK returns one response for each event.
func (s *record) next() []json.RawMessage {
	_, data, _ := bytes.Cut(s.event(), []byte(":"))
	var chunk struct {
		Candidates []struct {
			Content struct {
				Parts []struct {
					FunctionCall *struct {
						Args json.RawMessage `json:"args"`
					} `json:"functionCall"`
				} `json:"parts"`
			} `json:"content"`
		} `json:"candidates"`
	}
	if err := json.Unmarshal(data, &chunk); err != nil || len(chunk.Candidates) == 0 {
		return nil
	}
	var arguments []json.RawMessage
	for _, part := range chunk.Candidates[0].Content.Parts {
		if part.FunctionCall != nil {
			arguments = append(arguments, part.FunctionCall.Args)
		}
	}
	return arguments
}

// event returns the next non-empty event, as the SDK does: an empty line or the end of the stream ends it.
func (s *record) event() []byte {
	for s.events.Len() > 0 {
		length, separator := endOf(s.events.Bytes())
		taken := s.events.Next(length + separator)[:length]
		if len(bytes.TrimSpace(taken)) > 0 {
			return taken
		}
	}
	return nil
}

// endOf is the length of the first event, and that of the empty line behind it.
func endOf(events []byte) (length, separator int) {
	length = len(events)
	for _, line := range []string{"\n\n", "\r\n\r\n"} {
		if end := bytes.Index(events[:length], []byte(line)); end >= 0 {
			length, separator = end, len(line)
		}
	}
	return length, separator
}
