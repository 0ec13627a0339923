package step

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/fairshare"
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

// ResponseBytes is the memory that reading a response takes, given the size of the journal that has it.
func ResponseBytes(journal int64) int64 {
	return fairshare.ConversationBytes(journal)
}

// Response returns a whole response from the journal of a Session. start is what the status of its Turn has: other
// Turns of the Session may have responded as well. A response that the journal does not have is as long as status has
// it.
func (run *Runner) Response(ctx context.Context, s journal.Session, start string) (string, error) {
	read := func(ctx context.Context) (*journal.View, error) { return run.Log.View(ctx, s, 0) }
	view, err := run.within(ctx, s, read, ResponseBytes)
	if err != nil {
		return "", fmt.Errorf("reading the response in Session %s: %w", s.Name, err)
	}
	for _, m := range slices.Backward(view.Messages) {
		if text := m.PlainText(); m.Role == event.RoleAssistant && begins(text, start) {
			return text, nil
		}
	}
	return start, nil
}

// begins reports whether a text begins with what status has of it. A message has a line for each of its parts.
func begins(text, start string) bool {
	joined := strings.NewReplacer("\n", "")
	return strings.HasPrefix(joined.Replace(text), joined.Replace(strings.TrimSuffix(start, cutMark)))
}
