package ratelimit

import (
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// Source is what a limit of model calls is kept for: what a provider knows a caller by.
type Source struct {
	// Namespace of the Models.
	Namespace string
	Provider  v1alpha1.ModelProvider
	// Endpoint is the base URL of the API; empty for Models without a network.
	Endpoint string
	// Secret and Key name the credential. Both are empty for Models without one.
	Secret, Key string
	// Model is the name of a Model without an endpoint and without a credential, which shares its limit with no other.
	Model string
}

// Limit is the most that may be used in a minute; 0 for no limit.
type Limit struct{ Requests, Tokens int64 }

// Smallest returns the smaller of two limits, each part on its own.
func (l Limit) Smallest(other Limit) Limit {
	return Limit{smaller(l.Requests, other.Requests), smaller(l.Tokens, other.Tokens)}
}

func smaller(a, b int64) int64 {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// Models lets model calls pass that have room, and lets Turns wait for it in the order in which they came.
type Models struct {
	clock func() time.Time
	began time.Time

	mu      sync.Mutex
	sources map[Source]*source
	tickets map[types.UID]*Ticket
	// pruned is when idle sources were last forgotten.
	pruned time.Duration
}

// source is the use of one Source.
type source struct {
	limit            Limit
	requests, tokens window
	// calls and held are the calls that run, and the tokens that are reserved for them.
	calls int
	held  int64
	// queue are the Turns that wait, in order.
	queue []*Ticket
}

// NewModels returns limits under which nothing was used yet. The clock should be monotonic, as time.Now is.
func NewModels(clock func() time.Time) *Models {
	// No use was at time 0, which stands for an unknown time.
	return &Models{
		clock: clock, began: clock().Add(-minute), sources: map[Source]*source{}, tickets: map[types.UID]*Ticket{},
	}
}

// Reservation is the room that a running model call has. Its methods may be called on nil.
type Reservation struct {
	models *Models
	source Source
	once   sync.Once
	tokens int64
}

// Refusal is why a model call has no room now. Nothing was sent.
type Refusal struct {
	Source Source
	Limit  Limit
	// Tokens are those that the call reserves.
	Tokens int64
	// Until is when it is expected to have room; zero if that depends on calls that run.
	Until time.Time
}

// Error implements error.
func (r *Refusal) Error() string { return "the rate limit of the Model has no room for another call" }

// Ticket is the wait of a Turn for room. Its methods may be called on nil.
type Ticket struct {
	models *Models
	source Source
	turn   types.UID
	wake   func()
	tokens int64

	// The following fields are guarded by the lock of models.

	// admitted reports whether there is room, which is kept for the Turn until it calls, or withdraws.
	admitted bool
	// until is when the first Turn in line is expected to have room; zero for the others.
	until time.Duration
}

// Reserve reserves room for one call of a Turn: a request, and the most tokens that it may use. A call that may use
// more than the whole limit gets all of it. Without room it returns a Refusal, and the Turn should Wait. Under no Limit
// everything passes, and nothing is counted: it returns nil.
func (l *Models) Reserve(from Source, limit Limit, turn types.UID, tokens int64) (*Reservation, *Refusal) {
	if l == nil {
		return nil, nil
	}
	l.mu.Lock()
	if limit == (Limit{}) {
		woken := l.withdraw(l.tickets[turn])
		if s := l.sources[from]; s != nil {
			// Those in line wait for a limit that was removed.
			s.limit = limit
			woken = append(woken, s.review(l.now())...)
		}
		l.mu.Unlock()
		call(woken)
		return nil, nil
	}
	now := l.now()
	s := l.source(from, now)
	s.limit, tokens = limit, amountOf(limit, tokens)
	mine := l.tickets[turn]
	if mine != nil && mine.source == from && !mine.admitted || !s.fits(now, tokens, mine) {
		refusal := &Refusal{Source: from, Limit: limit, Tokens: tokens, Until: l.time(s.expected(now, tokens, mine))}
		l.mu.Unlock()
		return nil, refusal
	}
	// The call counts before the line is reviewed without its promise.
	s.requests.add(now, 1)
	s.calls, s.held = s.calls+1, s.held+tokens
	woken := l.withdraw(mine)
	l.mu.Unlock()
	call(woken)
	return &Reservation{models: l, source: from, tokens: tokens}, nil
}

// amountOf returns the tokens to reserve for a call under a limit.
func amountOf(limit Limit, tokens int64) int64 {
	if limit.Tokens == 0 {
		return 0
	}
	return min(max(tokens, 0), limit.Tokens)
}

// amount returns the tokens to promise to a Turn in line: the limit may be lower now than when it got in line.
func (s *source) amount(t *Ticket) int64 { return amountOf(s.limit, t.tokens) }

// Cancel removes a call that was not sent from the count.
func (r *Reservation) Cancel() {
	if r == nil {
		return
	}
	r.end(func(s *source, _ time.Duration) { s.requests.remove() })
}

// Settle replaces the tokens of a call that has ended by those that it has used; a negative number for unknown, which
// counts as all of them.
func (r *Reservation) Settle(used int64) {
	if r == nil {
		return
	}
	if used < 0 {
		used = r.tokens
	}
	r.end(func(s *source, now time.Duration) {
		if s.limit.Tokens > 0 {
			s.tokens.add(now, used)
		}
	})
}

// end ends a call, once.
func (r *Reservation) end(count func(*source, time.Duration)) {
	r.once.Do(func() {
		l := r.models
		l.mu.Lock()
		now := l.now()
		s := l.source(r.source, now)
		s.calls, s.held = s.calls-1, s.held-r.tokens
		count(s, now)
		woken := s.review(now)
		l.mu.Unlock()
		call(woken)
	})
}

// Wait puts a Turn in line after a Refusal. wake is called, without blocking, when the Turn has room, and when a time
// becomes known at which to check. A Turn waits once: it leaves another line.
func (l *Models) Wait(turn types.UID, r *Refusal, wake func()) *Ticket {
	l.mu.Lock()
	now := l.now()
	var woken []func()
	t := l.tickets[turn]
	if t == nil || t.source != r.Source {
		woken = l.withdraw(t)
		t = &Ticket{models: l, source: r.Source, turn: turn}
		l.tickets[turn] = t
		s := l.source(r.Source, now)
		s.queue = append(s.queue, t)
	}
	t.wake, t.tokens, t.admitted = wake, r.Tokens, false
	s := l.source(r.Source, now)
	s.limit = r.Limit
	woken = append(woken, s.review(now)...)
	l.mu.Unlock()
	call(woken)
	return t
}

// Check returns whether the Turn has room, and otherwise when to check again; zero if the Turn is woken instead.
func (t *Ticket) Check() (admitted bool, until time.Time) {
	if t == nil {
		return true, time.Time{}
	}
	l := t.models
	l.mu.Lock()
	now := l.now()
	woken := l.source(t.source, now).review(now)
	admitted = t.admitted
	if t.until > now {
		until = l.time(t.until)
	}
	l.mu.Unlock()
	call(woken)
	return admitted, until
}

// Withdraw ends the wait. Room that was kept for the Turn is there for others.
func (t *Ticket) Withdraw() {
	if t == nil {
		return
	}
	t.models.mu.Lock()
	var woken []func()
	if t.models.tickets[t.turn] == t {
		woken = t.models.withdraw(t)
	}
	t.models.mu.Unlock()
	call(woken)
}

// withdraw takes a ticket out of its line, and returns how to wake others. It may be nil. The lock is held.
func (l *Models) withdraw(t *Ticket) []func() {
	if t == nil {
		return nil
	}
	delete(l.tickets, t.turn)
	now := l.now()
	s := l.source(t.source, now)
	s.queue = slices.DeleteFunc(s.queue, func(other *Ticket) bool { return other == t })
	return s.review(now)
}

// fits reports whether a call has room now: besides those that run, and that of the Turns which were woken. mine is the
// ticket of its own Turn; nil for none.
func (s *source) fits(now time.Duration, tokens int64, mine *Ticket) bool {
	requests, promised := int64(0), int64(0)
	for _, t := range s.queue {
		switch {
		case t == mine:
		case t.admitted:
			requests, promised = requests+1, promised+s.amount(t)
		case mine == nil || !mine.admitted || mine.source != t.source:
			return false // It came first.
		}
	}
	return s.room(now, requests, tokens+promised)
}

// room reports whether so many requests more, and so many tokens, are within the limit.
func (s *source) room(now time.Duration, others, tokens int64) bool {
	if s.limit.Requests > 0 && s.requests.used(now)+others+1 > s.limit.Requests {
		return false
	}
	return s.limit.Tokens == 0 || s.tokens.used(now)+s.held+tokens <= s.limit.Tokens
}

// review keeps room for the Turns that have it now, in order, and returns how to wake them. The first that has none is
// woken as well when it becomes known when it will have room.
func (s *source) review(now time.Duration) (woken []func()) {
	requests, promised := int64(0), int64(0)
	for _, t := range s.queue {
		if t.admitted {
			requests, promised = requests+1, promised+s.amount(t)
		}
	}
	for i, t := range s.queue {
		if t.admitted {
			continue
		}
		if !s.room(now, requests, promised+s.amount(t)) {
			before := t.until
			if t.until = s.roomAt(now, requests, promised+s.amount(t)); t.until != 0 && (before == 0 || t.until < before) {
				woken = append(woken, t.wake)
			}
			// One of them was the first before this one got in line again.
			for _, behind := range s.queue[i+1:] {
				behind.until = 0
			}
			return woken
		}
		t.admitted, t.until = true, 0
		requests, promised = requests+1, promised+s.amount(t)
		woken = append(woken, t.wake)
	}
	return woken
}

// roomAt returns when there is room for requests and tokens besides what runs; 0 if that is not known.
func (s *source) roomAt(now time.Duration, others, tokens int64) time.Duration {
	at := now
	if s.limit.Requests > 0 {
		free, known := s.requests.below(now, s.limit.Requests-others-1)
		if !known {
			return 0
		}
		at = max(at, free)
	}
	if s.limit.Tokens > 0 {
		free, known := s.tokens.below(now, s.limit.Tokens-s.held-tokens)
		if !known {
			return 0
		}
		at = max(at, free)
	}
	return at
}

// expected returns when a call is expected to have room behind the Turns that wait; 0 if that is not known. mine is the
// ticket of its own Turn; nil for none.
func (s *source) expected(now time.Duration, tokens int64, mine *Ticket) time.Duration {
	requests, promised := int64(0), tokens
	for _, t := range s.queue {
		if t == mine {
			break
		}
		requests, promised = requests+1, promised+s.amount(t)
	}
	minutes := int64(0)
	if s.limit.Requests > 0 {
		minutes = requests / s.limit.Requests
	}
	if s.limit.Tokens > 0 && promised > 0 {
		minutes = max(minutes, (promised-1)/s.limit.Tokens)
	}
	if s.limit.Requests > 0 {
		requests = max(requests-minutes*s.limit.Requests, 0)
	}
	if s.limit.Tokens > 0 {
		promised = max(promised-minutes*s.limit.Tokens, 0)
	}
	at := s.roomAt(now, requests, promised)
	if at == 0 {
		return 0
	}
	return at + time.Duration(minutes)*minute
}

// source returns the use of a Source. The lock is held.
func (l *Models) source(of Source, now time.Duration) *source {
	s := l.sources[of]
	if s == nil {
		l.prune(now)
		s = &source{}
		l.sources[of] = s
	}
	return s
}

// prune forgets, at most once a minute, the sources without use in the last one.
func (l *Models) prune(now time.Duration) {
	if now-l.pruned < minute {
		return
	}
	l.pruned = now
	for of, s := range l.sources {
		if s.calls == 0 && len(s.queue) == 0 && s.requests.used(now) == 0 && s.tokens.used(now) == 0 {
			delete(l.sources, of)
		}
	}
}

// now is the time since the beginning, which does not jump with the clock of the machine.
func (l *Models) now() time.Duration { return max(l.clock().Sub(l.began), 0) }

// time is a time of the clock; zero for 0.
func (l *Models) time(at time.Duration) time.Time {
	if at == 0 {
		return time.Time{}
	}
	return l.began.Add(at)
}

func call(woken []func()) {
	for _, wake := range woken {
		if wake != nil {
			wake()
		}
	}
}
