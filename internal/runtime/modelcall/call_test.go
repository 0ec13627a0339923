package modelcall

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/runtime/model/provider"
)

func TestWhatPassesIsTriedAgain(t *testing.T) {
	transient := unavailable()
	for name, test := range map[string]struct {
		errs   []error
		pauses []time.Duration
		code   v1alpha1.ErrorCode
	}{
		"once": {[]error{transient}, []time.Duration{time.Second}, ""},
		"as often as it makes sense": {
			[]error{transient, transient, transient}, []time.Duration{time.Second, 4 * time.Second, 16 * time.Second}, "",
		},
		"too often": {
			slices.Repeat([]error{transient}, 9),
			[]time.Duration{time.Second, 4 * time.Second, 16 * time.Second},
			"provider_unavailable",
		},
		"the provider's pause": {
			[]error{limited(7 * time.Second), limited(time.Minute)}, []time.Duration{7 * time.Second, time.Minute}, "",
		},
		"without the provider's pause": {[]error{transient, limited(0)}, []time.Duration{time.Second, 4 * time.Second}, ""},
		"not in good time":             {[]error{limited(time.Minute + time.Second)}, nil, "provider_rate_limited"},
		"not with this key": {
			[]error{provider.StatusError("Test", "m", 401, 0, "")}, nil, "provider_misconfigured",
		},
		"not without money": {
			[]error{provider.StatusError("Test", "m", 429, 0, provider.KindQuota)}, nil, "provider_quota_exhausted",
		},
		"not an unknown error": {
			[]error{&model.Error{Code: v1alpha1.ErrorCodeProviderUnavailable, Text: "a simulated error"}},
			nil,
			"provider_unavailable",
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.failing(test.errs...)
			got := b.result(named("m"))
			if !slices.Equal(b.pauses, test.pauses) || len(b.requests) != len(test.pauses)+1 {
				t.Errorf("called %d times, with the pauses %v, want %v", len(b.requests), b.pauses, test.pauses)
			}
			if int(got.Tries) != len(b.requests) || (got.Err == nil) != (test.code == "") {
				t.Errorf("the result is %+v", got)
			}
			if test.code == "" {
				if got.Response.Text != "Hello from m." {
					t.Errorf("the response is %+v", got.Response)
				}
				return
			}
			if code := got.Failure().Code; code != test.code {
				t.Errorf("the failure is %s, want %s", code, test.code)
			}
		})
	}
}

// TestAToolThatAProviderDoesNotTakeIsForAFallback: the Model is passed over, and if none is left the failure names the
// tool.
func TestAToolThatAProviderDoesNotTakeIsForAFallback(t *testing.T) {
	odd := model.ToolDefinition{Name: "odd", InputSchema: json.RawMessage(`{"type":"object","anyOf":[]}`)}
	refused := provider.CheckSchema("Test", odd, "anyOf")
	b := newBench(t)
	b.failing(refused)
	if all := b.results(named("m"), named("other")); len(all) != 2 || all[1].Response.Text != "Hello from other." {
		t.Errorf("the results are %+v", all)
	}
	b = newBench(t)
	b.failing(refused, refused)
	all := b.results(named("m"), named("other"))
	problem := all[0].Failure().Fields[v1alpha1.ErrorFieldProblem]
	if len(all) != 2 || all[1].Err == nil || !strings.Contains(problem, "inputSchema of tool odd") {
		t.Errorf("the results are %+v, the problem is %q", all, problem)
	}
}

func TestNoOtherModelAnswersWhereTheRequestIsAtFault(t *testing.T) {
	for code, err := range map[v1alpha1.ErrorCode]error{
		"request_too_large": provider.StatusError("Test", "m", 413, 0, ""),
		"processing_error":  provider.StatusError("Test", "m", 400, 0, ""),
	} {
		b := newBench(t)
		b.failing(err)
		if got := b.result(named("m"), named("other")); got.Failure().Code != code || len(b.requests) != 1 {
			t.Errorf("called %d times, failure %+v, want %s", len(b.requests), got.Failure(), code)
		}
	}
}

func TestAPauseEndsWithTheContext(t *testing.T) {
	b := newBench(t)
	ctx, cancel := context.WithCancel(t.Context())
	b.answer = func(model.Request) (*model.Response, error) {
		cancel()
		return nil, limited(time.Minute)
	}
	all, err := b.Call(ctx, request(nil, named("m"), named("other")))
	if err != nil || len(all) != 1 || all[0].Err == nil || len(b.requests) != 1 {
		t.Errorf("called %d times: %+v, %v", len(b.requests), all, err)
	}
}

// TestACallContinuesAfterABackoff: with the Models that have failed before, or, where the process does not have them,
// with the Model that was called and the number of its attempts.
func TestACallContinuesAfterABackoff(t *testing.T) {
	gone := provider.StatusError("Test", "first", 404, 0, "")
	b := newBench(t)
	b.failing(gone, limited(time.Minute))
	r := request(nil, named("first"), named("second"), named("third"))
	_, err := b.Call(t.Context(), r)
	if !errors.As(err, &r.Earlier) || r.Earlier.Model != "second" || r.Earlier.Tries != 1 {
		t.Fatalf("the error is %v", err)
	}
	for name, test := range map[string]struct {
		earlier *Backoff
		models  int
	}{
		"in the same process": {r.Earlier, 2},
		"in another process":  {Resumed("second", 1), 1},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.failing(unavailable())
			r := r
			r.Earlier = test.earlier
			all, err := b.call(r)
			if err != nil || len(all) != test.models {
				t.Fatalf("the results are %+v, %v", all, err)
			}
			last := all[len(all)-1]
			if last.Model.Name != "second" || last.Tries != 3 || last.Response == nil || len(b.requests) != 2 {
				t.Errorf("called %d times: %+v", len(b.requests), last)
			}
		})
	}
	t.Run("of a Model that is not called any more", func(t *testing.T) {
		b := newBench(t)
		r := r
		r.Earlier = Resumed("removed", MaxTries)
		if all, err := b.call(r); err != nil || all[0].Model.Name != "first" || all[0].Tries != 1 {
			t.Errorf("the results are %+v, %v", all, err)
		}
	})
	if Resumed("m", 0) != nil {
		t.Error("a call without an attempt is continued")
	}
}

func TestWithoutAModelTheResultIsAFailure(t *testing.T) {
	b := newBench(t)
	if got := b.result(); got.Model != nil || got.Failure().Code != v1alpha1.ErrorCodeModelUnavailable {
		t.Errorf("the result is %+v", got)
	}
}

// endless is a driver whose requests end with their context.
type endless struct{}

func (endless) Generate(ctx context.Context, _ model.Request) (*model.Response, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// endsNever makes the model never respond, and waits in the time of the test.
func (b *bench) endsNever() {
	b.Models = model.Registry{"Test": func(*v1alpha1.Model, model.Access) (model.Driver, error) { return endless{}, nil }}
	b.Clock, b.Pause = time.Now, nil
}

func TestAModelCallThatDoesNotEndIsAbandoned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.endsNever()
		b.CallLimit = 30 * time.Minute
		began := time.Now()
		m, hour := named("m"), &metav1.Duration{Duration: time.Hour}
		m.Spec.Timeouts = &v1alpha1.ModelTimeouts{FirstContent: hour, Call: hour}
		got := b.result(m)
		if took := time.Since(began); took != b.CallLimit {
			t.Errorf("the call took %s", took)
		}
		if failure := got.Failure(); failure.Code != v1alpha1.ErrorCodeProviderUnavailable {
			t.Errorf("the failure is %+v", failure)
		}
	})
}

// TestAModelCallThatBringsNothingIsMadeOnceMore: by default 120 s are enough for the first content.
// Rules: HB-02.
func TestAModelCallThatBringsNothingIsMadeOnceMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.endsNever()
		began := time.Now()
		got := b.result(named("m"))
		if took := time.Since(began); took < 240*time.Second || took > 250*time.Second {
			t.Errorf("the calls took %s, want twice 120 s and a pause", took)
		}
		const want = "no content came within 2m0s (timeouts.firstContent)"
		if failure := got.Failure(); failure.Code != v1alpha1.ErrorCodeProviderUnavailable ||
			failure.Fields[v1alpha1.ErrorFieldProblem] != want {
			t.Errorf("the failure is %+v", failure)
		}
	})
}
