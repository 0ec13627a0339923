package step

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/runtime/model/provider"
)

// limited and others are errors of real providers.
func limited(after time.Duration) error { return provider.StatusError("Test", "m", 429, after, "") }
func unavailable() error                { return provider.StatusError("Test", "m", 503, 0, "") }

// failing makes the model return one error after another, then a text.
func (b *bench) failing(errs ...error) {
	b.answer = func(r model.Request) (*model.Response, error) {
		if n := len(b.asked); n <= len(errs) {
			return nil, errs[n-1]
		}
		return &model.Response{Text: "Hello from " + r.Model + "."}, nil
	}
}

// pausing notes the pauses instead of waiting.
func (b *bench) pausing() *[]time.Duration {
	var pauses []time.Duration
	b.Pause = func(ctx context.Context, d time.Duration) error {
		pauses = append(pauses, d)
		return ctx.Err()
	}
	return &pauses
}

// generations returns the journal's events about model calls.
func generations(t *testing.T, closed *journal.Closed) []event.LLMGeneration {
	t.Helper()
	var found []event.LLMGeneration
	for _, e := range closed.Events {
		if e.Type != event.TypeLLMGeneration {
			continue
		}
		var g event.LLMGeneration
		if err := json.Unmarshal(e.Data.Raw, &g); err != nil {
			t.Fatal(err)
		}
		found = append(found, g)
	}
	return found
}

func TestAPauseEndsWithTheTurn(t *testing.T) {
	b := newBench(t)
	ctx, cancel := context.WithCancel(t.Context())
	b.answer = func(model.Request) (*model.Response, error) {
		cancel()
		return nil, limited(time.Minute)
	}
	c := with()
	c.Fallbacks = []*v1alpha1.Model{named("other")}
	if _, err := b.Reason(ctx, newTurn("demo-1"), c); !errors.Is(err, context.Canceled) {
		t.Fatalf("error %v", err)
	}
	if len(b.asked) != 1 || len(b.transcript()) != 0 {
		t.Errorf("asked %d times, the log has %d messages", len(b.asked), len(b.transcript()))
	}
}

// named is a Model of the provider that the test plays.
func named(name string) *v1alpha1.Model {
	return &v1alpha1.Model{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.ModelSpec{Provider: "Test"}}
}

func TestAnotherModelAnswersWhereOneCannotServeAnybody(t *testing.T) {
	for code, err := range map[string]error{
		"provider_unavailable":     unavailable(),
		"provider_rate_limited":    limited(2 * time.Minute),
		"provider_quota_exhausted": provider.StatusError("Test", "m", 402, 0, ""),
		"provider_misconfigured":   provider.StatusError("Test", "m", 401, 0, ""),
		"model_unavailable":        provider.StatusError("Test", "m", 404, 0, ""),
	} {
		t.Run(code, func(t *testing.T) {
			b := newBench(t)
			b.pausing()
			b.answer = func(r model.Request) (*model.Response, error) {
				if r.Model != "third" {
					return nil, err
				}
				return &model.Response{
					Text:  "Hello.",
					Model: "third-20260101",
					Usage: model.Usage{InputTokens: 3, OutputTokens: 2},
				}, nil
			}
			c := with()
			unknown := named("second")
			unknown.Spec.Provider = "Unheard"
			c.Fallbacks = []*v1alpha1.Model{unknown, named("other"), named("third"), named("fourth")}
			turn, closed := b.reason(newTurn("demo-1"), c)
			if turn.Progress.Output != "Hello." || turn.Progress.Summary.ModelCalls != 1 ||
				turn.Progress.Summary.Usage.TotalTokens != 5 {
				t.Errorf("progress %+v", turn.Progress)
			}
			all := generations(t, closed)
			names := make([]string, len(all))
			for i, g := range all {
				names[i] = g.Model
				if g.Success != (i == 3) || (g.Error == "") != g.Success || (g.Usage != nil) != g.Success {
					t.Errorf("the journal has %+v", g)
				}
			}
			if !slices.Equal(names, []string{"m", "second", "other", "third-20260101"}) {
				t.Errorf("the journal has %v", names)
			}
			if got := b.asked[len(b.asked)-1].Model; got != "third" {
				t.Errorf("the last model that was asked is %s", got)
			}
		})
	}
}

func TestWhenNoModelAnswersTheFirstOnesFailureIsTheTurns(t *testing.T) {
	b := newBench(t)
	b.answer = func(r model.Request) (*model.Response, error) {
		if r.Model == "m" {
			return nil, limited(2 * time.Minute)
		}
		return nil, provider.StatusError("Test", r.Model, 404, 0, "")
	}
	c := with()
	c.Fallbacks = []*v1alpha1.Model{named("other"), named("third")}
	turn, closed := b.reason(newTurn("demo-1"), c)
	e := turn.Progress.Error
	if e == nil || e.Code != "provider_rate_limited" || e.Fields["retry_after"] != "120" ||
		e.Fields["provider"] != "Test" ||
		e.Fields["model_id"] != "m" {
		t.Errorf("error %+v", e)
	}
	if all := generations(t, closed); len(all) != 3 || !strings.Contains(all[2].Error, "third") {
		t.Errorf("the journal has %+v", all)
	}
}
