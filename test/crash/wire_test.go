package crash_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"time"
)

// fate is what happens to a request of the controllers.
type fate int

const (
	// pass lets the request through.
	pass fate = iota
	// refuse fails the request before the API server sees it.
	refuse
	// lose lets the API server carry it out and loses the answer.
	lose
	// hold keeps the request back until the wire is released, and with it every later one of the namespace.
	hold
	// holdAfter is hold, but this request is carried out first: only its answer is kept back.
	holdAfter
	// die fails this request before the API server sees it, and every later one of the namespace, for ever.
	die
	// dieAfter is die, but for this request: it is carried out, and nobody hears the answer.
	dieAfter
	// chaos refuses or loses a fifth of all requests, at random, until enough have failed. The nth is the seed.
	chaos
)

// enough is how many requests of one run chaos disturbs at most, so that it comes to an end.
const enough = 30

// kind is what the requests of a namespace are counted by.
type kind int

const (
	writes kind = iota
	reads
)

// fault says that the nth request of a kind, from 1, has the given fate. The zero value disturbs nothing.
type fault struct {
	kind kind
	nth  int
	fate fate
}

func (f fault) String() string {
	if f.nth == 0 {
		return "undisturbed"
	}
	what := []string{"write", "read"}[f.kind]
	how := []string{
		"pass", "refused", "carried out and its answer lost", "held back", "carried out and its answer held back",
		"the process dies before", "the process dies after", "chaos",
	}[f.fate]
	return fmt.Sprintf("%s %d %s", what, f.nth, how)
}

// line is the connection of one kit's controllers to one namespace.
type line struct {
	fault fault
	count [2]int
	seen  [2][]string
	// cut is set once the fault has come.
	cut bool
	// random is for chaos, and failed how many requests it has disturbed.
	random *rand.Rand
	failed int
}

// wire is the connection of one kit's controllers to the API server. It counts and disturbs their requests by namespace, so that many runs
// share a kit.
type wire struct {
	mu       sync.Mutex
	lines    map[string]*line
	dead     bool
	released chan struct{}
	frozen   chan struct{} // closed when watches may go on; nil when they may
	inFlight int
	last     time.Time
}

func newWire() *wire {
	return &wire{lines: map[string]*line{}, released: make(chan struct{})}
}

// arm begins to count the requests of a namespace, and disturbs one of them.
func (w *wire) arm(namespace string, f fault) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lines[namespace] = &line{fault: f, random: rand.New(rand.NewPCG(uint64(f.nth), 0))}
}

// counted are the requests of a kind so far.
func (w *wire) counted(namespace string, k kind) []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if l := w.lines[namespace]; l != nil {
		return append([]string{}, l.seen[k]...)
	}
	return nil
}

// isCut says that the fault of a namespace has come.
func (w *wire) isCut(namespace string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	l := w.lines[namespace]
	return l != nil && l.cut
}

// kill fails everything from now on: the process is gone.
func (w *wire) kill() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dead = true
}

// freeze stops all watches: a process that is paused learns nothing new.
func (w *wire) freeze() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.frozen = make(chan struct{})
}

// release lets the requests go on that were held back.
func (w *wire) release() {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.released)
	w.released = make(chan struct{})
	for _, l := range w.lines {
		l.fault = fault{}
	}
}

// thaw lets the watches go on.
func (w *wire) thaw() {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.frozen)
	w.frozen = nil
	w.last = time.Now()
}

// quiet says that nothing was asked of the API server for a while, and nothing is under way.
func (w *wire) quiet(d time.Duration) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.inFlight == 0 && time.Since(w.last) > d
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// wrap is for the Transport of a kit.
func (w *wire) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		if r.URL.Query().Get("watch") != "" {
			return w.watch(next, r)
		}
		w.begin()
		defer w.end()
		what, held := w.fateOf(r)
		switch what {
		case refuse, die:
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
		case lose, dieAfter:
			return loseAnswer(next.RoundTrip(r))
		case hold:
			if err := wait(r, held); err != nil {
				return nil, err
			}
		case holdAfter:
			response, err := next.RoundTrip(r)
			if waitErr := wait(r, held); waitErr != nil && err == nil {
				return loseAnswer(response, nil)
			}
			return response, err
		case pass, chaos:
			// chaos has been turned into what becomes of this very request.
		}
		return next.RoundTrip(r)
	})
}

func loseAnswer(response *http.Response, err error) (*http.Response, error) {
	if err != nil {
		return nil, err
	}
	_, _ = io.Copy(io.Discard, response.Body)
	_ = response.Body.Close()
	return nil, &net.OpError{Op: "read", Net: "tcp", Err: syscall.ETIMEDOUT}
}

// wait keeps a request back until the channel is closed or nobody waits for it any more.
func wait(r *http.Request, until <-chan struct{}) error {
	select {
	case <-until:
		return nil
	case <-r.Context().Done():
		return r.Context().Err()
	}
}

func (w *wire) begin() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.inFlight++
	w.last = time.Now()
}

func (w *wire) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.inFlight--
	w.last = time.Now()
}

// fateOf counts a request and says what becomes of it, and for one that is held back, until when.
func (w *wire) fateOf(r *http.Request) (fate, <-chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.dead {
		return refuse, nil
	}
	namespace, what, ok := target(r)
	l := w.lines[namespace]
	if !ok || l == nil {
		return pass, nil
	}
	k := writes
	if r.Method == http.MethodGet {
		k = reads
	}
	if l.cut {
		return afterwards(l.fault.fate), w.released
	}
	l.count[k]++
	l.seen[k] = append(l.seen[k], r.Method+" "+what)
	if l.fault.fate == chaos {
		return l.chaos(), nil
	}
	if l.fault.kind != k || l.fault.nth != l.count[k] {
		return pass, nil
	}
	l.cut = true
	return l.fault.fate, w.released
}

// chaos is the fate of a request while all is chaos.
func (l *line) chaos() fate {
	if l.failed == enough || l.random.IntN(5) > 0 {
		return pass
	}
	l.failed++
	return []fate{refuse, lose}[l.random.IntN(2)]
}

// afterwards is what becomes of the requests that follow the disturbed one.
func afterwards(f fate) fate {
	switch f {
	case die, dieAfter:
		return die
	case hold, holdAfter:
		return hold
	default:
		return pass
	}
}

// target is the namespace and the resource of a request, if it is one that a Turn is made of.
func target(r *http.Request) (namespace, what string, ok bool) {
	_, rest, ok := strings.Cut(r.URL.Path, "/namespaces/")
	if !ok {
		return "", "", false
	}
	parts := strings.Split(rest, "/")
	if len(parts) < 2 {
		return "", "", false
	}
	what = parts[1]
	if len(parts) > 3 {
		what += "/" + parts[3]
	}
	switch parts[1] {
	case "sessions", "turns", "journalentries", "jobs", "pods", "toolresults":
		return parts[0], what, true
	default:
		return "", "", false
	}
}

// watch opens a watch whose events stay away while the wire is frozen.
func (w *wire) watch(next http.RoundTripper, r *http.Request) (*http.Response, error) {
	w.mu.Lock()
	dead := w.dead
	w.mu.Unlock()
	if dead {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	}
	response, err := next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	response.Body = &freezingBody{ReadCloser: response.Body, wire: w, done: r.Context().Done()}
	return response, nil
}

type freezingBody struct {
	io.ReadCloser
	wire *wire
	done <-chan struct{}
}

// Read implements io.Reader. What was read while the wire froze waits as well.
func (b *freezingBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.wire.mu.Lock()
	frozen, dead := b.wire.frozen, b.wire.dead
	b.wire.mu.Unlock()
	if dead {
		return 0, io.ErrUnexpectedEOF
	}
	if frozen != nil {
		select {
		case <-frozen:
		case <-b.done:
		}
	}
	return n, err
}
