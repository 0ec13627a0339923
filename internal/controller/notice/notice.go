// Package notice records Events for situations that users have to act on or know about. It bounds the number of Events,
// because tenants decide how often their Turns wait and fail.
package notice

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/lru"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/capstan-dev/capstan/internal/runtime/condition"
)

const (
	// interval is the time during which an Event suppresses later ones with its reason about its object.
	interval = 10 * time.Minute
	// burst is the number of Events that a namespace may have at once, and pause the time until it may have one more.
	burst = 30
	pause = interval / burst
	// allBurst and allPause are the same for all namespaces together: each Event being sent has a goroutine.
	allBurst = 200
	allPause = 200 * time.Millisecond
	// maxSeen and maxNamespaces bound the memory. The oldest items are dropped first.
	maxSeen       = 8192
	maxNamespaces = 1024
)

// The values of label limit.
const (
	limitNamespace = "namespace"
	limitManager   = "manager"
)

// dropped counts Events that were not recorded. Label limit: namespace, manager. An Event that an earlier one with its
// reason suppresses is not counted.
var dropped = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "capstan_events_dropped_total",
	Help: "Events dropped because of a limit: that of their namespace or that of the manager.",
}, []string{"limit"})

func init() {
	metrics.Registry.MustRegister(dropped)
}

// Notice is the content of an Event.
type Notice struct {
	// Warning is set for failures.
	Warning bool
	// Reason in CamelCase, and the Action.
	Reason, Action string
	// Message for people, without texts of users, models and tools.
	Message string
}

// Recorder records Events. A nil Recorder records none. It is safe for concurrent use, and never waits.
type Recorder struct {
	sink events.EventRecorder
	now  func() time.Time

	mu         sync.Mutex
	seen       *lru.Cache
	namespaces *lru.Cache
	all        bucket
}

// key identifies the subject of an Event.
type key struct {
	uid    types.UID
	reason string
}

// NewRecorder returns a Recorder that passes Events on to another one.
func NewRecorder(sink events.EventRecorder, now func() time.Time) *Recorder {
	return &Recorder{
		sink: sink, now: now, seen: lru.New(maxSeen), namespaces: lru.New(maxNamespaces),
		all: bucket{tokens: allBurst, burst: allBurst, pause: allPause, at: now()},
	}
}

// Record records an Event about an object, unless one with the reason was recorded recently, or its namespace has too
// many. It records none about an object that is being deleted: its namespace may accept no more objects.
func (r *Recorder) Record(about client.Object, n Notice) {
	if r == nil || !about.GetDeletionTimestamp().IsZero() || !r.admits(about, n.Reason) {
		return
	}
	kind := corev1.EventTypeNormal
	if n.Warning {
		kind = corev1.EventTypeWarning
	}
	r.sink.Eventf(about, nil, kind, n.Reason, n.Action, "%s", condition.Cut(n.Message))
}

// admits reports whether an Event may be recorded, and counts it.
func (r *Recorder) admits(about client.Object, reason string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	now, k := r.now(), key{about.GetUID(), reason}
	if at, ok := r.seen.Get(k); ok && now.Before(at.(time.Time).Add(interval)) {
		return false
	}
	if !r.bucketFor(about.GetNamespace(), now).takeToken(now) {
		dropped.WithLabelValues(limitNamespace).Inc()
		return false
	}
	if !r.all.takeToken(now) {
		dropped.WithLabelValues(limitManager).Inc()
		return false
	}
	r.seen.Add(k, now)
	return true
}

// bucketFor is the bucket of a namespace.
func (r *Recorder) bucketFor(namespace string, now time.Time) *bucket {
	if b, ok := r.namespaces.Get(namespace); ok {
		return b.(*bucket)
	}
	b := &bucket{tokens: burst, burst: burst, pause: pause, at: now}
	r.namespaces.Add(namespace, b)
	return b
}

// bucket holds the number of Events that may be recorded now.
type bucket struct {
	tokens, burst int
	pause         time.Duration
	// at is when the last token came.
	at time.Time
}

// takeToken uses a token, if there is one.
func (b *bucket) takeToken(now time.Time) bool {
	if came := int(now.Sub(b.at) / b.pause); came > 0 {
		b.tokens, b.at = min(b.tokens+came, b.burst), b.at.Add(time.Duration(came)*b.pause)
	}
	if b.tokens == 0 {
		return false
	}
	b.tokens--
	return true
}
