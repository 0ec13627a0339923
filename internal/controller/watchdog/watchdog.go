// Package watchdog detects reconcilers that hang: a process that holds the Lease and makes no progress must be
// replaced.
package watchdog

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Limit is how long one pass may take. It is longer than pacing.Timeout, at which a pass ends that heeds its context.
const Limit = 5 * time.Minute

// Watchdog tracks the running passes.
type Watchdog struct {
	clock func() time.Time

	mu    sync.Mutex
	count uint64
	under map[uint64]pass
}

type pass struct {
	what  string
	since time.Time
}

// New returns a watchdog that uses clock.
func New(clock func() time.Time) *Watchdog {
	return &Watchdog{clock: clock, under: map[uint64]pass{}}
}

// Watch returns a reconciler whose passes the watchdog tracks under the name kind.
func (w *Watchdog) Watch(kind string, r reconcile.Reconciler) reconcile.Reconciler {
	return watched{w, kind, r}
}

// Check is a liveness check: it fails when a pass has taken longer than Limit.
func (w *Watchdog) Check(*http.Request) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.under {
		if took := w.clock().Sub(p.since); took > Limit {
			return fmt.Errorf("the reconcile of %s has been running for %s", p.what, took.Round(time.Second))
		}
	}
	return nil
}

func (w *Watchdog) begin(what string) (end func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.count++
	number := w.count
	w.under[number] = pass{what, w.clock()}
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.under, number)
	}
}

type watched struct {
	watchdog *Watchdog
	kind     string
	next     reconcile.Reconciler
}

// Reconcile implements reconcile.Reconciler.
func (r watched) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	end := r.watchdog.begin(r.kind + " " + request.String())
	defer end()
	return r.next.Reconcile(ctx, request)
}
