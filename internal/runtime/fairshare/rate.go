package fairshare

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Rate divides requests a second between namespaces. A namespace alone may use all of them but an eighth; while there
// are fewer than are wanted, namespaces take turns.
type Rate struct {
	all, each limit
	waited    Observer

	mu      sync.Mutex
	bucket  bucket
	tenants map[string]*caller
	// turn is how far the namespaces have come: who was idle begins here.
	turn  float64
	timer *time.Timer
}

// limit is how many requests a second, and how many at once.
type limit struct{ qps, burst float64 }

// bucket holds what may be used now.
type bucket struct {
	tokens float64
	at     time.Time
}

// caller is one namespace.
type caller struct {
	bucket bucket
	// turn is how far the namespace has come.
	turn  float64
	lines []chan struct{}
}

// prunedAbove is the number of namespaces above which idle ones are forgotten.
const prunedAbove = 1024

// NewRate returns a Rate of at least one request a second. waited is called with the waiting time of each request; it
// may be nil.
func NewRate(qps float64, burst int, waited Observer) *Rate {
	all := limit{max(qps, 1), max(float64(burst), 1)}
	each := limit{all.qps / 8 * 7, max(float64(Ceiling(int64(all.burst))), 1)}
	return &Rate{
		all: all, each: each, waited: waited, bucket: bucket{all.burst, time.Now()}, tenants: map[string]*caller{},
	}
}

// Wait waits until the namespace may make a request. When the context ends first, it may not.
func (r *Rate) Wait(ctx context.Context, namespace string) error {
	began := time.Now()
	r.mu.Lock()
	c := r.caller(namespace, began)
	granted := make(chan struct{})
	c.lines = append(c.lines, granted)
	r.serve(began)
	r.mu.Unlock()
	select {
	case <-granted:
	case <-ctx.Done():
		r.withdraw(namespace, granted)
		return ctx.Err()
	}
	if r.waited != nil {
		r.waited(namespace, time.Since(began))
	}
	return nil
}

func (r *Rate) caller(namespace string, now time.Time) *caller {
	c := r.tenants[namespace]
	if c == nil {
		if len(r.tenants) >= prunedAbove {
			r.prune(now)
		}
		c = &caller{bucket: bucket{r.each.burst, now}, turn: r.turn}
		r.tenants[namespace] = c
	}
	if len(c.lines) == 0 {
		c.turn = max(c.turn, r.turn)
	}
	return c
}

// prune forgets the namespaces that have been idle for long enough to have all their tokens back.
func (r *Rate) prune(now time.Time) {
	for namespace, c := range r.tenants {
		c.bucket.fill(r.each, now)
		if len(c.lines) == 0 && c.bucket.tokens >= r.each.burst {
			delete(r.tenants, namespace)
		}
	}
}

// serve lets requests go for as long as there are tokens, and sees to it that it is called again while one waits.
func (r *Rate) serve(now time.Time) {
	for {
		r.bucket.fill(r.all, now)
		next, wait := r.next(now)
		if next == nil {
			r.again(wait)
			return
		}
		granted := next.lines[0]
		next.lines = next.lines[1:]
		next.bucket.tokens--
		r.bucket.tokens--
		r.turn = next.turn
		next.turn++
		close(granted)
	}
}

// next is the namespace whose turn it is; nil for none, and then how long to wait for one, 0 if no request waits.
func (r *Rate) next(now time.Time) (next *caller, wait time.Duration) {
	for _, c := range r.tenants {
		if len(c.lines) == 0 {
			continue
		}
		c.bucket.fill(r.each, now)
		ready := max(r.bucket.until(r.all), c.bucket.until(r.each))
		switch {
		case ready > 0 && (wait == 0 || ready < wait):
			wait = ready
		case ready == 0 && (next == nil || c.turn < next.turn):
			next = c
		}
	}
	return next, wait
}

// again calls serve after a while.
func (r *Rate) again(wait time.Duration) {
	if r.timer != nil {
		r.timer.Stop()
		r.timer = nil
	}
	if wait > 0 {
		r.timer = time.AfterFunc(wait, func() {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.serve(time.Now())
		})
	}
}

// withdraw takes a request out of its line. One that was let go at the same moment has used its token.
func (r *Rate) withdraw(namespace string, granted chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.tenants[namespace]
	if c == nil {
		return
	}
	for i, other := range c.lines {
		if other == granted {
			c.lines = append(c.lines[:i:i], c.lines[i+1:]...)
			return
		}
	}
}

func (b *bucket) fill(l limit, now time.Time) {
	if passed := now.Sub(b.at); passed > 0 {
		b.tokens, b.at = min(b.tokens+passed.Seconds()*l.qps, l.burst), now
	}
}

// until is how long it takes until there is a token.
func (b *bucket) until(l limit) time.Duration {
	if b.tokens >= 1 {
		return 0
	}
	return max(time.Duration((1-b.tokens)/l.qps*float64(time.Second)), time.Microsecond)
}

// Transport lets requests to an API server go as the Rate allows. Watches, which last, and Leases, by which managers
// agree on who leads, pass at once.
func (r *Rate) Transport(next http.RoundTripper) http.RoundTripper {
	return transport{rate: r, next: next}
}

type transport struct {
	rate *Rate
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (t transport) RoundTrip(request *http.Request) (*http.Response, error) {
	if !passes(request) {
		if err := t.rate.Wait(request.Context(), namespaceOf(request.URL.Path)); err != nil {
			if request.Body != nil {
				_ = request.Body.Close()
			}
			return nil, err
		}
	}
	return t.next.RoundTrip(request)
}

// WrappedRoundTripper lets client-go find the transport below.
func (t transport) WrappedRoundTripper() http.RoundTripper { return t.next }

// passes reports whether a request needs no token.
func passes(request *http.Request) bool {
	if strings.HasPrefix(request.URL.Path, "/apis/coordination.k8s.io/") {
		return true
	}
	watch := request.URL.Query().Get("watch")
	return watch == "true" || watch == "1"
}

// namespaceOf is the namespace that a path of the API is about; empty for none.
func namespaceOf(path string) string {
	_, rest, found := strings.Cut(path, "/namespaces/")
	if !found {
		return ""
	}
	namespace, _, _ := strings.Cut(rest, "/")
	return namespace
}
