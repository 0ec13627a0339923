package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"
)

// The calls of a Tool are limited together, and a refused call does not count.
//
// Rules: RATE-01.
func TestCallsPerMinute(t *testing.T) {
	c := newClock()
	calls := &Calls{Counter: NewMemory(c.Now)}
	search, other := Tool{Namespace: "a", Kind: "Tool", Name: "search"}, Tool{Namespace: "b", Kind: "Tool", Name: "search"}
	for range 3 {
		if ok, _ := calls.Allow(t.Context(), search, 3); !ok {
			t.Fatal("A call within the limit was refused")
		}
		c.advance(time.Second)
	}
	for range 5 {
		ok, after := calls.Allow(t.Context(), search, 3)
		if ok || after <= 57*time.Second || after > 58*time.Second {
			t.Fatalf("The fourth call within a minute: %v, after %v", ok, after)
		}
	}
	if ok, _ := calls.Allow(t.Context(), other, 3); !ok {
		t.Error("Another namespace shares the limit")
	}
	c.advance(58 * time.Second)
	if ok, _ := calls.Allow(t.Context(), search, 3); !ok {
		t.Error("Refused after the time to wait")
	}
}

// failing is a Counter whose storage is away.
type failing struct{}

func (failing) Take(context.Context, Tool, int32) (bool, time.Duration, error) {
	return false, time.Hour, errors.New("no storage")
}

// A Counter that fails lets calls pass, as does one that is missing.
//
// Rules: RATE-01, VEC-28.
func TestAFailingCounterLetsCallsPass(t *testing.T) {
	failed := 0
	for _, calls := range []*Calls{
		{Counter: failing{}, OnFailure: func(context.Context, Tool, error) { failed++ }}, {Counter: failing{}}, {}, nil,
	} {
		if ok, after := calls.Allow(t.Context(), Tool{}, 1); !ok || after != 0 {
			t.Errorf("Refused: wait %v", after)
		}
	}
	if failed != 1 {
		t.Errorf("%d failures reported", failed)
	}
}

// A Memory that cannot count another Tool fails, until others are idle.
func TestTheNumberOfCountedToolsIsBounded(t *testing.T) {
	c := newClock()
	m := NewMemory(c.Now)
	take := func(n int) error {
		_, _, err := m.Take(t.Context(), Tool{Name: fmt.Sprint(n)}, 1)
		return err
	}
	for n := range maxTools {
		if err := take(n); err != nil {
			t.Fatal(err)
		}
	}
	if err := take(maxTools); !errors.Is(err, ErrFull) {
		t.Errorf("One more Tool: %v", err)
	}
	c.advance(2 * time.Minute)
	if err := take(maxTools); err != nil {
		t.Errorf("After two minutes: %v", err)
	}
}
