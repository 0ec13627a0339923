package pacing

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const (
	// fanOutBurst is how many objects of a namespace changes of others may enqueue at once, fanOutRate how many a
	// second from then on.
	fanOutBurst = 200
	fanOutRate  = 100
	// keptNamespaces is how many namespaces are kept before those that are at rest are forgotten.
	keptNamespaces = 1024
)

// FanOut makes event handlers for changes that may concern many objects of a namespace, as a change of a Tool concerns
// all Sessions that use it. One write of a tenant would otherwise cost the manager any number of passes. Changes that
// come faster than a namespace may enqueue objects are handled together, when it may again: they enqueue all objects
// that such changes can concern.
type FanOut struct {
	all func(ctx context.Context, namespace string) []reconcile.Request

	mu         sync.Mutex
	namespaces map[string]*spread
}

// spread is the rate at which a namespace has enqueued objects.
type spread struct {
	// level is the number of enqueued objects at the time at. A change that concerns none counts as one, because finding
	// that out takes time. The level falls by fanOutRate a second.
	level float64
	at    time.Time
	// end ends the pause of the namespace; nil without one. missed reports whether there were changes during the pause.
	end    *time.Timer
	missed bool
}

// NewFanOut returns a FanOut. all returns every object of a namespace that a change in it can concern.
func NewFanOut(all func(ctx context.Context, namespace string) []reconcile.Request) *FanOut {
	return &FanOut{all: all, namespaces: map[string]*spread{}}
}

// InNamespace returns a function for NewFanOut that lists the objects of a kind.
func InNamespace(
	reader client.Reader, kind client.ObjectList,
) func(ctx context.Context, namespace string) []reconcile.Request {
	return func(ctx context.Context, namespace string) []reconcile.Request {
		var requests []reconcile.Request
		list, ok := kind.DeepCopyObject().(client.ObjectList)
		if !ok {
			return nil
		}
		// Only names are read.
		err := reader.List(ctx, list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy)
		if err == nil {
			err = meta.EachListItem(list, func(item runtime.Object) error {
				object, err := meta.Accessor(item)
				if err == nil {
					key := types.NamespacedName{Namespace: namespace, Name: object.GetName()}
					requests = append(requests, reconcile.Request{NamespacedName: key})
				}
				return err
			})
		}
		if err != nil {
			log.FromContext(ctx).Error(err, "Failed to list the objects affected by a change", "namespace", namespace)
		}
		return requests
	}
}

// All returns a handler for changes that may concern every object of a namespace.
func (f *FanOut) All() handler.EventHandler {
	return f.Of(func(ctx context.Context, changed client.Object) []reconcile.Request {
		return f.all(ctx, changed.GetNamespace())
	})
}

// Of returns a handler for changes that concern the objects that of returns. Objects that only the version before the
// change concerns are enqueued as well.
func (f *FanOut) Of(of handler.MapFunc) handler.EventHandler {
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, queue queueOfRequests) {
			f.changed(ctx, queue, of, e.Object)
		},
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, queue queueOfRequests) {
			f.changed(ctx, queue, of, e.ObjectOld, e.ObjectNew)
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, queue queueOfRequests) {
			f.changed(ctx, queue, of, e.Object)
		},
		GenericFunc: func(ctx context.Context, e event.GenericEvent, queue queueOfRequests) {
			f.changed(ctx, queue, of, e.Object)
		},
	}
}

type queueOfRequests = workqueue.TypedRateLimitingInterface[reconcile.Request]

// changed enqueues the objects that a change concerns, now or when their namespace may enqueue objects again.
func (f *FanOut) changed(
	ctx context.Context, queue queueOfRequests, of handler.MapFunc, versions ...client.Object,
) {
	namespace := versions[0].GetNamespace()
	if f.waits(namespace) {
		return
	}
	seen := map[reconcile.Request]bool{}
	var requests []reconcile.Request
	for _, version := range versions {
		for _, request := range of(ctx, version) {
			if !seen[request] {
				seen[request] = true
				requests = append(requests, request)
			}
		}
	}
	f.enqueue(ctx, queue, namespace, requests)
}

// waits reports whether the changes in a namespace wait, and notes that there is one.
func (f *FanOut) waits(namespace string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	known := f.namespaces[namespace]
	if known == nil || known.end == nil {
		return false
	}
	known.missed = true
	return true
}

// enqueue adds objects of a namespace to the queue, and pauses the namespace after too many.
func (f *FanOut) enqueue(
	ctx context.Context, queue queueOfRequests, namespace string, requests []reconcile.Request,
) {
	for _, request := range requests {
		queue.Add(request)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	known := f.spreadOf(namespace)
	known.level += float64(max(1, len(requests)))
	if known.level > fanOutBurst && known.end == nil {
		ctx := context.WithoutCancel(ctx) // The context of an event ends when it was handled.
		pause := time.Duration((known.level - fanOutBurst) / fanOutRate * float64(time.Second))
		known.end = time.AfterFunc(pause, func() { f.resume(ctx, queue, namespace) })
	}
}

// resume ends the pause of a namespace, and handles the changes during the pause.
func (f *FanOut) resume(ctx context.Context, queue queueOfRequests, namespace string) {
	f.mu.Lock()
	known := f.namespaces[namespace]
	missed := known.missed
	known.end, known.missed = nil, false
	f.mu.Unlock()
	if missed && !queue.ShuttingDown() {
		f.enqueue(ctx, queue, namespace, f.all(ctx, namespace))
	}
}

// spreadOf returns the spread of a namespace.
func (f *FanOut) spreadOf(namespace string) *spread {
	now := time.Now()
	known := f.namespaces[namespace]
	if known == nil {
		f.pruneIdle(now)
		known = &spread{at: now}
		f.namespaces[namespace] = known
	}
	known.level = known.levelAt(now)
	known.at = now
	return known
}

func (s *spread) levelAt(now time.Time) float64 {
	return max(0, s.level-now.Sub(s.at).Seconds()*fanOutRate)
}

// pruneIdle drops the namespaces that have enqueued nothing for a while, once there are many.
func (f *FanOut) pruneIdle(now time.Time) {
	if len(f.namespaces) < keptNamespaces {
		return
	}
	for name, known := range f.namespaces {
		if known.end == nil && known.levelAt(now) == 0 {
			delete(f.namespaces, name)
		}
	}
}
