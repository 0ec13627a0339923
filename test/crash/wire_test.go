package crash_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// fate is what happens to a request of the controllers.
type fate string

const (
	// pass lets the request through.
	pass fate = ""
	// refuse fails the request before the API server sees it.
	refuse fate = "refused"
	// lose lets the API server carry it out and loses the response.
	lose fate = "lost"
	// throttle answers 429 with Retry-After.
	throttle fate = "429"
	// forbid answers 403 in the words of a quota.
	forbid fate = "403"
	// quota answers so for a while, to every creation of the same resource.
	quota fate = "quota"
	// fail500 and fail504 answer so without effect, done500 and done504 with effect.
	fail500 fate = "500"
	fail504 fate = "504"
	done500 fate = "500-done"
	done504 fate = "504-done"
	// conflict lets another client change the object right before.
	conflict fate = "409"
	// hold keeps the request back and with it every later one of the namespace, until it is released. The process
	// learns nothing new meanwhile.
	hold fate = "hold"
	// holdAfter is hold, but this request is carried out first: its response is kept back.
	holdAfter fate = "hold-done"
	// stall keeps this request back, and no other, until it is released.
	stall fate = "stall"
	// stallAfter is stall, but the request is carried out first.
	stallAfter fate = "mark"
	// usurp is stall, and the pod of the process is deleted by force: another process takes over while this one runs.
	usurp fate = "usurped"
	// die fails this request before the API server sees it, and every later one of the namespace: for it, the process
	// is gone.
	die fate = "die"
	// dieAfter is die, but for this request: it is carried out, and its response is lost.
	dieAfter fate = "die-done"
	// chaos disturbs a fifth of all requests, at random, until enough have failed. The nth is the seed.
	chaos fate = "chaos"
)

// enough is how many requests of one run chaos disturbs at most, so that it comes to an end.
const enough = 30

// quotaPeriod is how long a quota is full.
const quotaPeriod = 2 * time.Second

// endsLead reports whether the process leads the namespace no longer.
func (f fate) endsLead() bool { return slices.Contains([]fate{hold, holdAfter, die, dieAfter}, f) }

// kind is what the requests of a namespace are counted by.
type kind int

const (
	writes kind = iota
	reads
)

// strike is the fate of the nth request of a kind, from 1. The zero value disturbs nothing.
type strike struct {
	kind kind
	nth  int
	fate fate
}

func (s strike) String() string {
	if s.fate == pass {
		return "undisturbed"
	}
	return fmt.Sprintf("%s%d:%s", []string{"w", "r"}[s.kind], s.nth, s.fate)
}

// strikesOf is how many strikes disturb something.
func strikesOf(strikes []strike) (n int) {
	for _, s := range strikes {
		if s.fate != pass {
			n++
		}
	}
	return n
}

// line is the connection of one kit's controllers to one namespace.
type line struct {
	strike strike
	count  [2]int
	seen   [2][]string
	// cut is closed once the strike has come, and isCut reports whether it has.
	cut   chan struct{}
	isCut bool
	// released is closed when requests that are held back may go on.
	released chan struct{}
	// refused is the only request that the strike hits, from its turn on; empty for whichever has its turn.
	refused string
	// full is the time until which the quota of resource is full.
	full     time.Time
	resource string
	// random is for chaos, and failed how many requests it has disturbed.
	random *rand.Rand
	failed int
	// inFlight is the number of requests in progress that are not held back.
	inFlight int
	last     time.Time

	// open reports whether watches show the namespace, and opening that they do not show its Turns yet.
	open, opening bool
	// dead reports whether the process is gone.
	dead    bool
	streams streamFault
	// bent carries requests instead of the connection; nil for none.
	bent func(next http.RoundTripper, r *http.Request, t target) (*http.Response, error)
	// disturbed counts the events that a fault of the streams has disturbed.
	disturbed int
}

// wire is the connection of one kit's controllers to the API server. It counts and disturbs their requests by
// namespace, and shows their watches only the namespaces that the kit leads, so that many runs share a kit.
type wire struct {
	// meddle changes an object as another client would.
	meddle func(ctx context.Context, resource, namespace, name string) error

	mu    sync.Mutex
	lines map[string]*line
	feeds map[string]*feed
}

func newWire() *wire {
	return &wire{lines: map[string]*line{}, feeds: map[string]*feed{}}
}

// of is the line of a namespace. The caller holds the lock.
func (w *wire) of(namespace string) *line {
	l := w.lines[namespace]
	if l == nil {
		l = &line{cut: make(chan struct{}), released: make(chan struct{}), last: time.Now()}
		w.lines[namespace] = l
	}
	return l
}

// arm begins to count the requests of a namespace, and disturbs one of them.
func (w *wire) arm(namespace string, s strike) {
	w.mu.Lock()
	defer w.mu.Unlock()
	l := w.of(namespace)
	if l.isCut {
		// The process was started again since.
		l.isCut, l.cut, l.released = false, make(chan struct{}), make(chan struct{})
	}
	l.dead, l.refused = false, ""
	l.strike, l.count, l.seen = s, [2]int{}, [2][]string{}
	l.random = chaotic(s.nth)
}

// refuseOnly lets the strike of a namespace hit no other request than this one, if any, as soon as its turn has come.
func (w *wire) refuseOnly(namespace, request string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.of(namespace).refused = request
}

// disarm ends the disturbance, releases the requests that are held back, and shows the namespace.
func (w *wire) disarm(namespace string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	l := w.of(namespace)
	l.strike, l.dead, l.streams = strike{}, false, streamFault{}
	l.goOn()
	w.show(namespace)
}

// kill ends the process as far as a namespace is concerned.
func (w *wire) kill(namespace string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	l := w.of(namespace)
	l.dead, l.open = true, false
}

// frozen is closed when a process that is held back goes on; nil for one that is not.
func (w *wire) frozen(namespace string) <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if l := w.of(namespace); l.isCut && (l.strike.fate == hold || l.strike.fate == holdAfter) {
		return l.released
	}
	return nil
}

// heldBack is closed when the requests of a namespace that are held back go on: all of them, or the one at which the
// process was usurped; nil if none is held back.
func (w *wire) heldBack(namespace string) <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	if l := w.of(namespace); l.isCut && slices.Contains([]fate{hold, holdAfter, usurp}, l.strike.fate) {
		return l.released
	}
	return nil
}

// release lets one request go on that was stalled.
func (w *wire) release(namespace string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.of(namespace).goOn()
}

// goOn releases the requests that are held back, unless that has been done: a leader that lost its Lease meanwhile
// leads in a new term. The line is not quiet from now on, although the requests have yet to notice.
func (l *line) goOn() {
	select {
	case <-l.released:
	default:
		close(l.released)
		l.last = time.Now()
	}
}

// counted are the requests of a kind so far.
func (w *wire) counted(namespace string, k kind) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.of(namespace).seen[k])
}

// cutOf is closed when the strike of a namespace has come.
func (w *wire) cutOf(namespace string) <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.of(namespace).cut
}

// struck reports whether the fault of a namespace has come.
func (w *wire) struck(namespace string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	l := w.of(namespace)
	return l.isCut || l.failed > 0 || l.disturbed > 0
}

// quiet reports whether no request was sent for a while, and none is in progress except those that are held back.
func (w *wire) quiet(namespace string, d time.Duration) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	l := w.of(namespace)
	return l.inFlight == 0 && time.Since(l.last) > d
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// wrap is for the Transport of a kit.
func (w *wire) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		if r.URL.Query().Get("watch") != "" {
			return w.watch(next, r)
		}
		t, ok := targetOf(r)
		if !ok {
			return next.RoundTrip(r)
		}
		w.begin(t.namespace, 1)
		defer w.begin(t.namespace, -1)
		return w.carry(w.through(next, t), r, t)
	})
}

// bend makes the requests of a namespace pass a function.
func (w *wire) bend(namespace string, by func(http.RoundTripper, *http.Request, target) (*http.Response, error)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.of(namespace).bent = by
}

func (w *wire) through(next http.RoundTripper, t target) http.RoundTripper {
	w.mu.Lock()
	defer w.mu.Unlock()
	bent := w.of(t.namespace).bent
	if bent == nil {
		return next
	}
	return roundTripper(func(r *http.Request) (*http.Response, error) { return bent(next, r, t) })
}

// carry does with a request what its fate is.
func (w *wire) carry(next http.RoundTripper, r *http.Request, t target) (*http.Response, error) {
	what, held := w.fateOf(r, t)
	switch what {
	case refuse, die:
		return refused()
	case lose, dieAfter:
		return loseResponse(next.RoundTrip(r))
	case throttle:
		return answer(r, http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests, "the server is busy", "1")
	case forbid, quota:
		return answer(r, http.StatusForbidden, metav1.StatusReasonForbidden, fmt.Sprintf(
			"%s %q is forbidden: exceeded quota: crash, requested: count/%s=1, used: count/%s=1, limited: count/%s=1",
			t.resource,
			t.name,
			t.resource,
			t.resource,
			t.resource,
		), "")
	case fail500:
		return answer(
			r,
			http.StatusInternalServerError,
			metav1.StatusReasonInternalError,
			"Internal error occurred: etcdserver: leader changed",
			"",
		)
	case fail504:
		return answer(
			r,
			http.StatusGatewayTimeout,
			metav1.StatusReasonTimeout,
			"Timeout: request did not complete within the allotted timeout",
			"",
		)
	case done500, done504:
		if _, err := loseResponse(next.RoundTrip(r)); err != nil && !isLost(err) {
			return nil, err
		}
		if what == done500 {
			return answer(
				r,
				http.StatusInternalServerError,
				metav1.StatusReasonInternalError,
				"Internal error occurred: context canceled",
				"",
			)
		}
		return answer(
			r,
			http.StatusGatewayTimeout,
			metav1.StatusReasonTimeout,
			"Timeout: request did not complete within the allotted timeout",
			"",
		)
	case conflict:
		if err := w.meddle(r.Context(), t.resource, t.namespace, t.name); err != nil {
			return nil, err
		}
		if bound, err := isBound(r); err != nil || !bound {
			// So an API server answers whose own tries have all come to nothing.
			return answer(
				r,
				http.StatusConflict,
				metav1.StatusReasonConflict,
				fmt.Sprintf("Operation cannot be fulfilled on %s %q: "+
					"the object has been modified; please apply your changes to the latest version and try again", t.resource, t.name),
				"",
			)
		}
	case hold, stall, usurp:
		if err := w.wait(r, t.namespace, held); err != nil {
			return nil, err
		}
	case holdAfter, stallAfter:
		response, err := next.RoundTrip(r)
		if waitErr := w.wait(r, t.namespace, held); waitErr != nil && err == nil {
			return loseResponse(response, nil)
		}
		return response, err
	case pass, chaos:
		// chaos has been turned into the fate of this very request.
	}
	return next.RoundTrip(r)
}

// wait keeps a request back until the channel is closed or its caller abandons it.
func (w *wire) wait(r *http.Request, namespace string, until <-chan struct{}) error {
	w.begin(namespace, -1)
	defer w.begin(namespace, 1)
	select {
	case <-until:
		return nil
	case <-r.Context().Done():
		return r.Context().Err()
	}
}

func (w *wire) begin(namespace string, n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	l := w.of(namespace)
	l.inFlight += n
	l.last = time.Now()
}

// fateOf counts a request and returns its fate, and for one that is held back, the channel that releases it.
func (w *wire) fateOf(r *http.Request, t target) (fate, <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	l := w.of(t.namespace)
	k := writes
	if r.Method == http.MethodGet {
		k = reads
	}
	switch {
	case l.dead:
		return die, nil
	case l.isCut && (l.strike.fate == hold || l.strike.fate == holdAfter):
		return hold, l.released
	case l.isCut && l.strike.fate == quota && r.Method == http.MethodPost && t.resource == l.resource && time.Now().Before(
		l.full,
	):
		return quota, nil
	}
	l.count[k]++
	l.seen[k] = append(l.seen[k], r.Method+" "+t.path)
	if l.strike.fate == chaos {
		return l.chaos(), nil
	}
	if l.isCut || l.strike.fate == pass || l.strike.kind != k || !l.due(r.Method+" "+t.path) {
		return pass, nil
	}
	l.isCut = true
	close(l.cut)
	switch l.strike.fate {
	case die, dieAfter:
		l.dead, l.open = true, false
	case hold, holdAfter:
		l.open = false
	case quota:
		l.full, l.resource = time.Now().Add(quotaPeriod), t.resource
	default:
	}
	return l.strike.fate, l.released
}

// due reports whether the strike hits the request that was counted last.
func (l *line) due(request string) bool {
	count := l.count[l.strike.kind]
	if l.refused != "" {
		return count >= l.strike.nth && request == l.refused
	}
	return count == l.strike.nth
}

func chaotic(seed int) *rand.Rand { return rand.New(rand.NewPCG(uint64(seed), 0)) }

// chaoticSeeds are seeds that disturb one of the first requests.
func chaoticSeeds(n, first int) []int {
	var seeds []int
	for seed := 1; len(seeds) < n; seed++ {
		l := &line{random: chaotic(seed)}
		for range first {
			l.chaos()
		}
		if l.failed > 0 {
			seeds = append(seeds, seed)
		}
	}
	return seeds
}

// chaos is the fate of a request while all is chaos.
func (l *line) chaos() fate {
	if l.failed == enough || l.random.IntN(5) > 0 {
		return pass
	}
	l.failed++
	fates := []fate{refuse, lose, fail500, done500, fail504, done504, throttle}
	return fates[l.random.IntN(len(fates))]
}
