package step

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// toFirst is the time from the beginning of the attempt that brought the response to its first content, in whole
// milliseconds; to its end if it came at once. It reports false if no model has responded.
func (a asked) toFirst() (time.Duration, bool) {
	if a.err != nil || a.tried.IsZero() {
		return 0, false
	}
	first := a.first
	if first.IsZero() {
		first = a.ended
	}
	return max(first.Sub(a.tried), 0).Truncate(time.Millisecond), true
}

// toFirstMS is toFirst for an event; nil if no model has responded.
func (a asked) toFirstMS() *int64 {
	first, ok := a.toFirst()
	if !ok {
		return nil
	}
	ms := first.Milliseconds()
	return &ms
}

// observe reports the time to the first content of a response.
func (run *Runner) observe(a asked) {
	if first, ok := a.toFirst(); ok && run.OnFirstToken != nil {
		run.OnFirstToken(a.model.Spec.Provider, first)
	}
}

// addFirstToken adds the time to the first content of the Turn's first response to its totals (TURN-15).
func (g generation) addFirstToken(sum *v1alpha1.TurnSummary) {
	if first, ok := g.answer().toFirst(); ok && sum.TimeToFirstToken == nil {
		sum.TimeToFirstToken = &metav1.Duration{Duration: first}
	}
}
