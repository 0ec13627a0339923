package openai

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"

	"github.com/openai/openai-go/v3/option"

	"github.com/capstan-dev/capstan/internal/runtime/model/provider"
)

// withoutNullErrors is middleware of the SDK: it removes errors that are null, which some servers send with every
// chunk. The SDK treats each chunk with an error field as an error, even a null one.
func withoutNullErrors(r *http.Request, next option.MiddlewareNext) (*http.Response, error) {
	answer, err := next(r)
	if err == nil && answer.StatusCode < http.StatusMultipleChoices && provider.IsEventStream(answer.Header) {
		answer.Body = &lines{body: answer.Body, reader: bufio.NewReader(answer.Body)}
	}
	return answer, err
}

// lines is a stream that is read line by line. The limit of an event also limits its lines.
type lines struct {
	body   io.Closer
	reader *bufio.Reader
	// rest is the rest of the current line, and err the error after it.
	rest []byte
	err  error
}

// Read implements io.Reader.
func (l *lines) Read(p []byte) (int, error) {
	for len(l.rest) == 0 {
		if l.err != nil {
			return 0, l.err
		}
		l.rest, l.err = l.reader.ReadBytes('\n')
		l.rest = withoutNullError(l.rest)
	}
	n := copy(p, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}

// Close implements io.Closer.
func (l *lines) Close() error {
	return l.body.Close()
}

// withoutNullError is a line of an event without the error in it, if that is null.
func withoutNullError(line []byte) []byte {
	data, found := bytes.CutPrefix(line, []byte("data:"))
	if !found || !bytes.Contains(data, []byte(`"error"`)) {
		return line
	}
	var chunk map[string]json.RawMessage
	if err := json.Unmarshal(data, &chunk); err != nil || string(chunk["error"]) != "null" {
		return line
	}
	delete(chunk, "error")
	rest, err := json.Marshal(chunk)
	if err != nil {
		return line
	}
	return append(append([]byte("data:"), rest...), '\n')
}
