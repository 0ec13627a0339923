package step

import (
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"

	"github.com/capstan-dev/capstan/internal/runtime/hook"
)

// Rules: HOOK-24.
func TestTheDecisionsOfHooksAreLogged(t *testing.T) {
	var lines []string
	logger := funcr.New(func(_, line string) { lines = append(lines, line) }, funcr.Options{})
	logHooks(logr.NewContext(t.Context(), logger), []hook.Record{
		{Hook: "session:guard", Decision: hook.Block, Reason: "no deletion"},
		{Hook: "session:quiet", Decision: hook.Allow},
	})
	if len(lines) != 1 || !strings.Contains(lines[0], `"session:guard"`) || !strings.Contains(lines[0], "no deletion") {
		t.Errorf("the log has %q", lines)
	}
}
