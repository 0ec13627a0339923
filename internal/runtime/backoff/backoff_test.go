package backoff

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

func TestPausesGrowUpToTheLongest(t *testing.T) {
	e := Exponential{First: time.Second, Factor: 3, Longest: 20 * time.Second}
	var pauses []time.Duration
	for _, failures := range []int{-1, 0, 1, 2, 3, 4, 5, math.MaxInt} {
		pauses = append(pauses, e.After(failures))
	}
	s := time.Second
	if want := []time.Duration{s, s, s, 3 * s, 9 * s, 20 * s, 20 * s, 20 * s}; !slices.Equal(pauses, want) {
		t.Errorf("the pauses are %v, want %v", pauses, want)
	}
}

func TestAPauseEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if err := Wait(t.Context(), time.Minute); err != nil || time.Since(began) != time.Minute {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began = time.Now()
		if err := Wait(ctx, time.Minute); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Second {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
	})
}
