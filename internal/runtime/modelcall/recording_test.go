package modelcall

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/testing/ticker"
)

// recorded is a Recording that a test looks at.
type recorded struct {
	attempt  string
	received []string
	response *model.Response
	failure  error
	err      error
}

// Observe implements Recording.
func (r *recorded) Observe(p model.Partial) { r.received = append(r.received, p.Text) }

// End implements Recording.
func (r *recorded) End(_ context.Context, response *model.Response, failure error) error {
	r.response, r.failure = response, failure
	return r.err
}

// recording is a Request to a Model whose responses are finalized, with a fallback whose responses are not, and the
// list of their Recordings. Each ends with err.
func recording(err error) (Request, *[]*recorded) {
	m := named("m")
	m.Spec.Recovery = v1alpha1.ModelRecoveryFinalize
	all := new([]*recorded)
	r := request(nil, m, named("other"))
	r.Record = func(_ context.Context, _ *v1alpha1.Model, attempt string, _ context.CancelFunc) Recording {
		one := &recorded{attempt: attempt, err: err}
		*all = append(*all, one)
		return one
	}
	return r, all
}

// TestEachAttemptIsRecordedByItself: where the Model's responses are finalized, and with an ID of its own.
func TestEachAttemptIsRecordedByItself(t *testing.T) {
	b := newBench(t)
	var answers []func() (*model.Response, error)
	b.answer = func(r model.Request) (*model.Response, error) {
		r.ReportPartial(model.Partial{Text: "H"})
		return answers[len(b.requests)-1]()
	}
	fails := func() (*model.Response, error) { return nil, unavailable() }
	responding := func() (*model.Response, error) { return &model.Response{Text: "Hi"}, nil }
	answers = append(answers, fails, responding)
	r, all := recording(nil)
	if got, err := b.call(r); err != nil || len(got) != 1 || got[0].Response.Text != "Hi" || len(*all) != 2 {
		t.Fatalf("%d recordings, the results are %+v, %v", len(*all), got, err)
	}
	first, second := (*all)[0], (*all)[1]
	if first.attempt == "" || first.attempt == second.attempt || first.failure == nil || first.response != nil ||
		second.failure != nil || second.response == nil || !slices.Equal(second.received, []string{"H"}) {
		t.Errorf("the recordings are %+v and %+v", first, second)
	}
	answers = append(answers[:0], responding)
	b.requests = nil
	r, all = recording(nil)
	r.Models = r.Models[1:]
	if _, err := b.call(r); err != nil || len(*all) != 0 {
		t.Errorf("%d recordings of a Model whose responses are not finalized, %v", len(*all), err)
	}
}

func TestAfterARecordingThatCannotEndNothingIsCalled(t *testing.T) {
	b := newBench(t)
	b.failing(unavailable())
	want := errors.New("the journal is away")
	r, all := recording(want)
	if got, err := b.call(r); !errors.Is(err, want) || got != nil || len(b.requests) != 1 || len(*all) != 1 {
		t.Errorf("called %d times: %+v, %v", len(b.requests), got, err)
	}
}

func TestTheTimeToTheFirstContentIsThatOfTheLastAttempt(t *testing.T) {
	b := newBench(t)
	clock := &ticker.Ticker{}
	b.Clock = clock.Now
	var observed []time.Duration
	b.OnFirstToken = func(_ v1alpha1.ModelProvider, after time.Duration) { observed = append(observed, after) }
	b.answer = func(r model.Request) (*model.Response, error) {
		clock.Pass(400 * time.Millisecond)
		r.ReportPartial(model.Partial{Text: "H"})
		clock.Pass(time.Hour)
		if len(b.requests) == 1 {
			return nil, unavailable()
		}
		return &model.Response{Text: "Hi"}, nil
	}
	first, ok := b.result(named("m")).TimeToFirst()
	if want := 400 * time.Millisecond; !ok || first != want || !slices.Equal(observed, []time.Duration{want}) {
		t.Errorf("the time is %s, observed were %v", first, observed)
	}
	b.failing(errors.New("no"))
	b.requests = nil
	if first, ok := b.result(named("m")).TimeToFirst(); ok || len(observed) != 1 {
		t.Errorf("a failure has the time %s, observed were %v", first, observed)
	}
}

func TestTheEndOfEachCalledModelIsReportedOnce(t *testing.T) {
	b := newBench(t)
	clock := &ticker.Ticker{}
	b.Clock = clock.Now
	var ended []Ended
	b.OnCall = func(e Ended) { ended = append(ended, e) }
	b.answer = func(model.Request) (*model.Response, error) {
		clock.Pass(time.Second)
		if len(b.requests) <= MaxTries {
			return nil, unavailable()
		}
		return &model.Response{Text: "Hi", Usage: model.Usage{InputTokens: 5, OutputTokens: 2}}, nil
	}
	b.results(named("m"), named("n"))
	if len(ended) != 2 || ended[0].Code != v1alpha1.ErrorCodeProviderUnavailable || ended[0].Took < 4*time.Second ||
		ended[1].Code != "" || ended[1].Usage.InputTokens != 5 {
		t.Errorf("reported were %+v", ended)
	}
}
