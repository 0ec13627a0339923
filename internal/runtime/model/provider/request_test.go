package provider

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/egress"
	"github.com/capstan-dev/capstan/internal/runtime/model"
)

// number matches the number of a status.
var number = regexp.MustCompile(`\b[1-5][0-9]{2}\b`)

func TestRequestErrors(t *testing.T) {
	// As the standard library wraps the error of a transport.
	wrapped := func(err error) error {
		return fmt.Errorf("sending: %w", &url.Error{Op: "Post", URL: "https://secret.example.org/?key=secret", Err: err})
	}
	for name, test := range map[string]struct {
		err     error
		want    v1alpha1.ErrorCode
		again   bool
		message string
	}{
		"not permitted": {
			wrapped(&egress.Error{Reason: egress.ReasonRefused, Text: "h has no address"}),
			v1alpha1.ErrorCodeProviderMisconfigured, false, "h has no address",
		},
		"no URL": {
			wrapped(&egress.Error{Reason: egress.ReasonInvalid, Text: "no URL"}), v1alpha1.ErrorCodeProviderMisconfigured, false,
			"no URL",
		},
		"not trusted": {
			wrapped(&egress.Error{Reason: egress.ReasonUntrusted, Text: "no trust"}), v1alpha1.ErrorCodeProviderMisconfigured,
			false, "no trust",
		},
		"a redirect": {
			wrapped(&egress.Error{Reason: egress.ReasonRedirect, Text: "elsewhere"}), v1alpha1.ErrorCodeProviderMisconfigured,
			false, "elsewhere",
		},
		"not found": {
			wrapped(&egress.Error{Reason: egress.ReasonUnresolved, Text: "no host"}), v1alpha1.ErrorCodeProviderUnavailable,
			true, "no host",
		},
		"not reached": {
			wrapped(&egress.Error{Reason: egress.ReasonUnreachable, Text: "no connection"}),
			v1alpha1.ErrorCodeProviderUnavailable, true, "no connection",
		},
		"broken": {
			wrapped(&egress.Error{Reason: egress.ReasonLost, Text: "lost"}), v1alpha1.ErrorCodeProviderUnavailable, true, "lost",
		},
		"late": {
			&egress.Error{Reason: egress.ReasonTimeout, Text: "late"}, v1alpha1.ErrorCodeProviderUnavailable, true, "late",
		},
		"our redirect": {
			wrapped(errRedirected), v1alpha1.ErrorCodeProviderMisconfigured, false, "redirects are not followed",
		},
		"our limit": {fmt.Errorf("reading: %w", errTooLong), v1alpha1.ErrorCodeProcessingError, false, "too long"},
		"the library's": {
			wrapped(errors.New("secret")), v1alpha1.ErrorCodeProviderUnavailable, true, "the connection was closed",
		},
		"none": {nil, v1alpha1.ErrorCodeProviderUnavailable, true, "the connection was closed"},
	} {
		t.Run(name, func(t *testing.T) {
			err := RequestError(t.Context(), "Someone", test.err)
			var own *Error
			if !errors.As(err, &own) || own.Transient() != test.again || own.Status != 0 {
				t.Errorf("the error is %+v", err)
			}
			if got := model.CodeOf(err); got != test.want {
				t.Errorf("%q is of the class %s, want %s", err, got, test.want)
			}
			if number.MatchString(err.Error()) {
				t.Errorf("no server sent the status in %q", err)
			}
			if !strings.Contains(err.Error(), test.message) || !strings.Contains(err.Error(), "Someone") ||
				strings.Contains(err.Error(), "secret") {
				t.Errorf("the error is %q", err)
			}
			if errors.Unwrap(err) != nil {
				t.Errorf("the error wraps %v", errors.Unwrap(err))
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := RequestError(ctx, "Someone", errTooLong); !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v", err)
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	header := func(pairs ...string) http.Header {
		h := http.Header{}
		for i := 0; i < len(pairs); i += 2 {
			h.Set(pairs[i], pairs[i+1])
		}
		return h
	}
	for name, test := range map[string]struct {
		header http.Header
		want   time.Duration
	}{
		"nothing":                 {header(), 0},
		"seconds":                 {header("Retry-After", "20"), 20 * time.Second},
		"parts of a second":       {header("Retry-After", " 0.5 "), 500 * time.Millisecond},
		"milliseconds come first": {header("Retry-After", "20", "Retry-After-Ms", "1500"), 1500 * time.Millisecond},
		"a date":                  {header("Retry-After", now.Add(time.Minute).Format(http.TimeFormat)), time.Minute},
		"a date that has passed":  {header("Retry-After", now.Add(-time.Minute).Format(http.TimeFormat)), 0},
		"a date far away":         {header("Retry-After", now.AddDate(10, 0, 0).Format(http.TimeFormat)), maxRetryAfter},
		"far too long":            {header("Retry-After", "1e300"), maxRetryAfter},
		"not a number":            {header("Retry-After", "NaN"), 0},
		"infinite":                {header("Retry-After", "+Inf"), maxRetryAfter},
		"into the past":           {header("Retry-After", "-5"), 0},
		"no sense":                {header("Retry-After", "soon"), 0},
	} {
		t.Run(name, func(t *testing.T) {
			if got := RetryAfter(test.header, now); got != test.want {
				t.Errorf("RetryAfter = %s, want %s", got, test.want)
			}
		})
	}
}

func TestIsEventStream(t *testing.T) {
	for value, want := range map[string]bool{
		"text/event-stream": true, "Text/Event-Stream; charset=utf-8": true, "text/html": false, "": false, ";": false,
	} {
		if got := IsEventStream(http.Header{"Content-Type": {value}}); got != want {
			t.Errorf("IsEventStream(%q) = %t", value, got)
		}
	}
}

func TestSampling(t *testing.T) {
	half, warm := "0.5", "warm"
	got, err := SamplingOf(v1alpha1.ModelParameters{Temperature: &half})
	if err != nil || got.Temperature == nil || *got.Temperature != 0.5 || got.TopP != nil {
		t.Errorf("SamplingOf = %+v, %v", got, err)
	}
	for _, p := range []v1alpha1.ModelParameters{{Temperature: &warm}, {TopP: &warm}} {
		if _, err := SamplingOf(p); err == nil || !strings.Contains(err.Error(), `"warm": must be a decimal`) {
			t.Errorf("SamplingOf: %v", err)
		}
	}
}
