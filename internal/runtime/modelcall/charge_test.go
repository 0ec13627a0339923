package modelcall

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/budget"
	"github.com/capstan-dev/capstan/internal/runtime/budget/keeper"
	"github.com/capstan-dev/capstan/internal/runtime/egress"
	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/runtime/model/provider"
)

// limitedTo puts the bench under a Budget of tokens, of which each call needs 1500.
func (b *bench) limitedTo(limit v1alpha1.BudgetLimit) *keeper.Memory {
	store := &keeper.Memory{}
	b.Budgets = keeper.New(store, b.Clock)
	b.Budgets.Observe(store.Apply(&v1alpha1.Budget{
		ObjectMeta: metav1.ObjectMeta{Name: "b", Namespace: "ns", UID: "b", Generation: 1},
		Spec:       v1alpha1.BudgetSpec{Unit: v1alpha1.BudgetUnitTokens, Limit: limit},
	}))
	return store
}

// writes gives a Model the most tokens that it writes.
func writes(m *v1alpha1.Model) *v1alpha1.Model {
	m.Spec.Parameters = &v1alpha1.ModelParameters{MaxOutputTokens: ptr.To[int32](500)}
	return m
}

// paid is a request that a Turn pays for.
func paid(models ...*v1alpha1.Model) Request {
	r := request(nil, models...)
	r.Payer = budget.Payer{Namespace: "ns", Root: "s", RootUID: "s", Turn: "t", Step: 1}
	return r
}

// spent is what the Budget shows once all is settled.
func (b *bench) spent(store *keeper.Memory) string {
	b.t.Helper()
	if err := b.Budgets.Flush(b.t.Context()); err != nil {
		b.t.Fatal(err)
	}
	status := store.Get("b").Status
	if status.Reserved != "0" {
		b.t.Errorf("%s reserved", status.Reserved)
	}
	return status.Spent
}

// Rules: BUDGET-03.
func TestEveryAttemptIsCharged(t *testing.T) {
	cut := errors.New("connection cut")
	for name, test := range map[string]struct {
		failures []error
		models   []*v1alpha1.Model
		want     string
	}{
		"a response":     {nil, []*v1alpha1.Model{named("a")}, "12"},
		"a refusal":      {[]error{limited(0)}, []*v1alpha1.Model{named("a")}, "12"},
		"an unknown 503": {[]error{unavailable()}, []*v1alpha1.Model{named("a")}, "1512"},
		"a server error": {
			[]error{provider.StatusError("Test", "m", 500, 0, "")}, []*v1alpha1.Model{named("a")}, "1512",
		},
		"a failure of its own":  {[]error{cut}, []*v1alpha1.Model{named("a")}, "1500"},
		"a fallback":            {[]error{provider.Late("Test", "late")}, []*v1alpha1.Model{named("a"), named("b")}, "1512"},
		"a Model without limit": {nil, []*v1alpha1.Model{{}, named("b")}, "12"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			store := b.limitedTo("100000")
			b.answer = func(model.Request) (*model.Response, error) {
				reserved := store.Get("b").Status.Reserved
				if n := len(b.requests); n <= len(test.failures) {
					return nil, test.failures[n-1]
				}
				if reserved != "1500" {
					t.Errorf("%s reserved during the call", reserved)
				}
				return &model.Response{Text: "Hi.", Usage: model.Usage{InputTokens: 10, OutputTokens: 2}}, nil
			}
			for _, m := range test.models {
				if m.Spec.Provider = "Test"; m.Name != "" {
					writes(m)
				} else {
					m.Name = "unlimited"
				}
			}
			if _, err := b.call(paid(test.models...)); err != nil {
				t.Fatal(err)
			}
			if got := b.spent(store); got != test.want {
				t.Errorf("%s spent, want %s", got, test.want)
			}
		})
	}
}

func TestACallWithoutRoomIsNotMade(t *testing.T) {
	b := newBench(t)
	b.limitedTo("1499")
	_, err := b.Call(t.Context(), paid(writes(named("a"))))
	var refusal *budget.Refusal
	if !errors.As(err, &refusal) || refusal.Reason != v1alpha1.ReasonBudgetExhausted || len(b.requests) > 0 {
		t.Errorf("error %v, %d requests", err, len(b.requests))
	}
	_, err = b.Call(t.Context(), paid(named("a")))
	if !errors.As(err, &refusal) || refusal.Reason != v1alpha1.ReasonBudgetNeedsPrice || len(b.requests) > 0 {
		t.Errorf("error %v, %d requests", err, len(b.requests))
	}
	if _, err := b.Call(t.Context(), request(nil, writes(named("a")))); err == nil || len(b.requests) > 0 {
		t.Errorf("a call without a payer: %v, %d requests", err, len(b.requests))
	}
}

// dearer gives a Model a larger worst case than the first one.
func dearer(m *v1alpha1.Model) *v1alpha1.Model {
	m.Spec.Parameters = &v1alpha1.ModelParameters{MaxOutputTokens: ptr.To[int32](1000)}
	return m
}

func TestAFallbackThatDoesNotFitIsPassedOver(t *testing.T) {
	b := newBench(t)
	store := b.limitedTo("1600")
	b.answer = func(r model.Request) (*model.Response, error) {
		if r.Model == "b" {
			t.Error("a Model was called that does not fit")
		}
		return nil, limited(2 * longestPause)
	}
	results, err := b.call(paid(writes(named("a")), dearer(named("b")), writes(named("c"))))
	if err != nil || len(results) != 3 || results[0].Failure().Code != v1alpha1.ErrorCodeProviderRateLimited ||
		results[1].Failure().Code != v1alpha1.ErrorCodeBudgetExhausted || len(b.requests) != 2 {
		t.Errorf("results %+v, error %v, %d requests", results, err, len(b.requests))
	}
	if got := b.spent(store); got != "0" {
		t.Errorf("%s spent", got)
	}
}

// A fallback, and a further attempt, wait for other calls, and continue with the results so far.
func TestACallThatWaitsForABudgetContinuesWhereItStopped(t *testing.T) {
	for name, test := range map[string]struct {
		failure error
		models  []*v1alpha1.Model
		results int
		tries   int32
	}{
		"a fallback":        {limited(2 * longestPause), []*v1alpha1.Model{named("a"), named("b")}, 2, 1},
		"a further attempt": {limited(0), []*v1alpha1.Model{named("a")}, 1, 2},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			store := b.limitedTo("2000")
			b.failing(test.failure)
			r := paid(test.models...)
			for _, m := range test.models {
				writes(m)
			}
			var rival *keeper.Charge
			// take has another Turn take the room that the first attempt has left.
			take := func() {
				b.spent(store)
				other := r.Payer
				other.Turn = "other"
				var err error
				if rival, err = b.Budgets.Reserve(t.Context(), other, writes(named("r")), model.Request{}); err != nil {
					t.Fatal(err)
				}
			}
			b.Pause = func(context.Context, time.Duration) error {
				take()
				return nil
			}
			r.Read = func(_ context.Context, m *v1alpha1.Model) (*v1alpha1.Model, error) {
				if m.Name == "b" && rival == nil {
					take()
				}
				return m, nil
			}
			_, err := b.Call(t.Context(), r)
			var held *Held
			var refusal *budget.Refusal
			if !errors.As(err, &held) || !errors.As(err, &refusal) || refusal.Reason != v1alpha1.ReasonBudgetFull {
				t.Fatalf("error %v", err)
			}
			rival.Settle(keeper.Outcome{Free: true})
			b.spent(store)
			r.Earlier = held.Earlier
			results, err := b.Call(t.Context(), r)
			if err != nil || len(results) != test.results || len(b.requests) != 2 {
				t.Fatalf("results %+v, error %v, %d requests", results, err, len(b.requests))
			}
			if last := results[test.results-1]; last.Err != nil || last.Tries != test.tries {
				t.Errorf("the last result is %+v", last)
			}
		})
	}
}

// roundTrip is a transport.
type roundTrip func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestAServerThatUsersChooseCountsAtMostWhatWasReserved(t *testing.T) {
	for base, want := range map[string]string{"": "90012", "https://gateway.example.org": "1500"} {
		b := newBench(t)
		b.Egress = egress.New(egress.Options{})
		store := b.limitedTo("100000")
		b.answer = func(model.Request) (*model.Response, error) {
			return &model.Response{Text: "Hi.", Usage: model.Usage{InputTokens: 90000, OutputTokens: 12}}, nil
		}
		m := writes(named("a"))
		m.Spec.BaseURL = base
		if _, err := b.call(paid(m)); err != nil {
			t.Fatal(err)
		}
		if got := b.spent(store); got != want {
			t.Errorf("with baseURL %q, %s spent, want %s", base, got, want)
		}
	}
}

// TestTheStatusOfTheResponseDecides has a response fail that began well, with the word of a refusal.
func TestTheStatusOfTheResponseDecides(t *testing.T) {
	const overloaded, unavailable = "overloaded_error", "UNAVAILABLE"
	const gateway = "https://gateway.example.org"
	for name, test := range map[string]struct {
		provider   v1alpha1.ModelProvider
		base, word string
		status     int
		free       bool
	}{
		"a response":               {v1alpha1.ModelProviderAnthropic, "", overloaded, 200, false},
		"a bad request":            {v1alpha1.ModelProviderAnthropic, "", "", 400, true},
		"a timeout":                {v1alpha1.ModelProviderAnthropic, "", "", 408, false},
		"a failed generation":      {v1alpha1.ModelProviderOpenAI, gateway, "", 424, false},
		"a rate limit":             {v1alpha1.ModelProviderOpenAI, gateway, "", 429, true},
		"a closed request":         {v1alpha1.ModelProviderOpenAI, gateway, "", 499, false},
		"a server error":           {v1alpha1.ModelProviderAnthropic, "", "api_error", 500, false},
		"a bad gateway":            {v1alpha1.ModelProviderGoogle, "", "", 502, false},
		"Anthropic is overloaded":  {v1alpha1.ModelProviderAnthropic, "", overloaded, 529, true},
		"Anthropic is unavailable": {v1alpha1.ModelProviderAnthropic, "", overloaded, 503, false},
		"OpenAI is overloaded":     {v1alpha1.ModelProviderOpenAI, "", "server_is_overloaded", 503, true},
		"an error of OpenAI":       {v1alpha1.ModelProviderOpenAI, "", "server_error", 503, false},
		"OpenAI without a word":    {v1alpha1.ModelProviderOpenAI, "", "", 503, false},
		"Google is overloaded":     {v1alpha1.ModelProviderGoogle, "", unavailable, 503, true},
		"a proxy before Google":    {v1alpha1.ModelProviderGoogle, "", "", 503, false},
		"a gateway is overloaded":  {v1alpha1.ModelProviderGoogle, gateway, unavailable, 503, false},
		"a gateway to Anthropic":   {v1alpha1.ModelProviderAnthropic, gateway, overloaded, 529, false},
	} {
		t.Run(name, func(t *testing.T) {
			m := named("m")
			m.Spec.Provider, m.Spec.BaseURL = test.provider, test.base
			c := &charge{model: m}
			c.dialled.Store(true)
			c.connected.Store(true)
			client := c.observe(&http.Client{Transport: roundTrip(func(*http.Request) (*http.Response, error) {
				return &http.Response{StatusCode: test.status, Body: http.NoBody}, nil
			})})
			r, err := http.NewRequestWithContext(context.Background(), http.MethodPost, "https://example.org", http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			response, err := client.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			_ = response.Body.Close()
			if got := c.free(provider.StatusError("Test", "m", test.status, 0, test.word)); got != test.free {
				t.Errorf("free: %v", got)
			}
		})
	}
	unreached := &charge{model: named("m")}
	unreached.dialled.Store(true)
	if !unreached.free(errors.New("no route")) {
		t.Error("an attempt without a connection is not free")
	}
}
