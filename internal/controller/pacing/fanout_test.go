package pacing

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// recorder counts the requests that a FanOut adds to a queue.
type recorder struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request]
	mu    sync.Mutex
	added []reconcile.Request
	down  bool
}

func (r *recorder) Add(item reconcile.Request) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.added = append(r.added, item)
}

func (r *recorder) ShuttingDown() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.down
}

func (r *recorder) shutDown() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.down = true
}

// take returns the requests that were added since the last call.
func (r *recorder) take() []reconcile.Request {
	r.mu.Lock()
	defer r.mu.Unlock()
	added := r.added
	r.added = nil
	return added
}

func requestsOf(namespace string, n int) []reconcile.Request {
	var requests []reconcile.Request
	for i := range n {
		requests = append(requests, reconcile.Request{
			NamespacedName: types.NamespacedName{Namespace: namespace, Name: fmt.Sprint(i)},
		})
	}
	return requests
}

// fans is the handler of a FanOut whose changes concern n objects each, of as many as all has for the namespace.
func fans(n int, all map[string]int) (*FanOut, handler.EventHandler) {
	f := NewFanOut(func(ctx context.Context, namespace string) []reconcile.Request {
		if ctx.Err() != nil {
			return nil
		}
		return requestsOf(namespace, all[namespace])
	})
	return f, f.Of(func(_ context.Context, o client.Object) []reconcile.Request {
		return requestsOf(o.GetNamespace(), n)
	})
}

func toolIn(namespace, name string) *v1alpha1.Tool {
	return &v1alpha1.Tool{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

func (r *recorder) update(t *testing.T, h handler.EventHandler, namespace string) {
	tool := toolIn(namespace, "a")
	// The context of an event ends with it.
	ctx, end := context.WithCancel(t.Context())
	defer end()
	h.Update(ctx, event.UpdateEvent{ObjectOld: tool, ObjectNew: tool}, r)
}

// A tenant that writes a Tool again and again does not buy a pass of each of its Sessions with each write.
func TestManyChangesCostABoundedNumberOfPasses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const sessions, seconds = 2000, 600
		_, h := fans(sessions, map[string]int{"loud": sessions})
		r := &recorder{}
		for range seconds * 5 {
			r.update(t, h, "loud")
			passTime(200 * time.Millisecond)
		}
		most := sessions + fanOutBurst + seconds*fanOutRate
		if got := len(r.take()); got > most || got < most/2 {
			t.Errorf("%d changes have enqueued %d passes, want at most %d", seconds*5, got, most)
		}
		// The last change is handled although no further one comes.
		passTime(time.Minute)
		if last := r.take(); !slices.Equal(last, requestsOf("loud", sessions)) {
			t.Errorf("at last %d objects were enqueued", len(last))
		}
		passTime(time.Hour)
		if late := r.take(); len(late) > 0 {
			t.Errorf("%d objects were enqueued without a change", len(late))
		}
	})
}

// To find out that a change concerns nothing takes time, too, and there is one handler for all namespaces.
func TestManyChangesThatConcernNothingAreLookedAtABoundedNumberOfTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const changes, seconds = 1000, 60
		looks := 0
		nothing := func(context.Context, client.Object) []reconcile.Request {
			looks++
			return nil
		}
		h := NewFanOut(func(ctx context.Context, _ string) []reconcile.Request { return nothing(ctx, nil) }).Of(nothing)
		r := &recorder{}
		for range changes * seconds {
			h.Create(t.Context(), event.CreateEvent{Object: toolIn("loud", "a")}, r)
			passTime(time.Second / changes)
		}
		if most := fanOutBurst + 1 + seconds*fanOutRate; looks > most || looks < most/4 {
			t.Errorf("of %d changes %d were looked at, want at most %d", changes*seconds, looks, most)
		}
	})
}

func TestAChangeOfAFewObjectsIsHandledAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, h := fans(1, map[string]int{"quiet": 150, "loud": 5000})
		r := &recorder{}
		for range fanOutBurst {
			r.update(t, h, "quiet")
		}
		if got := r.take(); len(got) != fanOutBurst || got[0] != requestsOf("quiet", 1)[0] {
			t.Errorf("%d objects were enqueued, the first is %v", len(got), got[0])
		}
		// Another namespace has a budget of its own.
		for range 10_000 {
			r.update(t, h, "loud")
		}
		r.take()
		passTime(2 * time.Second)
		r.update(t, h, "quiet")
		loud := func(q reconcile.Request) bool { return q.Namespace == "loud" }
		if got := slices.DeleteFunc(r.take(), loud); len(got) != 1 {
			t.Errorf("%d objects of a quiet namespace were enqueued", len(got))
		}
	})
}

// What a change concerns may depend on the version before it, and the change that waits may be one of those.
func TestNoChangeIsMissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		names := func(_ context.Context, o client.Object) []reconcile.Request {
			return []reconcile.Request{{NamespacedName: client.ObjectKeyFromObject(o)}}
		}
		all := func(_ context.Context, namespace string) []reconcile.Request { return requestsOf(namespace, 500) }
		h, r := NewFanOut(all).Of(names), &recorder{}
		h.Create(t.Context(), event.CreateEvent{Object: toolIn("ns", "created")}, r)
		h.Update(t.Context(), event.UpdateEvent{ObjectOld: toolIn("ns", "old"), ObjectNew: toolIn("ns", "new")}, r)
		h.Delete(t.Context(), event.DeleteEvent{Object: toolIn("ns", "deleted")}, r)
		h.Generic(t.Context(), event.GenericEvent{Object: toolIn("ns", "other")}, r)
		var got []string
		for _, request := range r.take() {
			got = append(got, request.Name)
		}
		if !slices.Equal(got, []string{"created", "old", "new", "deleted", "other"}) {
			t.Errorf("enqueued %v", got)
		}
		for range fanOutBurst {
			r.update(t, h, "ns")
		}
		r.take()
		h.Delete(t.Context(), event.DeleteEvent{Object: toolIn("ns", "late")}, r)
		if early := r.take(); len(early) > 0 {
			t.Errorf("enqueued %v before its time", early)
		}
		passTime(time.Second)
		if caught := r.take(); len(caught) != 500 {
			t.Errorf("%d objects were enqueued for the change that had to wait", len(caught))
		}
	})
}

func TestAQueueThatShutsDownGetsNothingMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, h := fans(500, map[string]int{"ns": 500})
		r := &recorder{}
		r.update(t, h, "ns")
		r.update(t, h, "ns")
		r.take()
		r.shutDown()
		passTime(time.Hour)
		if late := r.take(); len(late) > 0 {
			t.Errorf("%d objects were enqueued", len(late))
		}
	})
}

func TestNamespacesAtRestAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, h := fans(1, nil)
		r := &recorder{}
		for i := range 10 * keptNamespaces {
			r.update(t, h, fmt.Sprint("ns-", i))
			passTime(20 * time.Millisecond)
		}
		if len(f.namespaces) > keptNamespaces {
			t.Errorf("%d namespaces are kept", len(f.namespaces))
		}
	})
}
