package modelcall

import (
	"errors"
	"maps"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/egress"
	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/runtime/model/provider"
)

// reworded is an error with another text.
type reworded struct {
	error
	text string
}

func (r reworded) Error() string { return r.text }
func (r reworded) Unwrap() error { return r.error }

// TestTheTextOfAnErrorDecidesNothing: the code, the fields, the number of tries, and whether another Model is called
// stay the same with every text, those of the other errors included.
// Rules: ERR-02, ERR-04, TURN-10, VEC-09.
func TestTheTextOfAnErrorDecidesNothing(t *testing.T) {
	status := func(status int, kind string) error {
		return provider.StatusError("Test", "m", status, 3*time.Second, kind)
	}
	lost := &egress.Error{Reason: egress.ReasonLost, Text: "lost"}
	refused := &egress.Error{Reason: egress.ReasonRefused, Text: "h has no address"}
	for name, test := range map[string]struct {
		err   error
		code  v1alpha1.ErrorCode
		again bool
		other bool
	}{
		"a refused request": {err: status(400, ""), code: v1alpha1.ErrorCodeProcessingError},
		"a refused key":     {err: status(401, ""), code: v1alpha1.ErrorCodeProviderMisconfigured, other: true},
		"a used quota": {
			err: status(429, provider.KindQuota), code: v1alpha1.ErrorCodeProviderQuotaExhausted, other: true,
		},
		"an unknown model":    {err: status(404, ""), code: v1alpha1.ErrorCodeModelUnavailable, other: true},
		"a long conversation": {err: status(400, provider.KindContextLength), code: v1alpha1.ErrorCodeRequestTooLarge},
		"a limit":             {err: status(429, ""), code: v1alpha1.ErrorCodeProviderRateLimited, again: true, other: true},
		"an outage":           {err: status(503, ""), code: v1alpha1.ErrorCodeProviderUnavailable, again: true, other: true},
		"a late response": {
			err: provider.Late("Test", "late"), code: v1alpha1.ErrorCodeProviderUnavailable, other: true,
		},
		"a lost connection": {
			err: provider.RequestError(t.Context(), "Test", lost), code: v1alpha1.ErrorCodeProviderUnavailable, again: true,
			other: true,
		},
		"a refused address": {
			err: provider.RequestError(t.Context(), "Test", refused), code: v1alpha1.ErrorCodeProviderMisconfigured, other: true,
		},
		"no stream": {err: provider.NoStream("Test"), code: v1alpha1.ErrorCodeProcessingError},
		"a long response": {
			err: provider.TooLong("Test", provider.MaxAnswer+1, 0, 0), code: v1alpha1.ErrorCodeProcessingError,
		},
		"no answer": {err: provider.NoAnswer("Test", "", false), code: v1alpha1.ErrorCodeProcessingError},
		"no key": {
			err: &model.KeyError{Model: "m", Problem: "no key"}, code: v1alpha1.ErrorCodeProviderMisconfigured, other: true,
		},
		"no driver": {
			err: &model.UnavailableError{Model: "m", Cause: errors.New("no")}, code: v1alpha1.ErrorCodeModelUnavailable,
			other: true,
		},
		"a simulated limit": {
			err:  &model.Error{Code: v1alpha1.ErrorCodeProviderRateLimited, Text: "x"},
			code: v1alpha1.ErrorCodeProviderRateLimited, other: true,
		},
		"an error of no kind":  {err: errors.New("(429) rate limit"), code: v1alpha1.ErrorCodeProcessingError},
		"a driver's own error": {err: &model.Error{Text: "x"}, code: v1alpha1.ErrorCodeProcessingError},
	} {
		t.Run(name, func(t *testing.T) {
			want := Result{Model: named("m"), Err: test.err}
			for _, text := range []string{
				test.err.Error(), "", "boom", "(401) missing api key", "(429) rate limit", "(503)", "Model not available: x",
				"Request too large: x", "insufficient quota", "context length", "Budget exhausted.",
			} {
				got := Result{Model: named("m"), Err: reworded{test.err, text}}
				failure := got.Failure()
				if failure.Code != test.code || !maps.Equal(failure.Fields, want.Failure().Fields) {
					t.Errorf("with the text %q: %+v, want %+v", text, failure, want.Failure())
				}
				if _, again := pauseBefore(2, got.Err); again != test.again || got.elsewhere() != test.other {
					t.Errorf("with the text %q: again %t, another Model %t", text, again, got.elsewhere())
				}
			}
		})
	}
}
