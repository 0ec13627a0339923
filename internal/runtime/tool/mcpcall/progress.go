package mcpcall

import (
	"net/http"
	"time"

	"github.com/capstan-dev/capstan/internal/runtime/credential"
	"github.com/capstan-dev/capstan/internal/runtime/excerpt"
	"github.com/capstan-dev/capstan/internal/runtime/mcp"
)

const (
	// progressPause is the least time between two reports of a call that are passed on.
	progressPause = 250 * time.Millisecond
	// maxProgressMessage is the maximum length of the message of a report.
	maxProgressMessage = 256
)

// Progress returns the reports of a server about one call as they may be shown: without the values of secret, without
// characters that do not print, not too many of them, and each farther than the one before. clock returns the time.
func Progress(secret http.Header, clock func() time.Time, next func(mcp.Progress)) func(mcp.Progress) {
	var last float64
	var at time.Time
	return func(p mcp.Progress) {
		now := clock()
		if !at.IsZero() && (p.Done <= last || now.Sub(at) < progressPause) {
			return
		}
		last, at = p.Done, now
		p.Message = excerpt.Of(printable(credential.RedactText(p.Message, secret)), maxProgressMessage)
		p.Total = max(p.Total, 0)
		next(p)
	}
}
