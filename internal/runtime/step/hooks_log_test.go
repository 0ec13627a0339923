package step

import (
	"errors"
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
		{Hook: "session:broken", Decision: hook.Failed, Reason: "no files", Cause: errors.New("etcd: leader changed")},
	})
	if len(lines) != 2 || !strings.Contains(lines[0], `"session:guard"`) || !strings.Contains(lines[0], "no deletion") ||
		!strings.Contains(lines[1], "leader changed") {
		t.Errorf("the log has %q", lines)
	}
}
