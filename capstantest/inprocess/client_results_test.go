package inprocess_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest/clock"
	"github.com/capstan-dev/capstan/capstantest/inprocess"
)

// The entry that was to close the step is refused, and the one that ends the Turn instead has the answer.
func TestAnAnswerIsAcceptedOnlyWithTheEntryThatHasIt(t *testing.T) {
	store := &refusing{Store: inprocess.NewMemoryStore()}
	runtime := start(t, inprocess.WithStore(store), inprocess.WithSimulation(calling([]string{"ask"})))
	run(t, runtime, message("demo-1", "Go."))
	store.left.Store(1)
	turn, err := runtime.Answer(t.Context(), "demo-1", "1-0", "yes")
	if err != nil || reason(turn) != "False ProcessingError" {
		t.Errorf("the answer gives %+v, %v", turn, err)
	}
	if got := resultTexts(t, runtime); !slices.Equal(got, []string{"yes"}) {
		t.Errorf("the model received %q of an answer that was accepted", got)
	}
	store.left.Store(0)
	run(t, runtime, message("demo-2", "Go."))
	store.left.Store(1000)
	if turn, err = runtime.Answer(t.Context(), "demo-2", "1-0", "no"); !errors.Is(err, inprocess.ErrRefused) {
		t.Errorf("an answer that no entry has gives %+v, %v", turn, err)
	}
}

func TestAnAnswerToAStepThatAnotherProcessHasClosedIsRefused(t *testing.T) {
	store := inprocess.WithStore(inprocess.NewMemoryStore())
	script := inprocess.WithSimulation(calling([]string{"ask"}))
	first, second := start(t, store, script), start(t, store, script)
	run(t, first, message("demo-1", "Go."))
	run(t, second, message("demo-1", "Go."))
	if turn, err := second.Cancel(t.Context(), "demo-1"); err != nil || reason(turn) != "False Cancelled" {
		t.Fatalf("the Turn ended with %s, %v", reason(turn), err)
	}
	_, err := first.Answer(t.Context(), "demo-1", "1-0", "yes")
	refused(t, err, v1alpha1.ReasonCallClosed)
}

// Another process has an approval that this one holds to be late. The answer that was to close the step is kept until
// the step is read again and closed.
func TestAnAnswerOutlivesAnEntryThatIsStale(t *testing.T) {
	c := clock.New(time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC))
	options := []inprocess.Option{
		inprocess.WithStore(inprocess.NewMemoryStore()),
		inprocess.WithClock(c),
		inprocess.WithSimulation(calling([]string{"guarded", "ask"})),
		inprocess.WithTools(returns("paid")),
	}
	first, second := start(t, options...), start(t, options...)
	run(t, first, message("demo-1", "Go."))
	run(t, second, message("demo-1", "Go."))
	if _, err := second.Decide(t.Context(), "demo-1", "1-0", v1alpha1.DecisionApprove); err != nil {
		t.Fatal(err)
	}
	c.Advance(25 * time.Hour)
	await(t, first, "demo-1", func(turn *v1alpha1.Turn) bool {
		return turn.Status.ToolCalls[0].Reason == v1alpha1.ToolCallReasonApprovalTimeout
	})
	ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
	defer stop()
	turn, err := first.Answer(ctx, "demo-1", "1-1", "yes")
	if err != nil || reason(turn) != "True EndTurn" {
		t.Fatalf("after the answer: %+v, %v", turn, err)
	}
	if got := resultTexts(t, first); !slices.Equal(got, []string{"paid", "yes"}) {
		t.Errorf("the model received %q", got)
	}
}
