package inprocess_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest/inprocess"
)

// mortal is a Store whose process ends at an entry of a Session: that which is appended as the given one, before or
// after it is stored.
type mortal struct {
	inprocess.Store
	die context.CancelFunc
	// agent reports whether the entry is of the sub-agent, or of its caller; entry counts from 1.
	agent, stored bool
	entry         int32
	seen          atomic.Int32
}

func (m *mortal) Create(ctx context.Context, s inprocess.LogSession, e *v1alpha1.JournalEntrySpec) error {
	if (s.Name != "led") != m.agent || m.seen.Add(1) != m.entry {
		return m.Store.Create(ctx, s, e)
	}
	defer m.die()
	if m.stored {
		return m.Store.Create(ctx, s, e)
	}
	return errors.New("the process has ended")
}

// Rules: SPAWN-01, SPAWN-02, SPAWN-03, VEC-23.
func TestASubAgentOutlivesTheProcessOfItsCaller(t *testing.T) {
	paying := strings.NewReplacer("calls: [{name: look}]", "calls: [{name: pay}]", "{{tool:look}}", "{{tool:pay}}").
		Replace(team)
	for name, test := range map[string]struct {
		agent, stored bool
		entry         int32
		// paid is how often the tool of the sub-agent runs in the second process.
		paid int32
	}{
		"before it has begun":            {agent: true, entry: 1, paid: 1},
		"while its caller waits":         {agent: true, entry: 1, stored: true, paid: 1},
		"when its tool has run":          {agent: true, entry: 4, stored: true},
		"when it has ended":              {agent: true, entry: 5, stored: true},
		"before its end is recorded":     {entry: 2},
		"as soon as its end is recorded": {entry: 2, stored: true},
	} {
		t.Run(name, func(t *testing.T) {
			memory := inprocess.NewMemoryStore()
			life, die := context.WithCancel(t.Context())
			defer die()
			options := func(store inprocess.Store, paid *atomic.Int32) []inprocess.Option {
				return []inprocess.Option{
					inprocess.WithStore(store), inprocess.WithYAML(paying), inprocess.WithDefaultSession("led"),
					inprocess.WithSimulation(asking("helper", 1)),
					inprocess.WithTools(func(inprocess.Call) (string, string, int) { paid.Add(1); return "a receipt", "", 0 }),
				}
			}
			var before, after atomic.Int32
			dying := &mortal{Store: memory, die: die, agent: test.agent, stored: test.stored, entry: test.entry}
			first := startIn(life, t, options(dying, &before)...)
			if left, err := first.RunTurn(t.Context(), led("demo-1")); !errors.Is(err, inprocess.ErrStopped) {
				t.Fatalf("the first process gave %+v, %v", left, err)
			}
			second := start(t, options(memory, &after)...)
			turn := run(t, second, led("demo-1"))
			if want := "I was told: Look it up. I found: a receipt"; turn.Status.Output != want {
				t.Errorf("the output is %q, want %q", turn.Status.Output, want)
			}
			if after.Load() != test.paid || before.Load()+after.Load() != 1 {
				t.Errorf("the tool ran %d times in the first process and %d times in the second", before.Load(), after.Load())
			}
			call := turn.Status.ToolCalls[0]
			if call.State != v1alpha1.ToolCallStateSucceeded || call.SubAgent.Totals.ModelCalls != 2 {
				t.Errorf("the call is %+v", call)
			}
		})
	}
}
