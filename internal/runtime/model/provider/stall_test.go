package provider

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/model"
)

// paced is a driver that brings content after each of these pauses, and is complete after the last.
type paced []time.Duration

func (p paced) Generate(ctx context.Context, r model.Request) (*model.Response, error) {
	for _, pause := range p {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(pause):
			r.ReportPartial(model.Partial{Text: "content"})
		}
	}
	return &model.Response{Text: "whole"}, nil
}

// Rules: HB-02.
func TestACallThatStallsIsEnded(t *testing.T) {
	bounds := model.Timeouts{FirstContent: 10 * time.Second, Idle: 4 * time.Second, Call: 30 * time.Second}
	const s = time.Second
	for name, test := range map[string]struct {
		driver  paced
		message string
		after   time.Duration
		tries   int32
	}{
		"a steady one": {paced{9 * s, 3 * s, 3 * s}, "", 15 * s, 0},
		"one that never begins": {
			paced{time.Hour}, "no content came within 10s (timeouts.firstContent)", 10 * s, 2,
		},
		"one that stops": {
			paced{s, s, time.Hour}, "no further content came for 4s (timeouts.idle)", 6 * s, 1,
		},
		"one that goes on and on": {
			paced{s, 3 * s, 3 * s, 3 * s, 3 * s, 3 * s, 3 * s, 3 * s, 3 * s, 3 * s, 3 * s},
			"not complete after 30s (timeouts.call)", 30 * s, 1,
		},
		"one that begins at the last call": {
			paced{9900 * time.Millisecond, 3900 * time.Millisecond}, "", 13800 * time.Millisecond, 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began, partials := time.Now(), 0
				got, err := WithTimeouts(
					t.Context(),
					test.driver,
					"OpenAI",
					bounds,
					model.Request{OnPartial: func(model.Partial) { partials++ }},
				)
				if took := time.Since(began); took != test.after {
					t.Errorf("it ended after %s, want %s", took, test.after)
				}
				if test.message == "" {
					if err != nil || got.Text != "whole" || partials != len(test.driver) {
						t.Errorf("%v, %v, reported %d times", got, err, partials)
					}
					return
				}
				var refusal *Error
				if !errors.As(err, &refusal) || !strings.Contains(refusal.Problem, test.message) || refusal.Tries(4) != test.tries {
					t.Errorf("%#v, want %q and %d tries", err, test.message, test.tries)
				}
				if code := model.CodeOf(err); code != v1alpha1.ErrorCodeProviderUnavailable || number.MatchString(err.Error()) ||
					refusal.Status != 0 {
					t.Errorf("%q has the code %s and has the status %d", err, code, refusal.Status)
				}
			})
		})
	}
}

func TestACallThatIsCancelledDoesNotTimeOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		bounds := model.Timeouts{FirstContent: time.Minute, Idle: time.Minute, Call: time.Minute}
		if _, err := WithTimeouts(
			ctx,
			paced{time.Hour},
			"OpenAI",
			bounds,
			model.Request{},
		); !errors.Is(
			err,
			context.DeadlineExceeded,
		) {
			t.Errorf("%v", err)
		}
	})
}
