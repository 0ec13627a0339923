package streaming

import (
	"io"
	"log"
	"strings"

	"github.com/go-logr/logr"
)

// splice copies what one connection receives to another, and closes both at the end.
func splice(to, from *connection) {
	// Either side may end at any time, which is how connections end.
	_, _ = io.Copy(to, from)
	_, _ = to.Close(), from.Close()
}

// quiet returns a logger for the HTTP server, whose reports are about callers that do not speak TLS or leave.
func quiet(to logr.Logger) *log.Logger { return log.New(quietWriter{to}, "", 0) }

type quietWriter struct{ to logr.Logger }

// Write implements io.Writer.
func (q quietWriter) Write(p []byte) (int, error) {
	q.to.V(1).Info("HTTP server of event streams", "message", strings.TrimSpace(string(p)))
	return len(p), nil
}
