// Package wake lets other parts of the manager add an object to a controller's work queue: after the end of an
// activity, or for a free slot.
package wake

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// Queue is a controller's work queue.
type Queue = workqueue.TypedRateLimitingInterface[reconcile.Request]

// Source is a source of a controller. Objects woken before the controller has started are kept until it has. Wake never
// blocks.
type Source struct {
	mu      sync.Mutex
	queue   Queue
	pending []types.NamespacedName
}

// Start implements source.Source.
func (s *Source) Start(_ context.Context, queue Queue) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue = queue
	for _, key := range s.pending {
		queue.Add(reconcile.Request{NamespacedName: key})
	}
	s.pending = nil
	return nil
}

// Wake adds the object to the queue.
func (s *Source) Wake(key types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.queue == nil {
		s.pending = append(s.pending, key)
		return
	}
	s.queue.Add(reconcile.Request{NamespacedName: key})
}
