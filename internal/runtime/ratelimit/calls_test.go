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

// A Memory that cannot count another Tool of a namespace fails, until others are idle. Other namespaces keep their
// limits.
func TestTheNumberOfCountedToolsIsBounded(t *testing.T) {
	c := newClock()
	m := NewMemory(c.Now)
	take := func(namespace string, n int) error {
		_, _, err := m.Take(t.Context(), Tool{Namespace: namespace, Name: fmt.Sprint(n)}, 1)
		return err
	}
	for n := range maxTools {
		if err := take("greedy", n); err != nil {
			t.Fatal(err)
		}
	}
	if err := take("greedy", maxTools); !errors.Is(err, ErrFull) {
		t.Errorf("One more Tool: %v", err)
	}
	for n := range 20 {
		for tool := range maxTools - 1 {
			if err := take(fmt.Sprint("greedy-", n), tool); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := take("other", 0); err != nil {
		t.Errorf("Another namespace: %v", err)
	}
	if taken, _, err := m.Take(t.Context(), Tool{Namespace: "other", Name: "0"}, 1); taken || err != nil {
		t.Errorf("A second call in another namespace: %t, %v", taken, err)
	}
	// One is in use when the others have expired.
	c.advance(30 * time.Second)
	if taken, _, err := m.Take(t.Context(), Tool{Namespace: "greedy", Name: "0"}, 5); !taken || err != nil {
		t.Fatalf("%t, %v", taken, err)
	}
	c.advance(31 * time.Second)
	if err := take("greedy", maxTools); err != nil {
		t.Errorf("After a minute: %v", err)
	}
	if taken, _, _ := m.Take(t.Context(), Tool{Namespace: "greedy", Name: "0"}, 1); taken {
		t.Error("The calls of a Tool in use were forgotten")
	}
	c.advance(2 * time.Minute)
	if err := take("other", 0); err != nil || len(m.namespaces) != 1 {
		t.Errorf("After three minutes: %v, %d namespaces are counted", err, len(m.namespaces))
	}
}
