package activity

import (
	"context"
	"testing"
	"testing/synctest"
)

// crowd lets n activities of a namespace ask for a place, and gives the number that have got one.
func crowd(t *testing.T, p *places, namespace string, n int) *int {
	t.Helper()
	got := 0
	for range n {
		go func() {
			if p.take(t.Context(), namespace) {
				got++
			}
		}()
		synctest.Wait()
	}
	return &got
}

func TestANamespaceHasNoMorePlacesThanItLeavesFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlaces(8)
		a := crowd(t, p, "a", 20)
		b := crowd(t, p, "b", 20)
		c := crowd(t, p, "c", 20)
		if *a != 4 || *b != 2 || *c != 1 {
			t.Errorf("the namespaces have %d, %d and %d of 8 places, want 4, 2 and 1", *a, *b, *c)
		}
		if d := crowd(t, p, "d", 1); *d != 1 {
			t.Error("the fourth namespace has to wait")
		}
	})
}

func TestAPlaceThatComesFreeGoesToWhoHasWaitedLongestAndMayHaveIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlaces(4)
		a := crowd(t, p, "a", 3)
		b := crowd(t, p, "b", 2)
		if *a != 2 || *b != 1 {
			t.Fatalf("a has %d places, b %d", *a, *b)
		}
		p.leave("a")
		synctest.Wait()
		if *a != 3 || *b != 1 {
			t.Errorf("a got %d places in all, b %d; want 3 and 1", *a, *b)
		}
		p.leave("a")
		p.leave("a")
		synctest.Wait()
		if *b != 2 {
			t.Errorf("b got %d places in all, want 2", *b)
		}
	})
}

func TestASinglePlaceIsOfUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlaces(1)
		a, b := crowd(t, p, "a", 1), crowd(t, p, "b", 1)
		if *a != 1 || *b != 0 {
			t.Fatalf("a has %d places, b %d", *a, *b)
		}
		p.leave("a")
		synctest.Wait()
		if *b != 1 {
			t.Error("the place was not given on")
		}
	})
}

func TestWhoGivesUpTakesNoPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlaces(1)
		crowd(t, p, "a", 1)
		ctx, cancel := context.WithCancel(t.Context())
		gaveUp := true
		go func() { gaveUp = !p.take(ctx, "b") }()
		synctest.Wait()
		c := crowd(t, p, "c", 1)
		cancel()
		synctest.Wait()
		p.leave("a")
		synctest.Wait()
		if !gaveUp || *c != 1 || len(p.waiting) != 0 {
			t.Errorf("gave up %v, the next has %d places, %d wait", gaveUp, *c, len(p.waiting))
		}
	})
}
