package cache

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
)

// sized makes a value of a number of bytes, and counts how often.
func sized(made *int, bytes int64) func(string) (int, int64) {
	return func(string) (int, int64) {
		*made++
		return *made, bytes
	}
}

func get(t *testing.T, v *Values[int], namespace, text string, produce func(string) (int, int64)) int {
	t.Helper()
	value, err := v.Of(t.Context(), namespace, text, produce)
	if err != nil {
		t.Fatal(err)
	}
	return value
}

func TestNoNamespaceDropsTheValuesOfAnother(t *testing.T) {
	v := New[int](100 << 10)
	made := 0
	get(t, v, "quiet", "a", sized(&made, 1<<10))
	get(t, v, "quiet", "b", sized(&made, 1<<10))
	for i := range 1000 {
		get(t, v, "loud", strings.Repeat("x", i), sized(&made, 3<<10))
	}
	if used, _ := v.kept.Used(); used > 100<<10 || used < 90<<10 {
		t.Errorf("%d bytes are kept", used)
	}
	before := made
	get(t, v, "quiet", "a", sized(&made, 1<<10))
	get(t, v, "quiet", "b", sized(&made, 1<<10))
	get(t, v, "loud", strings.Repeat("x", 999), sized(&made, 3<<10))
	if made != before {
		t.Errorf("%d values were made again", made-before)
	}
	get(t, v, "another", strings.Repeat("x", 999), sized(&made, 3<<10))
	if made != before+1 {
		t.Error("a namespace has the value of another")
	}
	get(t, v, "another", "large", sized(&made, 100<<10))
	if used, _ := v.kept.Used(); used < 90<<10 {
		t.Error("a value that is too large drops others")
	}
	for i := range 500 {
		get(t, v, fmt.Sprint(i), "x", sized(&made, 1<<10))
	}
	if used, namespaces := v.kept.Used(); used > 100<<10 || namespaces > 100 {
		t.Errorf("%d bytes of %d namespaces are kept", used, namespaces)
	}
}

func TestTheValueUsedLastIsKept(t *testing.T) {
	v := New[int](4 * (entryBytes + 1))
	made := 0
	for _, text := range []string{"a", "b", "c", "d", "a", "e", "a"} {
		get(t, v, "ns", text, sized(&made, 0))
	}
	if made != 5 {
		t.Errorf("%d values were made, want 5", made)
	}
	get(t, v, "ns", "b", sized(&made, 0))
	if made != 6 {
		t.Error("the value that was not used for the longest time was kept")
	}
}

func TestANamespaceWaitsForItselfAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := New[int](1 << 20)
		end := make(chan struct{})
		made := 0
		slow := func(string) (int, int64) {
			<-end
			return sized(&made, 1)("")
		}
		var wait sync.WaitGroup
		for range 3 {
			wait.Go(func() { get(t, v, "loud", "slow", slow) })
		}
		synctest.Wait()
		other := 0
		get(t, v, "quiet", "a", sized(&other, 1))
		get(t, v, "quiet", "b", sized(&other, 1))

		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := v.Of(ctx, "loud", "other", sized(&made, 1)); !errors.Is(err, context.Canceled) {
			t.Errorf("a request that has ended yields %v", err)
		}
		close(end)
		wait.Wait()
		if made != 1 {
			t.Errorf("a text was worked on %d times", made)
		}
	})
}

func TestADefectKeepsNoPlace(t *testing.T) {
	v := New[int](1 << 20)
	func() {
		defer func() { _ = recover() }()
		_, _ = v.Of(t.Context(), "ns", "a", func(string) (int, int64) { panic("a defect") })
	}()
	made := 0
	get(t, v, "ns", "a", sized(&made, 1))
}
