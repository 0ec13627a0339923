package step

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/config"
	"github.com/capstan-dev/capstan/internal/runtime/hook"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/journal/memory"
	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

// Rules: TURN-16, HOOK-11, HOOK-16, LIFE-11.
func TestHooksAtTheEndOfATurn(t *testing.T) {
	blocker := &config.Blocker{Dependency: config.DependencyHarness, State: config.DependencyArchived}
	end := func(b *bench, turn turnstate.Turn, c turnstate.Config) *journal.Closed {
		_, closed := b.reason(turn, c)
		return closed
	}
	acting := func(b *bench, turn turnstate.Turn, c turnstate.Config) turnstate.Turn {
		b.responds("", calls(1, "look")...)
		turn, _ = b.reason(turn, c)
		return turn
	}
	closing := func(closed *journal.Closed, err error) *journal.Closed {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return closed
	}
	for name, test := range map[string]struct {
		end  func(*bench, turnstate.Turn, turnstate.Config) *journal.Closed
		data string
	}{
		"that succeeds": {end, `{"success":true}`},
		"whose model fails": {func(b *bench, turn turnstate.Turn, c turnstate.Config) *journal.Closed {
			b.fails("connection refused")
			return end(b, turn, c)
		}, `{"success":false}`},
		"that is cancelled": {func(b *bench, turn turnstate.Turn, _ turnstate.Config) *journal.Closed {
			return closing(b.Cancel(t.Context(), turn, nil))
		}, `{"success":false}`},
		"that is deleted": {func(b *bench, turn turnstate.Turn, c turnstate.Config) *journal.Closed {
			acting(b, turn, c)
			return closing(b.Abandon(t.Context(), session, turn.Ref, turnstate.Admission{OpenedAtOrdinal: 1}, nil))
		}, `{"success":false}`},
		"that is blocked before a model call": {func(b *bench, turn turnstate.Turn, c turnstate.Config) *journal.Closed {
			c.Blocker = blocker
			return end(b, turn, c)
		}, `{"success":false}`},
		"that is blocked before its tool calls": {func(b *bench, turn turnstate.Turn, c turnstate.Config) *journal.Closed {
			return closing(b.Block(t.Context(), acting(b, turn, c), blocker, nil))
		}, ""},
		"that goes on": {func(b *bench, turn turnstate.Turn, c turnstate.Config) *journal.Closed {
			b.responds("", calls(1, "look")...)
			return end(b, turn, c)
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			d := b.deciding()
			c := withHooks(with(jobTool("look")), spec(hook.TurnEnd, `{"decision":"block","reason":"too late"}`))
			turn := newTurn("one")
			closed := test.end(b, turn, c)
			if fires := FiresTurnEnd(c.Hooks, closed); fires != (test.data != "") {
				t.Fatalf("hooks run: %v", fires)
			}
			if test.data == "" {
				return
			}
			before := b.ordinals()
			if err := b.EndHooks(t.Context(), turn, c, closed); err != nil {
				t.Fatal(err)
			}
			if len(d.ran) != 1 || !strings.Contains(d.ran[0], `"data":`+test.data) ||
				!strings.Contains(d.ran[0], `"turn_id":"turn-uid"`) || b.ordinals() != before+1 {
				t.Errorf("ran %q, %d entries", d.ran, b.ordinals())
			}
			found, err := b.Log.Find(t.Context(), session, turn.Ref.UID, closed.Step, 1)
			if err != nil || found == nil || found.Ordinal != closed.Ordinal {
				t.Errorf("the Turn has the end %+v, %v", found, err)
			}
		})
	}
}

// Rules: TURN-16.
func TestATurnWithoutHooksAtItsEndFiresNone(t *testing.T) {
	b := newBench(t)
	_, closed := b.reason(newTurn("one"), with())
	others := []hook.Spec{spec(hook.PreToolUse, "{}"), spec(hook.UserPromptSubmit, "{}")}
	if FiresTurnEnd(nil, closed) || FiresTurnEnd(others, closed) {
		t.Error("hooks of other events run at the end")
	}
}

// Rules: TURN-16.
func TestHooksAtTheEndThatAreRecordedDoNotRunAgain(t *testing.T) {
	store := memory.New()
	b := onStore(t, store)
	d := b.deciding()
	c := withHooks(with(), spec(hook.TurnEnd, `{"decision":"block","reason":"too late"}`))
	_, closed := b.reason(newTurn("one"), c)
	cut, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.EndHooks(cut, newTurn("one"), c, closed); !errors.Is(err, context.Canceled) {
		t.Fatalf("a process that ends returns %v", err)
	}
	for range 2 {
		next := onStore(t, store)
		next.Hooks.CEL = d
		if err := next.EndHooks(t.Context(), newTurn("one"), c, closed); err != nil {
			t.Fatal(err)
		}
	}
	end, err := b.Log.Ended(t.Context(), session, closed)
	want := []journal.HookRun{{Hook: "session:h", Decision: "block", Reason: "too late"}}
	if err != nil || len(d.ran) != 1 || end == nil || !slices.Equal(end.Hooks, want) {
		t.Errorf("ran %q, recorded %+v, %v", d.ran, end, err)
	}
}

func TestAJournalThatAcceptsNothingDoesNotKeepATurnFromEnding(t *testing.T) {
	b := newBench(t)
	d := b.deciding()
	b.answer = func(model.Request) (*model.Response, error) {
		return &model.Response{Text: strings.Repeat("long ", 2000), FinishReason: model.FinishStop}, nil
	}
	c := withHooks(with(), spec(hook.TurnEnd, `{"decision":"block","reason":"too late"}`))
	_, closed := b.reason(newTurn("one"), c)
	full := newTurn("one")
	full.Session.Limit = 1000
	if err := b.EndHooks(t.Context(), full, c, closed); err != nil {
		t.Fatal(err)
	}
	if end, err := b.Log.Ended(t.Context(), session, closed); err != nil || end != nil || len(d.ran) != 1 {
		t.Errorf("ran %q, recorded %+v, %v", d.ran, end, err)
	}
	if closed.Transition.Phase != v1alpha1.TurnPhaseSucceeded {
		t.Errorf("the Turn is %s", closed.Transition.Phase)
	}
}
