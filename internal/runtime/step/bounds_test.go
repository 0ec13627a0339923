package step

import (
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/journal/memory"
	"github.com/capstan-dev/capstan/internal/runtime/model"
)

func TestTheArgumentsOfARefusedCallAreCut(t *testing.T) {
	b := newBench(t)
	large := `{"a":"` + strings.Repeat("x", 90<<10) + `"}`
	strict := jobTool("look")
	strict.Spec.InputSchema = &v1alpha1.JSON{Raw: []byte(`{"type":"object","additionalProperties":false}`)}
	b.responds("", model.ToolCall{Name: "nowhere", Arguments: large}, model.ToolCall{Name: "look", Arguments: large})
	_, closed := b.reason(newTurn("demo-1"), with(strict))
	for _, call := range closed.Calls {
		if call.Refusal == "" || len(call.Arguments) > maxLoggedArguments {
			t.Errorf("call of %s: refusal %q, %d bytes of arguments", call.Name, call.Refusal, len(call.Arguments))
		}
	}
	view, err := b.Log.View(t.Context(), session, 0)
	if err != nil || view.Bytes > 32<<10 {
		t.Errorf("the journal takes %d bytes: %v", view.Bytes, err)
	}
}

func TestAFullJournalReportsWhichBoundWasReached(t *testing.T) {
	for name, test := range map[string]struct {
		options journal.Options
		limit   int64
		message string
	}{
		"of the Session": {journal.Options{MaxBytes: 1 << 20}, 2000, "Raise spec.journalLimit of Session demo"},
		"of the manager": {journal.Options{MaxBytes: 2000}, 1 << 20, "--max-journal-bytes). Continue in a new Session"},
		"of the namespace": {
			journal.Options{MaxNamespaceBytes: 2000}, 1 << 20, `The journals of namespace "ns" are full (2000 bytes`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			test.options.Clock = b.time.Tick
			b.Log = journal.New(memory.New(), test.options)
			b.responds(strings.Repeat("x", 3000))
			turn := newTurn("demo-1")
			turn.Session.Limit = test.limit
			after, _ := b.reason(turn, with())
			if e := after.Progress.Error; e == nil || e.Code != v1alpha1.ErrorCodeJournalFull ||
				!strings.Contains(e.Message, test.message) {
				t.Errorf("error %+v", e)
			}
		})
	}
}
