package step

import (
	"reflect"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/journal/memory"
	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/runtime/plan"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

// edited is a Config whose prompt and Tools a user has edited, for the same Model.
func edited(prompt string, tools ...*v1alpha1.Tool) turnstate.Config {
	c := with(tools...)
	c.Effective.SystemPrompt = prompt
	return c
}

// lookTool is a Tool with a schema that is not encoded as encoding/json would.
func lookTool(description string) *v1alpha1.Tool {
	look := jobTool("look")
	look.Spec.Description = description
	look.Spec.InputSchema = &v1alpha1.JSON{Raw: []byte(`{ "type": "object", "description": "<where & when>" }`)}
	return look
}

// sameContext reports whether two requests have the same system prompt and tools, byte for byte.
func sameContext(a, b model.Request) bool {
	return a.SystemPrompt == b.SystemPrompt && reflect.DeepEqual(a.Tools, b.Tools)
}

func TestTheStepsOfATurnHaveOneContext(t *testing.T) {
	for name, restarts := range map[string]bool{"in one process": false, "in a new process for each step": true} {
		t.Run(name, func(t *testing.T) {
			store := memory.New()
			b := onStore(t, store)
			turn := newTurn("demo-1")
			prompts := []string{"Be brief.", "Be verbose.", ""}
			var requests []model.Request
			for i, prompt := range prompts {
				if restarts {
					b = onStore(t, store)
				}
				b.responds("Let me look.", calls(1, "look")...)
				var closed *journal.Closed
				turn, closed = b.reason(turn, edited(prompt, lookTool("Looks "+prompt), jobTool(strings.Repeat("x", i+1))))
				requests = append(requests, b.asked[len(b.asked)-1])
				if closed.Context == nil || (len(closed.Context.Content) > 0) != (i == 0) {
					t.Errorf("step %d records the context %+v", i+1, closed.Context)
				}
				turn = b.looked(turn)
			}
			for i, r := range requests {
				if !sameContext(r, requests[0]) {
					t.Errorf("request %d has another context:\n%q %+v\nwant\n%q %+v", i+1,
						r.SystemPrompt, r.Tools, requests[0].SystemPrompt, requests[0].Tools)
				}
			}
			if !strings.Contains(requests[0].SystemPrompt, "Be brief.") || len(requests[0].Tools) != 2 {
				t.Errorf("the first request has the context %q %+v", requests[0].SystemPrompt, requests[0].Tools)
			}
		})
	}
}

func TestTheNextTurnHasTheContextOfItsOwnTime(t *testing.T) {
	b := newBench(t)
	b.responds("Let me look.", calls(1, "look")...)
	first, _ := b.reason(newTurn("demo-1"), edited("Be brief.", lookTool("Looks.")))
	b.responds("Done.")
	_, closed := b.reason(b.looked(first), edited("Be verbose.", lookTool("Looks.")))

	second := newTurn("demo-2")
	second.Ref.UID, second.Progress = "turn-2-uid", plan.Begin(closed.Ordinal+1, closed.Time)
	b.responds("Let me look.", calls(1, "look")...)
	second, closed = b.reason(second, edited("Be verbose.", lookTool("Looks.")))
	if got := b.asked[len(b.asked)-1].SystemPrompt; !strings.Contains(got, "Be verbose.") {
		t.Errorf("the next Turn has the system prompt %q", got)
	}
	if closed.Context == nil || len(closed.Context.Content) == 0 {
		t.Errorf("the next Turn records the context %+v", closed.Context)
	}

	// A Turn with the same context adds its digest alone.
	b.responds("Done.")
	_, closed = b.reason(b.looked(second), edited("Be verbose.", lookTool("Looks.")))
	third := newTurn("demo-3")
	third.Ref.UID, third.Progress = "turn-3-uid", plan.Begin(closed.Ordinal+1, closed.Time)
	b.responds("Let me look.", calls(1, "look")...)
	third, closed = b.reason(third, edited("Be verbose.", lookTool("Looks.")))
	if closed.Context == nil || len(closed.Context.Content) > 0 {
		t.Errorf("a Turn with the same context records %+v", closed.Context)
	}
	b.responds("Done.")
	b.reason(b.looked(third), edited("Be silent."))
	if got := b.asked[len(b.asked)-1].SystemPrompt; !strings.Contains(got, "Be verbose.") {
		t.Errorf("its second step has the system prompt %q", got)
	}
}

func TestATurnOfOneStepRecordsNoContext(t *testing.T) {
	b := newBench(t)
	_, closed := b.reason(newTurn("demo-1"), edited("Be brief.", lookTool("Looks.")))
	if closed.Context != nil {
		t.Errorf("it records %+v", closed.Context)
	}
}

// TestALargeContextIsRenderedAnew holds the bound on what is kept and read back.
func TestALargeContextIsRenderedAnew(t *testing.T) {
	b := newBench(t)
	b.responds("Let me look.", calls(1, "look")...)
	large := edited(strings.Repeat("x", 1<<20), lookTool("Looks."))
	turn, closed := b.reason(newTurn("demo-1"), large)
	if closed.Context != nil {
		t.Errorf("%d bytes are recorded", len(closed.Context.Content))
	}
	b.responds("Done.")
	b.reason(b.looked(turn), edited("Be brief.", lookTool("Looks.")))
	if got := b.asked[1].SystemPrompt; !strings.Contains(got, "Be brief.") {
		t.Errorf("the second request has %d bytes of system prompt", len(got))
	}
}
