package step

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/fairshare"
	"github.com/capstan-dev/capstan/internal/runtime/model"
)

// under runs a model call under a Share of so many bytes, as an activity does.
func under(t *testing.T, p *fairshare.Pool, bytes int64) (context.Context, *fairshare.Share) {
	t.Helper()
	share, err := p.Request(fairshare.Request{Namespace: "ns", Amount: fairshare.Amount{Places: 1, Bytes: bytes}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(share.Release)
	return fairshare.NewContext(t.Context(), share), share
}

func TestAModelCallTakesNoMoreThanItsShare(t *testing.T) {
	b := newBench(t)
	pool := fairshare.NewPool(fairshare.Options{Total: fairshare.Amount{Places: 2, Bytes: 64 << 20}})
	first := newTurn("demo-1")
	first.Input = strings.Repeat("x", 1<<20)
	needed := CallBytes(first, 0)
	if needed != fairshare.ConversationBytes(1<<20) {
		t.Fatalf("%d bytes for a message of 1 MiB", needed)
	}
	turn, closed := b.reason(first, with())
	if turn.Progress.Phase != v1alpha1.TurnPhaseSucceeded {
		t.Fatalf("%+v", turn.Progress)
	}
	// A process that begins knows less of the journal than it has.
	second := newTurn("demo-2")
	second.Ref.UID, second.Progress.Plan.OpenedAtOrdinal = "turn-2", closed.Ordinal+1
	ctx, share := under(t, pool, CallBytes(second, 0))
	var held fairshare.Amount
	b.answer = func(model.Request) (*model.Response, error) {
		held = share.Amount()
		return &model.Response{Text: "Hello."}, nil
	}
	if _, err := b.Reason(ctx, second, with()); err != nil {
		t.Fatal(err)
	}
	if held.Places != 1 || held.Bytes < needed {
		t.Errorf("the model is called while the Share holds %+v, want %d bytes", held, needed)
	}
}

func TestAConversationThatIsTooLargeEndsTheTurnWithoutACall(t *testing.T) {
	b := newBench(t)
	pool := fairshare.NewPool(fairshare.Options{Total: fairshare.Amount{Places: 2, Bytes: 8 << 20}})
	first := newTurn("demo-1")
	first.Input = strings.Repeat("x", 1<<20)
	_, closed := b.reason(first, with())
	b.asked = nil
	second := newTurn("demo-2")
	second.Ref.UID, second.Progress.Plan.OpenedAtOrdinal = "turn-2", closed.Ordinal+1
	ctx, share := under(t, pool, CallBytes(second, 0))
	_, err := b.Reason(ctx, second, with())
	var tooLarge *fairshare.TooLargeError
	if !errors.As(err, &tooLarge) || len(b.asked) != 0 || share.Held() {
		t.Fatalf("%v, the model was called %d times, the Share is held: %v", err, len(b.asked), share.Held())
	}
	closed, err = b.RefuseTooLarge(t.Context(), second, tooLarge)
	if err != nil {
		t.Fatal(err)
	}
	problem := closed.Transition.Error
	if problem == nil || problem.Code != v1alpha1.ErrorCodeRequestTooLarge ||
		!strings.Contains(problem.Message, "new Session") {
		t.Errorf("the Turn ends with %+v", problem)
	}
}
