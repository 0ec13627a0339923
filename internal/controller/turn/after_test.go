package turn

import (
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/hook"
	"github.com/capstan-dev/capstan/internal/runtime/queue"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

// Rules: HOOK-21.
func TestAJobIsSettledOnceTheHooksAfterItHaveRun(t *testing.T) {
	for name, test := range map[string]struct {
		class     v1alpha1.SideEffect
		cancelled bool
		// told is the part of the result that the model reads, runs how often the hook runs.
		told string
		runs int
	}{
		"Pure":                      {v1alpha1.SideEffectPure, false, "rewritten", 1},
		"AtMostOnce":                {v1alpha1.SideEffectAtMostOnce, false, "rewritten", 1},
		"cancelled while hooks run": {v1alpha1.SideEffectAtMostOnce, true, "unknown", 1},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t).begin(builder.JobTool("look", test.class).Obj())
			h := w.hooked(v1alpha1.HookEventPostToolUse)
			h.outcome = hook.ParseJSON([]byte(`{"decision": "mutate", "patch": {"result": "rewritten"}}`))
			m := w.manager(0)
			m.Steps.Hooks.CEL = h
			h.began = func() { m.woken <- struct{}{} }
			m.until("the hooks", func() bool { return len(h.ran) > 0 })
			for range 3 {
				if _, err := m.pass(); err != nil {
					t.Fatal(err)
				}
			}
			if state := w.call("look").State; state.Settled() {
				t.Fatalf("the call is %s while its hooks run", state)
			}
			if test.cancelled {
				w.cancel()
			} else {
				close(h.release)
			}
			m.until("its end", func() bool { return queue.Finished(w.turn()) })
			if told := w.resultText("look"); !strings.Contains(told, test.told) || strings.Contains(told, "result of") ||
				len(h.ran) != test.runs {
				t.Errorf("the model reads %q after %d runs", told, len(h.ran))
			}
		})
	}
}

// Rules: HOOK-21.
func TestAnotherProcessRunsTheHooksAfterAJobAgain(t *testing.T) {
	w := newWorld(t).begin(builder.JobTool("look", v1alpha1.SideEffectAtMostOnce).Obj())
	h := w.hooked(v1alpha1.HookEventPostToolUse)
	h.outcome = hook.ParseJSON([]byte(`{"decision": "mutate", "patch": {"result": "rewritten"}}`))
	m := w.manager(0)
	m.Steps.Hooks.CEL = h
	h.began = func() { m.woken <- struct{}{} }
	m.until("the hooks", func() bool { return len(h.ran) > 0 })
	close(h.release)
	next := w.manager(0)
	next.Steps.Hooks.CEL = h
	next.until("its end", func() bool { return queue.Finished(w.turn()) })
	if told := w.resultText("look"); told != "rewritten" || len(h.ran) != 2 || w.starts("look") != 1 {
		t.Errorf("the model reads %q after %d runs and %d starts", told, len(h.ran), w.starts("look"))
	}
	first, second := <-h.ran, <-h.ran
	if first.Key != second.Key {
		t.Errorf("the runs have the keys %q and %q", first.Key, second.Key)
	}
}
