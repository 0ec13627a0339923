package modelcall

import (
	"context"
	"errors"
	"testing"
	"time"

	"k8s.io/utils/ptr"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/egress"
	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/runtime/ratelimit"
)

// at puts a Model at an address, with limits; 0 for none.
func at(name, address string, requests, tokens int32) *v1alpha1.Model {
	m := writes(named(name))
	m.Spec.BaseURL = "https://" + address
	m.Spec.Limits = &v1alpha1.ModelLimits{}
	if requests > 0 {
		m.Spec.Limits.RequestsPerMinute = ptr.To(requests)
	}
	if tokens > 0 {
		m.Spec.Limits.TokensPerMinute = ptr.To(tokens)
	}
	return m
}

// metered gives the bench limits, under a clock that the returned function advances.
func (b *bench) metered(models ...v1alpha1.Model) (advance func(time.Duration)) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	b.Limits = ratelimit.NewModels(func() time.Time { return now })
	b.Egress = egress.New(egress.Options{}) // No request is sent: the driver is the bench.
	b.LimitedModels = func(context.Context, string) ([]v1alpha1.Model, error) { return models, nil }
	return func(d time.Duration) { now = now.Add(d) }
}

// limitedCall calls Models, of which one must have no room.
func (b *bench) limitedCall(r Request) *Limited {
	b.t.Helper()
	var limited *Limited
	if _, err := b.Call(b.t.Context(), r); !errors.As(err, &limited) {
		b.t.Fatalf("no limit was reached: %v", err)
	}
	return limited
}

// Models with one credential share their calls, under the smallest limit.
func TestModelsWithOneCredentialShareALimit(t *testing.T) {
	b := newBench(t)
	one, two, other := at("one", "a.example", 0, 0), at("two", "a.example", 1, 0), at("other", "b.example", 0, 0)
	advance := b.metered(*two)
	if _, err := b.Call(t.Context(), paid(one)); err != nil {
		t.Fatal(err)
	}
	limited := b.limitedCall(paid(two))
	if limited.Resume.Tries != 0 || limited.Until.IsZero() {
		t.Errorf("%+v", limited.Resume)
	}
	if got := limited.Error(); got != `Model "two" has reached its rate limit: 1 requests per minute.` {
		t.Error(got)
	}
	if _, err := b.Call(t.Context(), paid(other)); err != nil {
		t.Errorf("Another credential: %v", err)
	}
	if n := len(b.requests); n != 2 {
		t.Errorf("%d requests were sent", n)
	}
	advance(61 * time.Second)
	r := paid(two)
	r.Earlier = limited.Resume
	if all, err := b.Call(t.Context(), r); err != nil || len(all) != 1 || all[0].Tries != 1 {
		t.Errorf("%+v, %v", all, err)
	}
}

// A fallback without room waits, and the Model that has failed is not called again after that.
func TestAFallbackWaitsForItsLimit(t *testing.T) {
	b := newBench(t)
	b.answer = func(r model.Request) (*model.Response, error) {
		if r.Model == "first" {
			return nil, &model.Error{Code: v1alpha1.ErrorCodeProviderQuotaExhausted, Text: "empty"}
		}
		return &model.Response{Text: "Hello."}, nil
	}
	first, second := named("first"), at("second", "a.example", 1, 0)
	advance := b.metered(*second)
	if _, err := b.Call(t.Context(), paid(second)); err != nil {
		t.Fatal(err)
	}
	r := paid(first, second)
	r.Earlier = b.limitedCall(r).Resume
	advance(61 * time.Second)
	all, err := b.Call(t.Context(), r)
	if err != nil || len(all) != 2 || all[0].Err == nil || all[1].Err != nil {
		t.Fatalf("%+v, %v", all, err)
	}
	if n := len(b.requests); n != 3 {
		t.Errorf("%d requests: the first Model was called again", n)
	}
}

// The most that a call may use is reserved, what it has used counts, and a refused call counts nothing.
func TestTokensPerMinute(t *testing.T) {
	for name, test := range map[string]struct {
		usage model.Usage
		err   error
		room  bool
	}{
		"reported": {usage: model.Usage{InputTokens: 100, OutputTokens: 50}, room: true},
		"unknown":  {},
		"refused":  {err: limited(time.Hour), room: true},
		"cut":      {err: errors.New("connection cut")},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			m := at("m", "a.example", 0, 1700) // One worst case is 1500.
			b.metered(*m)
			b.answer = func(model.Request) (*model.Response, error) {
				if _, refusal := b.Limits.Reserve(sourceOf("ns", m), limitOf(m), "other", 300); refusal == nil {
					t.Error("A running call does not hold what it may use")
				}
				if test.err != nil {
					return nil, test.err
				}
				return &model.Response{Text: "Hello.", Usage: test.usage}, nil
			}
			if _, err := b.Call(t.Context(), paid(m)); err != nil {
				t.Fatal(err)
			}
			_, refusal := b.Limits.Reserve(sourceOf("ns", m), limitOf(m), "other", 1500)
			if room := refusal == nil; room != test.room {
				t.Errorf("room: %v", room)
			}
		})
	}
}

// A call that a Budget refuses does not count, because nothing was sent.
func TestACallThatABudgetRefusesDoesNotCountForTheLimit(t *testing.T) {
	b := newBench(t)
	b.limitedTo("10")
	m := at("m", "a.example", 1, 0)
	b.metered(*m)
	if _, err := b.Call(t.Context(), paid(m)); err == nil {
		t.Fatal("The Budget has room")
	}
	if _, refusal := b.Limits.Reserve(sourceOf("ns", m), limitOf(m), "t", 0); refusal != nil {
		t.Error("The refused call counts")
	}
}

// Simulated Models have no credential in common.
func TestSimulatedModelsHaveLimitsOfTheirOwn(t *testing.T) {
	one, two := named("one"), named("two")
	if sourceOf("ns", one) == sourceOf("ns", two) || sourceOf("a", one) == sourceOf("b", one) {
		t.Error("They share a source")
	}
}
