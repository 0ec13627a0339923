package step

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/act"
	"github.com/capstan-dev/capstan/internal/runtime/config"
	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

// ends are the ways in which a Turn ends before its calls have.
var ends = map[string]func(*bench, turnstate.Turn) (*journal.Closed, error){
	"cancelled": func(b *bench, t turnstate.Turn) (*journal.Closed, error) { return b.Cancel(b.t.Context(), t, nil) },
	"deleted":   func(b *bench, t turnstate.Turn) (*journal.Closed, error) { return b.Deleted(b.t.Context(), t, nil) },
	"expired": func(b *bench, t turnstate.Turn) (*journal.Closed, error) {
		return b.Expire(b.t.Context(), t, turnstate.WaitTimeout(time.Minute), nil)
	},
	"blocked": func(b *bench, t turnstate.Turn) (*journal.Closed, error) {
		return b.Block(b.t.Context(), t, &config.Blocker{}, nil)
	},
	"abandoned": func(b *bench, t turnstate.Turn) (*journal.Closed, error) {
		return b.Abandon(b.t.Context(), session, t.Ref, turnstate.Admission{OpenedAtOrdinal: 1}, nil)
	},
}

// A process that remembers nothing of a step must not deny what the journal holds of it.
func TestAnEndTakesInWhatTheJournalHolds(t *testing.T) {
	long := strings.Repeat("paid ", 100)
	for name, end := range ends {
		for shown, state := range map[string]v1alpha1.ToolCallState{"open": "", "settled": v1alpha1.ToolCallStateSucceeded} {
			t.Run(name+", shown as "+shown, func(t *testing.T) {
				b := newBench(t)
				b.responds("", append(calls(1, "ask"), calls(2, "ask")...)...)
				turn, _ := b.reason(newTurn("demo-1"), with(clientTool("ask")))
				at := turn.Progress.Plan.OpenedAtOrdinal
				for _, call := range []journal.SettledCall{
					{ID: "1-0", Source: "first", Result: &long}, {ID: "1-1", Source: "second", Error: pointerTo("no money")},
				} {
					if _, _, err := b.Log.Settle(t.Context(), session, turn.Ref, turn.Step(), at, call); err != nil {
						t.Fatal(err)
					}
				}
				if state != "" && name != "abandoned" {
					turn.Progress.ToolCalls[0].State, turn.Progress.ToolCalls[0].Preview = state, tool.ShownPreview(long)
				}
				closed, err := end(b, turn)
				if err != nil {
					t.Fatal(err)
				}
				var read []event.Message
				for _, m := range b.transcript() {
					if m.Role == event.RoleToolResult {
						read = append(read, m)
					}
				}
				if len(read) != 3 || read[0].PlainText() != long || read[0].Error != "" || read[1].Error != "no money" {
					t.Errorf("the next Turn's model reads %+v", read)
				}
				if got := Sources(closed); len(got) != 2 || got[0] != "first" || got[1] != "second" || len(closed.Settled) != 2 {
					t.Errorf("it comes from %v, settled %+v", got, closed.Settled)
				}
			})
		}
	}
}

func TestAResultThatArrivesWhileATurnEndsIsCollected(t *testing.T) {
	b := newBench(t)
	turn, _ := b.acting()
	store := &interrupted{Store: b.store}
	other := onStore(t, b.store)
	late := onStore(t, store)
	store.before = func() {
		_, _, err := other.Log.Settle(t.Context(), session, turn.Ref, turn.Step(), turn.Progress.Plan.OpenedAtOrdinal,
			journal.SettledCall{ID: "1-1", Source: "r", Result: pointerTo("here")})
		if err != nil {
			t.Error(err)
		}
	}
	closed, err := late.Cancel(t.Context(), turn, nil)
	if err != nil {
		t.Fatal(err)
	}
	if call := closed.Transition.ToolCalls[1]; call.State != v1alpha1.ToolCallStateSucceeded || len(closed.Settled) != 1 {
		t.Errorf("the call ends as %+v, settled %+v", call, closed.Settled)
	}
}

// interrupted is a store in which something happens before the first entry is created.
type interrupted struct {
	journal.Store
	before func()
}

func (i *interrupted) Create(ctx context.Context, s journal.Session, e *v1alpha1.JournalEntrySpec) error {
	if before := i.before; before != nil {
		i.before = nil
		before()
	}
	return i.Store.Create(ctx, s, e)
}

func TestAbandonDoesNotDenyACallThatMayHaveRun(t *testing.T) {
	for name, test := range map[string]struct {
		withdraw Withdrawer
		want     v1alpha1.ToolCallState
	}{
		"unknown":           {nil, v1alpha1.ToolCallStateUnknown},
		"its pod may run":   {withdrawing(false), v1alpha1.ToolCallStateUnknown},
		"its pod was gated": {withdrawing(true), v1alpha1.ToolCallStateNotExecuted},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.responds("", calls(1, "pay")...)
			turn, _ := b.reason(newTurn("demo-1"), with(jobTool("pay")))
			closed, err := b.Abandon(t.Context(), session, turn.Ref, turnstate.Admission{OpenedAtOrdinal: 1}, test.withdraw)
			if err != nil {
				t.Fatal(err)
			}
			if call := closed.Transition.ToolCalls[0]; call.State != test.want {
				t.Errorf("the call ends as %+v, want %s", call, test.want)
			}
			messages := b.transcript()
			read := messages[len(messages)-1].Error
			if denied := strings.Contains(read, "changed nothing"); denied != (test.want == v1alpha1.ToolCallStateNotExecuted) {
				t.Errorf("the next Turn's model reads %q", read)
			}
		})
	}
}

func withdrawing(withdrawn bool) Withdrawer {
	return func(context.Context, v1alpha1.JournalTurn, int32, v1alpha1.ToolCall) (bool, error) {
		return withdrawn, nil
	}
}

func TestOnlyCallsWithoutAPodAreWithdrawn(t *testing.T) {
	call := func(id string, edit func(*v1alpha1.ToolCall)) v1alpha1.ToolCall {
		c := v1alpha1.ToolCall{
			ID:         id,
			Executor:   v1alpha1.ToolExecutorJob,
			SideEffect: v1alpha1.SideEffectAtMostOnce,
			Attempt:    1,
			State:      v1alpha1.ToolCallStatePending,
		}
		if edit != nil {
			edit(&c)
		}
		return c
	}
	p := v1alpha1.TurnProgress{ToolCalls: []v1alpha1.ToolCall{
		call("withdrawn", nil),
		call("recorded", func(c *v1alpha1.ToolCall) { c.PodUID = "p" }),
		call("pure", func(c *v1alpha1.ToolCall) { c.SideEffect = v1alpha1.SideEffectPure }),
		call("request", func(c *v1alpha1.ToolCall) { c.Executor = v1alpha1.ToolExecutorHTTP }),
		call("unapproved", func(c *v1alpha1.ToolCall) { c.Attempt = 0 }),
		call("known", nil),
		call("refused", nil),
	}}
	known := facts{Outcomes: map[string]tool.Outcome{
		"known": {
			State: v1alpha1.ToolCallStateUnknown,
		},
		"refused": {State: v1alpha1.ToolCallStateNotExecuted, Reason: v1alpha1.ToolCallReasonRefused, Error: "no"},
	}}.step()
	if !known.Withdraw(p.ToolCalls) {
		t.Error("nothing was withdrawn")
	}
	var withdrawn []string
	for _, c := range p.ToolCalls {
		if act.Withdrawn(c) {
			withdrawn = append(withdrawn, c.ID+" "+c.Reason)
		}
	}
	if got := strings.Join(withdrawn, ", "); got != "withdrawn TurnEnded, refused "+v1alpha1.ToolCallReasonRefused {
		t.Errorf("withdrawn: %s", got)
	}
}
