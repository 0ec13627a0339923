package fairshare

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// Rate divides the requests per second between namespaces, or the bytes. A single namespace may use all but an eighth
// of them; while they are scarce, namespaces take turns.
type Rate struct {
	all, each limit
	waited    Observer

	mu      sync.Mutex
	bucket  bucket
	tenants map[string]*caller
	// turn is the progress of the namespaces: one that was idle begins here.
	turn  float64
	timer *time.Timer
}

// limit is how many requests a second, and how many at once.
type limit struct{ qps, burst float64 }

// bucket holds the tokens that may be used now.
type bucket struct {
	tokens float64
	at     time.Time
}

// caller is one namespace.
type caller struct {
	bucket bucket
	// turn is the progress of the namespace.
	turn  float64
	lines []*Ticket
}

// Ticket is a request of a namespace that is queued, or granted. Its methods may be called on a nil Ticket, which
// stands for a request that no Rate bounds.
type Ticket struct {
	rate      *Rate
	namespace string
	// weight is the number of tokens that it uses. It is granted when there is one, and those that are missing are
	// awaited by the next.
	weight  float64
	granted chan struct{}
	ready   func()
}

// prunedAbove is the number of namespaces above which idle ones are forgotten.
const prunedAbove = 1024

// NewRate returns a Rate of at least one request a second. waited is called with the waiting time of each request; it
// may be nil.
func NewRate(qps float64, burst int, waited Observer) *Rate {
	return newRate(limit{max(qps, 1), max(float64(burst), 1)}, waited)
}

func newRate(all limit, waited Observer) *Rate {
	each := limit{all.qps / 8 * 7, max(float64(Ceiling(int64(all.burst))), 1)}
	return &Rate{
		all: all, each: each, waited: waited, bucket: bucket{all.burst, time.Now()}, tenants: map[string]*caller{},
	}
}

// Tenth returns a Rate of a tenth of the requests, for those that can be left out.
func (r *Rate) Tenth() *Rate {
	return newRate(limit{r.all.qps / 10, max(r.all.burst/10, 1)}, nil)
}

// Wait waits until the namespace may make a request. When the context ends first, it may not.
func (r *Rate) Wait(ctx context.Context, namespace string) error {
	return r.wait(ctx, namespace, 1)
}

// Spend waits until the namespace may use so many tokens, at least one. When the context ends first, it may not. A nil
// Rate bounds nothing.
func (r *Rate) Spend(ctx context.Context, namespace string, tokens int64) error {
	if r == nil {
		return ctx.Err()
	}
	return r.wait(ctx, namespace, max(float64(tokens), 1))
}

func (r *Rate) wait(ctx context.Context, namespace string, weight float64) error {
	began := time.Now()
	ticket := r.request(namespace, weight, nil)
	select {
	case <-ticket.granted:
	case <-ctx.Done():
		ticket.Withdraw()
		return ctx.Err()
	}
	if r.waited != nil {
		r.waited(namespace, time.Since(began))
	}
	return nil
}

// Request puts a request of the namespace in line. If it may not be made at once, ready is called when it may; it may
// be nil and must not block. A nil Rate bounds nothing.
func (r *Rate) Request(namespace string, ready func()) *Ticket {
	if r == nil {
		return nil
	}
	return r.request(namespace, 1, ready)
}

func (r *Rate) request(namespace string, weight float64, ready func()) *Ticket {
	ticket := &Ticket{rate: r, namespace: namespace, weight: weight, granted: make(chan struct{})}
	now := time.Now()
	r.mu.Lock()
	c := r.caller(namespace, now)
	c.lines = append(c.lines, ticket)
	granted := r.serve(now)
	if !ticket.Granted() {
		ticket.ready = ready
	}
	r.mu.Unlock()
	notifyGranted(granted)
	return ticket
}

// Granted reports whether the request may be made.
func (t *Ticket) Granted() bool {
	if t == nil {
		return true
	}
	select {
	case <-t.granted:
		return true
	default:
		return false
	}
}

// Withdraw takes the request out of its line. A request that was already granted has used its token.
func (t *Ticket) Withdraw() {
	if t == nil {
		return
	}
	r := t.rate
	r.mu.Lock()
	defer r.mu.Unlock()
	if c := r.tenants[t.namespace]; c != nil {
		c.lines = slices.DeleteFunc(c.lines, func(other *Ticket) bool { return other == t })
	}
}

// notifyGranted calls the callbacks of granted Tickets.
func notifyGranted(granted []*Ticket) {
	for _, ticket := range granted {
		if ticket.ready != nil {
			ticket.ready()
		}
	}
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

// serve grants requests while there are tokens, and schedules the next call while one waits. It returns the granted
// requests.
func (r *Rate) serve(now time.Time) (granted []*Ticket) {
	for {
		r.bucket.fill(r.all, now)
		next, wait := r.next(now)
		if next == nil {
			r.serveAfter(wait)
			return granted
		}
		ticket := next.lines[0]
		next.lines = next.lines[1:]
		next.bucket.tokens -= ticket.weight
		r.bucket.tokens -= ticket.weight
		r.turn = next.turn
		next.turn += ticket.weight
		close(ticket.granted)
		granted = append(granted, ticket)
	}
}

// next is the namespace whose turn it is; nil for none, and then how long to wait for one, 0 if no request waits.
func (r *Rate) next(now time.Time) (next *caller, wait time.Duration) {
	for _, c := range r.tenants {
		if len(c.lines) == 0 {
			continue
		}
		c.bucket.fill(r.each, now)
		ready := max(r.bucket.untilToken(r.all), c.bucket.untilToken(r.each))
		switch {
		case ready > 0 && (wait == 0 || ready < wait):
			wait = ready
		case ready == 0 && (next == nil || c.turn < next.turn):
			next = c
		}
	}
	return next, wait
}

// serveAfter calls serve after a while.
func (r *Rate) serveAfter(wait time.Duration) {
	if r.timer != nil {
		r.timer.Stop()
		r.timer = nil
	}
	if wait > 0 {
		r.timer = time.AfterFunc(wait, func() {
			r.mu.Lock()
			granted := r.serve(time.Now())
			r.mu.Unlock()
			notifyGranted(granted)
		})
	}
}

func (b *bucket) fill(l limit, now time.Time) {
	if passed := now.Sub(b.at); passed > 0 {
		b.tokens, b.at = min(b.tokens+passed.Seconds()*l.qps, l.burst), now
	}
}

// untilToken is how long it takes until there is a token.
func (b *bucket) untilToken(l limit) time.Duration {
	if b.tokens >= 1 {
		return 0
	}
	return max(time.Duration((1-b.tokens)/l.qps*float64(time.Second)), time.Microsecond)
}

// Transport sends requests to an API server as the Rate allows. Watches, which last, and Leases, by which managers
// elect a leader, pass at once.
func (r *Rate) Transport(next http.RoundTripper) http.RoundTripper {
	return transport{rate: r, next: next}
}

type transport struct {
	rate *Rate
	next http.RoundTripper
}

// chargedKey is the key of the namespace in a context.
type chargedKey struct{}

// ChargeTo returns a context whose requests count for a namespace, not for the one that they are about.
func ChargeTo(ctx context.Context, namespace string) context.Context {
	return context.WithValue(ctx, chargedKey{}, namespace)
}

// Charged returns the namespace of ChargeTo; empty without one.
func Charged(ctx context.Context) string {
	namespace, _ := ctx.Value(chargedKey{}).(string)
	return namespace
}

// RoundTrip implements http.RoundTripper.
func (t transport) RoundTrip(request *http.Request) (*http.Response, error) {
	if !passes(request) {
		namespace := Charged(request.Context())
		if namespace == "" {
			namespace = namespaceOf(request.URL.Path)
		}
		if err := t.rate.Wait(request.Context(), namespace); err != nil {
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
