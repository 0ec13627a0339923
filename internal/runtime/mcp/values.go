package mcp

import (
	"io"

	"github.com/capstan-dev/capstan/internal/runtime/egress"
)

// maxValues is the maximum number of values in the JSON of a response: each takes up to 200 bytes once it is decoded,
// however short it is.
const maxValues = 32 << 10

// counted is the body of a response, which fails once it has too many values. It counts as it is read, before anything
// is decoded.
type counted struct {
	io.ReadCloser
	values          int
	quoted, escaped bool
}

// Read implements io.Reader.
func (c *counted) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	for _, b := range p[:n] {
		c.count(b)
	}
	if c.values > maxValues {
		return 0, &egress.Error{
			Reason: egress.ReasonLost, Text: "the response of the server has too many values", Sent: true,
		}
	}
	return n, err
}

func (c *counted) count(b byte) {
	switch {
	case b == '\n':
		// No text of JSON has a line break: a quotation mark before it was not part of JSON.
		c.quoted, c.escaped = false, false
	case c.escaped:
		c.escaped = false
	case c.quoted && b == '\\':
		c.escaped = true
	case b == '"':
		c.quoted = !c.quoted
	case !c.quoted && (b == ',' || b == '[' || b == '{'):
		c.values++
	}
}
