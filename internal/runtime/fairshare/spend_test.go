package fairshare

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A namespace with large writes gets no more bytes than one with small writes.
func TestNamespacesShareBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := NewRate(8_000, 8_000, nil)
		ctx, cancel := context.WithCancel(t.Context())
		var mu sync.Mutex
		spent := map[string]int64{}
		spend := func(namespace string, bytes int64) {
			go func() {
				for r.Spend(ctx, namespace, bytes) == nil {
					mu.Lock()
					spent[namespace] += bytes
					mu.Unlock()
				}
			}()
		}
		reset := func() map[string]int64 {
			mu.Lock()
			defer mu.Unlock()
			before := spent
			spent = map[string]int64{}
			return before
		}
		for range 4 {
			spend("large", 900)
		}
		synctest.Wait()
		// The last write may use more than there is; the next one waits for it.
		if got := reset()["large"]; got < 7_000 || got > 7_900 {
			t.Errorf("a namespace alone writes %d of 8,000 bytes at once", got)
		}
		if err := r.Spend(ctx, "small", 100); err != nil {
			t.Fatal(err)
		}
		<-time.After(10 * time.Second)
		synctest.Wait()
		if got := reset()["large"]; got < 68_000 || got > 71_000 {
			t.Errorf("a namespace alone writes %d bytes in 10 s at 8,000 a second, want all but an eighth", got)
		}
		for range 4 {
			spend("small", 90)
		}
		<-time.After(10 * time.Second)
		synctest.Wait()
		got := reset()
		if large, small := got["large"], got["small"]; large < 36_000 || small < 36_000 || large+small > 89_000 {
			t.Errorf("two namespaces write %d and %d bytes in 10 s", large, small)
		}
		cancel()
		synctest.Wait()
		if err := r.Spend(ctx, "large", 1); !errors.Is(err, context.Canceled) {
			t.Errorf("spending under a context that has ended: %v", err)
		}
	})
}

func TestANilRateBoundsNoBytes(t *testing.T) {
	var r *Rate
	if err := r.Spend(t.Context(), "a", 1<<40); err != nil {
		t.Error(err)
	}
}
