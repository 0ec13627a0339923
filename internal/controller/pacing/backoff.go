// Package pacing orders the passes of the reconcilers, and bounds how fast, and how slowly, they are repeated.
package pacing

import (
	"time"

	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/capstan-dev/capstan/internal/controller/shares"
	"github.com/capstan-dev/capstan/internal/runtime/fairshare"
)

const (
	// ShortestBackoff is the pause before a pass that has failed is repeated for the first time. It doubles each time.
	ShortestBackoff = 5 * time.Millisecond
	// LongestBackoff bounds the pauses, so that work continues soon after an outage of the API server, however long it
	// was.
	LongestBackoff = 30 * time.Second
)

// Timeout is how long one pass may take until its context ends. Passes are short: model calls and tools run outside of
// them. A pass that does not heed its context makes the process unhealthy later, see watchdog.
const Timeout = 2 * time.Minute

// FewWorkers is the number of workers for kinds whose passes are short and rare.
const FewWorkers = 4

// Options returns the options of a controller with a number of workers, which namespaces share fairly.
func Options(workers int) controller.Options {
	return controller.Options{
		MaxConcurrentReconciles: workers,
		ReconciliationTimeout:   Timeout,
		RateLimiter:             Backoff(),
		NewQueue: func(name string,
			limiter workqueue.TypedRateLimiter[reconcile.Request],
		) workqueue.TypedRateLimitingInterface[reconcile.Request] {
			return newQueue(name, workers, limiter)
		},
	}
}

// newQueue returns a queue that serves namespaces fairly, and drops the deadlines of earlier passes.
func newQueue(
	name string, workers int, limiter workqueue.TypedRateLimiter[reconcile.Request],
) workqueue.TypedRateLimitingInterface[reconcile.Request] {
	fair := fairshare.NewQueue(workers, func(r reconcile.Request) string { return r.Namespace },
		shares.Waited(shares.Passes))
	return workqueue.NewTypedRateLimitingQueueWithConfig(limiter,
		workqueue.TypedRateLimitingQueueConfig[reconcile.Request]{Name: name, DelayingQueue: newDeadlines(fair)})
}

// Backoff returns the exponential backoff for passes that fail.
func Backoff() workqueue.TypedRateLimiter[reconcile.Request] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](ShortestBackoff, LongestBackoff)
}
