package fairshare

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

type work struct{ namespace, name string }

func newQueue(workers int) *Queue[work] {
	return NewQueue(workers, func(w work) string { return w.namespace }, nil)
}

func TestAnItemOfAQuietNamespaceIsNotTheLastOfAll(t *testing.T) {
	q := newQueue(1)
	for i := range 1000 {
		q.Add(work{"loud", fmt.Sprint(i)})
	}
	q.Add(work{"quiet", "1"})
	for served := 1; ; served++ {
		item, _ := q.Get()
		q.Done(item)
		if item.namespace == "quiet" {
			if served > 2 {
				t.Errorf("the item of the quiet namespace is number %d", served)
			}
			return
		}
	}
}

func TestSlowItemsOfOneNamespaceLeaveWorkersToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(16)
		var mu sync.Mutex
		begun := map[string]int{}
		release := make(chan struct{})
		for range 16 {
			go func() {
				for {
					item, end := q.Get()
					if end {
						return
					}
					mu.Lock()
					begun[item.namespace]++
					mu.Unlock()
					<-release
					q.Done(item)
				}
			}()
		}
		for i := range 40 {
			q.Add(work{"slow", fmt.Sprint(i)})
		}
		synctest.Wait()
		q.Add(work{"other", "1"})
		synctest.Wait()
		mu.Lock()
		if begun["slow"] != 14 || begun["other"] != 1 {
			t.Errorf("in progress are %v, want 14 and 1", begun)
		}
		mu.Unlock()
		close(release)
		q.ShutDownWithDrain()
		if begun["slow"] != 40 || q.Len() != 0 {
			t.Errorf("%v were served in the end", begun)
		}
	})
}

func TestAnItemIsUnderWayOnceAtATimeAndNoneIsLost(t *testing.T) {
	const workers, items, rounds = 8, 50, 4000
	q := newQueue(workers)
	var mu sync.Mutex
	running, added, seen := map[work]bool{}, map[work]int{}, map[work]int{}
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			for {
				item, end := q.Get()
				if end {
					return
				}
				mu.Lock()
				if running[item] {
					t.Errorf("%v is in progress twice", item)
				}
				running[item] = true
				// What was added up to now is served by this.
				seen[item] = added[item]
				mu.Unlock()
				mu.Lock()
				delete(running, item)
				mu.Unlock()
				q.Done(item)
			}
		})
	}
	for range rounds {
		item := work{fmt.Sprint("ns", rand.IntN(5)), fmt.Sprint(rand.IntN(items))}
		mu.Lock()
		added[item]++
		mu.Unlock()
		q.Add(item)
	}
	q.ShutDownWithDrain()
	group.Wait()
	for item, n := range added {
		if seen[item] != n {
			t.Errorf("%v was added %d times, and last served after %d", item, n, seen[item])
		}
	}
	if len(q.lines) != 0 || len(q.dirty) != 0 || len(q.inProgress) != 0 {
		t.Errorf("left over: %v %v %v", q.lines, q.dirty, q.inProgress)
	}
	q.Add(work{"late", "1"})
	if !q.ShuttingDown() || q.Len() != 0 {
		t.Error("an item was taken after the end")
	}
}

func TestHowLongAnItemWasInLineIsObserved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		waits := map[string]time.Duration{}
		q := NewQueue(1, func(w work) string { return w.namespace }, func(namespace string, waited time.Duration) {
			waits[namespace] += waited
		})
		a, b := work{"a", "1"}, work{"b", "1"}
		q.Add(a)
		q.Add(b)
		// Of two new lines either may be the first.
		first, _ := q.Get()
		second := b
		if first == b {
			second = a
		}
		<-time.After(3 * time.Second)
		q.Add(first) // It comes again, and is in line only once it is done.
		<-time.After(time.Second)
		q.Done(first)
		q.Get()
		<-time.After(2 * time.Second)
		q.Done(second)
		q.Get()
		if once, twice := waits[second.namespace], waits[first.namespace]; once != 4*time.Second || twice != 2*time.Second {
			t.Errorf("%v waited %v, want 2s; %v waited %v, want 4s", first, twice, second, once)
		}
	})
}
