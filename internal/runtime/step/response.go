package step

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
)

const (
	// cutMark ends a response that status has only the start of.
	cutMark = "…"
	// shortestCut is the length below which no response is cut: characters take up to six bytes there.
	shortestCut = 1 << 10
)

// ResponseCut reports whether the response in the status of a Turn may be only its start.
func ResponseCut(output string) bool {
	return len(output) >= shortestCut && strings.HasSuffix(output, cutMark)
}

// Response returns the newest response in the journal of a Session.
func (run *Runner) Response(ctx context.Context, s journal.Session) (string, error) {
	view, err := run.Log.View(ctx, s, 0)
	if err != nil {
		return "", fmt.Errorf("reading the response in Session %s: %w", s.Name, err)
	}
	for _, m := range slices.Backward(view.Messages) {
		if m.Role == event.RoleAssistant {
			return m.PlainText(), nil
		}
	}
	return "", nil
}
