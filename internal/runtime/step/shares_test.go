package step

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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

// endless is a model that never ends its response.
type endless struct{}

func (endless) Generate(ctx context.Context, _ model.Request) (*model.Response, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestAModelCallThatDoesNotEndIsAbandoned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.Models = model.Registry{"Test": func(*v1alpha1.Model, model.Access) (model.Driver, error) { return endless{}, nil }}
		b.CallLimit = 30 * time.Minute
		began := time.Now()
		c, hour := with(), &metav1.Duration{Duration: time.Hour}
		c.Model.Spec.Timeouts = &v1alpha1.ModelTimeouts{FirstContent: hour, Call: hour}
		turn, _ := b.reason(newTurn("demo-1"), c)
		if took := time.Since(began); took != b.CallLimit {
			t.Errorf("the call took %s", took)
		}
		if problem := turn.Progress.Error; problem == nil || problem.Code != v1alpha1.ErrorCodeProviderUnavailable {
			t.Errorf("the Turn ends with %+v", turn.Progress.Error)
		}
	})
}

// TestAModelCallThatBringsNothingIsMadeOnceMore: by default 120 s are enough for the first content.
func TestAModelCallThatBringsNothingIsMadeOnceMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.Models = model.Registry{"Test": func(*v1alpha1.Model, model.Access) (model.Driver, error) { return endless{}, nil }}
		began := time.Now()
		turn, _ := b.reason(newTurn("demo-1"), with())
		if took := time.Since(began); took < 240*time.Second || took > 250*time.Second {
			t.Errorf("the calls took %s, want twice 120 s and a pause", took)
		}
		const want = "no content came within 2m0s (timeouts.firstContent)"
		if e := turn.Progress.Error; e == nil || e.Code != v1alpha1.ErrorCodeProviderUnavailable ||
			e.Fields[v1alpha1.ErrorFieldProblem] != want {
			t.Errorf("the Turn ends with %+v", e)
		}
	})
}
