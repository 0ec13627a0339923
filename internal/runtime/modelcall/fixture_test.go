package modelcall

import (
	"context"
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/runtime/model/provider"
	"github.com/capstan-dev/capstan/internal/testing/ticker"
)

// bench is a Caller with a model that the test plays.
type bench struct {
	*Caller
	t *testing.T
	// answer is the model's response; each request is one element of requests.
	answer   func(model.Request) (*model.Response, error)
	requests []model.Request
	// pauses are those between the requests, which nothing waits for.
	pauses []time.Duration
}

// Generate implements model.Driver.
func (b *bench) Generate(_ context.Context, r model.Request) (*model.Response, error) {
	b.requests = append(b.requests, r)
	return b.answer(r)
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{t: t}
	b.answer = func(model.Request) (*model.Response, error) { return &model.Response{Text: "Hello."}, nil }
	b.Caller = &Caller{
		Options: Options{
			Models: model.Registry{"Test": func(*v1alpha1.Model, model.Access) (model.Driver, error) { return b, nil }},
			Pause: func(ctx context.Context, d time.Duration) error {
				b.pauses = append(b.pauses, d)
				return ctx.Err()
			},
		},
		Clock: (&ticker.Ticker{}).Tick,
	}
	return b
}

// failing makes the model return one error after another, then a text.
func (b *bench) failing(errs ...error) {
	b.answer = func(r model.Request) (*model.Response, error) {
		if n := len(b.requests); n <= len(errs) {
			return nil, errs[n-1]
		}
		return &model.Response{Text: "Hello from " + r.Model + "."}, nil
	}
}

// request is a Request for a response to messages, from Models.
func request(messages []event.Message, models ...*v1alpha1.Model) Request {
	return Request{
		Content: model.Request{Messages: messages}, Namespace: "ns", Models: models,
		Read: func(_ context.Context, m *v1alpha1.Model) (*v1alpha1.Model, error) { return m, nil },
	}
}

// call makes a response, and continues after each Backoff.
func (b *bench) call(r Request) ([]Result, error) {
	b.t.Helper()
	for {
		all, err := b.Call(b.t.Context(), r)
		if !errors.As(err, &r.Earlier) {
			return all, err
		}
		if err := b.WaitFor(b.t.Context(), r.Earlier); err != nil {
			b.t.Fatal(err)
		}
	}
}

// results makes a response with the given Models, and returns the result of each that was called.
func (b *bench) results(models ...*v1alpha1.Model) []Result {
	b.t.Helper()
	all, err := b.call(request(nil, models...))
	if err != nil {
		b.t.Fatalf("calling: %v", err)
	}
	return all
}

// result is that of the one Model that was called.
func (b *bench) result(models ...*v1alpha1.Model) Result {
	b.t.Helper()
	all := b.results(models...)
	if len(all) != 1 {
		b.t.Fatalf("%d Models were called", len(all))
	}
	return all[0]
}

// named is a Model of the provider that the test plays.
func named(name string) *v1alpha1.Model {
	return &v1alpha1.Model{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.ModelSpec{Provider: "Test"}}
}

// limited and unavailable are errors as providers return them.
func limited(after time.Duration) error { return provider.StatusError("Test", "m", 429, after, "") }
func unavailable() error                { return provider.StatusError("Test", "m", 503, 0, "") }
