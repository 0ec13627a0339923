package pacing

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/capstan-dev/capstan/internal/controller/wake"
	"github.com/capstan-dev/capstan/internal/runtime/fairshare"
)

// reconciles runs a controller with one worker in a bubble of fake time, until the test ends. It returns the source
// that wakes an object.
func reconciles(t *testing.T, pass reconcile.Func) *wake.Source {
	t.Helper()
	options := Options(1)
	options.Reconciler = pass
	options.SkipNameValidation = new(true)
	options.LogConstructor = func(*reconcile.Request) logr.Logger { return logr.Discard() }
	c, err := controller.NewUnmanaged("test", options)
	if err != nil {
		t.Fatal(err)
	}
	wakes := &wake.Source{}
	if err := c.Watch(wakes); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- c.Start(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	synctest.Wait()
	return wakes
}

// after is the result of a pass that requests another one.
func after(d time.Duration) ctrl.Result { return ctrl.Result{RequeueAfter: d} }

// passTime puts the time of the bubble forward, and runs everything that is due.
func passTime(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// A pass states its deadline anew: the one of an earlier pass has no meaning any more.
func TestADeadlineDoesNotOutliveTheNextPass(t *testing.T) {
	for name, test := range map[string]struct {
		// results are those of the passes, in order; after them a pass requests nothing.
		results []ctrl.Result
		// woken are the times at which an event wakes the object, passes those of all passes.
		woken, passes []time.Duration
	}{
		"none any more": {
			results: []ctrl.Result{after(2 * time.Minute)},
			woken:   []time.Duration{0, time.Second},
			passes:  []time.Duration{0, time.Second},
		},
		"a later one": {
			results: []ctrl.Result{after(2 * time.Minute), after(10 * time.Minute)},
			woken:   []time.Duration{0, time.Second},
			passes:  []time.Duration{0, time.Second, time.Second + 10*time.Minute},
		},
		"an earlier one": {
			results: []ctrl.Result{after(2 * time.Minute), after(time.Minute)},
			woken:   []time.Duration{0, time.Second},
			passes:  []time.Duration{0, time.Second, time.Second + time.Minute},
		},
		"no event": {
			results: []ctrl.Result{after(2 * time.Minute), after(time.Minute)},
			woken:   []time.Duration{0},
			passes:  []time.Duration{0, 2 * time.Minute, 3 * time.Minute},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				key := types.NamespacedName{Namespace: "ns", Name: "demo-1"}
				var passes []time.Duration
				began := time.Now()
				wakes := reconciles(t, func(context.Context, reconcile.Request) (ctrl.Result, error) {
					passes = append(passes, time.Since(began))
					if n := len(passes); n <= len(test.results) {
						return test.results[n-1], nil
					}
					return ctrl.Result{}, nil
				})
				for _, at := range test.woken {
					passTime(at - time.Since(began))
					wakes.Wake(key)
					synctest.Wait()
				}
				passTime(time.Hour)
				if len(passes) != len(test.passes) {
					t.Fatalf("passes at %v, want %v", passes, test.passes)
				}
				for i := range passes {
					if passes[i] != test.passes[i] {
						t.Errorf("passes at %v, want %v", passes, test.passes)
					}
				}
			})
		})
	}
}

func TestOfTheDeadlinesOfOnePassTheEarliestCounts(t *testing.T) {
	for name, pauses := range map[string][]time.Duration{
		"the later first":   {time.Hour, time.Minute},
		"the earlier first": {time.Minute, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				queue := Options(1).NewQueue("test", Backoff())
				defer queue.ShutDown()
				for _, pause := range pauses {
					queue.AddAfter(reconcile.Request{}, pause)
				}
				passTime(time.Minute - time.Millisecond)
				if queue.Len() != 0 {
					t.Error("the pass comes too early")
				}
				passTime(time.Millisecond)
				if queue.Len() != 1 {
					t.Error("the pass does not come in time")
				}
				item, _ := queue.Get()
				queue.Done(item)
				passTime(2 * time.Hour)
				if queue.Len() != 0 {
					t.Error("another pass comes")
				}
			})
		})
	}
}

func TestAQueueThatIsShutDownHasNoDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queue := newDeadlines(fairshare.NewQueue(1, func(string) string { return "" }, func(string, time.Duration) {}))
		queue.AddAfter("a", time.Minute)
		queue.ShutDown()
		queue.AddAfter("b", time.Minute)
		if len(queue.due) != 0 {
			t.Errorf("%d items are due", len(queue.due))
		}
		passTime(time.Hour)
		if _, shutdown := queue.Get(); !shutdown {
			t.Error("an item is due after the end")
		}
	})
}
