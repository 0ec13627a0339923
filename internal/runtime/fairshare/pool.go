package fairshare

import (
	"math"
	"sync"
	"time"
)

// unlimited is the limit of a resource that a Pool does not bound. Sums of held amounts stay far below overflow.
const unlimited = math.MaxInt64 / 4

// Observer learns how long a request of a namespace waited. It is called outside of any lock.
type Observer func(namespace string, waited time.Duration)

// Request is a request for a Share of a Pool.
type Request struct {
	// Namespace that the Share counts for.
	Namespace string
	// Amount that is needed, all of it at once.
	Amount Amount
	// Continues marks a Turn that has begun: it comes before those of its namespace that have not.
	Continues bool
	// Ready is called once the Share is held, unless it was held when Ask returned. It is called outside of any lock
	// and must not block.
	Ready func()
}

// Options are the limits of a Pool.
type Options struct {
	// Total is the limit of each resource; 0 for a resource that is not bounded.
	Total Amount
	// PerNamespace is the most that one namespace may hold. Default: Ceiling of the total.
	PerNamespace Amount
	// Waited is called with the waiting time of each request for its Share. It may be nil.
	Waited Observer
}

// Pool divides places and bytes between namespaces.
type Pool struct {
	total, ceiling Amount
	waited         Observer

	mu        sync.Mutex
	used      Amount
	tenants   map[string]*tenant
	requested uint64
	waiting   int
}

// tenant is one namespace.
type tenant struct {
	held Amount
	// continuing and begin are the requests that wait, in the order of their arrival.
	continuing, beginning []*Share
}

// NewPool returns a Pool.
func NewPool(o Options) *Pool {
	bound := func(limit, otherwise int64) int64 {
		if limit > 0 {
			return limit
		}
		return otherwise
	}
	total := Amount{bound(o.Total.Places, unlimited), bound(o.Total.Bytes, unlimited)}
	ceiling := Amount{
		Places: min(bound(o.PerNamespace.Places, Ceiling(total.Places)), total.Places),
		Bytes:  min(bound(o.PerNamespace.Bytes, Ceiling(total.Bytes)), total.Bytes),
	}
	return &Pool{total: total, ceiling: ceiling, waited: o.Waited, tenants: map[string]*tenant{}}
}

// Ceiling is the most that one namespace may hold.
func (p *Pool) Ceiling() Amount { return p.ceiling }

// Held is the amount that all namespaces hold.
func (p *Pool) Held() Amount {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.used
}

// Waiting is the number of requests that wait.
func (p *Pool) Waiting() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.waiting
}

// Request requests a Share. It is held at once, or as soon as it is the request's turn; Release withdraws it. A request
// for more than a namespace may hold is refused with a TooLargeError.
func (p *Pool) Request(r Request) (*Share, error) {
	r.Amount = r.Amount.atLeastZero()
	if !r.Amount.within(p.ceiling) {
		return nil, &TooLargeError{Requested: r.Amount, Ceiling: p.ceiling}
	}
	s := &Share{pool: p, request: r}
	p.enqueue(s)
	return s, nil
}

// Hold takes a Share even without room: its work is in progress already.
func (p *Pool) Hold(namespace string, amount Amount) *Share {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := &Share{pool: p, request: Request{Namespace: namespace, Amount: amount.atLeastZero()}}
	p.grant(s)
	return s
}

// TryHold takes a Share if there is room for it that no request waits for; it returns nil otherwise.
func (p *Pool) TryHold(namespace string, amount Amount) *Share {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := &Share{pool: p, request: Request{Namespace: namespace, Amount: amount.atLeastZero()}}
	if p.waiting > 0 || !p.fits(p.tenant(namespace), s, nil) {
		p.forget(namespace)
		return nil
	}
	p.grant(s)
	return s
}

// enqueue queues a request and serves the queue.
func (p *Pool) enqueue(s *Share) {
	p.mu.Lock()
	p.requested++
	s.number, s.since, s.passed, s.state = p.requested, time.Now(), 0, waits
	s.granted, s.quiet = make(chan struct{}), true
	t := p.tenant(s.request.Namespace)
	if s.request.Continues {
		t.continuing = append(t.continuing, s)
	} else {
		t.beginning = append(t.beginning, s)
	}
	p.waiting++
	ready := p.serve()
	s.quiet = false
	p.mu.Unlock()
	notify(ready)
}

// serve grants Shares while a request can have one, and returns the callbacks to call after the lock is released.
func (p *Pool) serve() []func() {
	var after []func()
	for {
		s, due := p.next()
		if s == nil {
			return after
		}
		p.unqueue(s)
		p.countPassed(s)
		p.grant(s)
		close(s.granted)
		if due != nil && due != s {
			s.beside = due
			due.around = due.around.plus(s.request.Amount)
		}
		if p.waited != nil {
			took := time.Since(s.since)
			after = append(after, func() { p.waited(s.request.Namespace, took) })
		}
		if s.request.Ready != nil && !s.quiet {
			after = append(after, s.request.Ready)
		}
	}
}

// next is the request that is served next; nil if no request can be. due is the request with reserved room, if there is
// one.
//
// Of the namespaces that stay within their ceiling, the one that would hold the least comes first. A large request of a
// namespace that holds nothing would therefore always come after all small ones: once the amount of the whole Pool has
// been granted to later requests, room is reserved for it, and the others share the rest.
func (p *Pool) next() (next, due *Share) {
	for _, t := range p.tenants {
		s := t.first()
		if s == nil || s.passed < 1 || t.held != (Amount{}) {
			continue
		}
		if due == nil || s.number < due.number {
			due = s
		}
	}
	if due != nil && p.used.plus(due.request.Amount).within(p.total) {
		return due, nil
	}
	least := 0.0
	for _, t := range p.tenants {
		s := t.first()
		if s == nil || s == due || !p.fits(t, s, due) {
			continue
		}
		would := t.held.plus(s.request.Amount).largestFraction(p.total)
		if next == nil || would < least || (would == least && s.number < next.number) {
			next, least = s, would
		}
	}
	return next, due
}

// fits reports whether a request can be served now: within the ceiling of its namespace, the free amount, and the rest
// beside a request with reserved room.
func (p *Pool) fits(t *tenant, s, due *Share) bool {
	amount := s.request.Amount
	if !t.held.plus(amount).within(p.ceiling) || !p.used.plus(amount).within(p.total) {
		return false
	}
	return due == nil || due.around.plus(amount).within(p.total.minus(due.request.Amount))
}

// countPassed records, for the first request of each namespace that holds nothing, the amount that is granted to later
// requests.
func (p *Pool) countPassed(served *Share) {
	own := p.tenant(served.request.Namespace)
	for _, t := range p.tenants {
		if s := t.first(); t != own && s != nil && s.number < served.number && t.held == (Amount{}) {
			s.passed += served.request.Amount.largestFraction(p.total)
		}
	}
}

// grant counts a Share as held.
func (p *Pool) grant(s *Share) {
	t := p.tenant(s.request.Namespace)
	t.held = t.held.plus(s.request.Amount)
	p.used = p.used.plus(s.request.Amount)
	s.state = holds
}

// reclaim counts a part of a held Share as free.
func (p *Pool) reclaim(s *Share, part Amount) {
	t := p.tenant(s.request.Namespace)
	t.held = t.held.minus(part)
	p.used = p.used.minus(part)
	if s.beside != nil {
		s.beside.around = s.beside.around.minus(part)
	}
	p.forget(s.request.Namespace)
}

func (p *Pool) tenant(namespace string) *tenant {
	t := p.tenants[namespace]
	if t == nil {
		t = &tenant{}
		p.tenants[namespace] = t
	}
	return t
}

// forget drops a namespace that neither holds nor wants anything.
func (p *Pool) forget(namespace string) {
	if t := p.tenants[namespace]; t != nil && t.held == (Amount{}) && t.first() == nil {
		delete(p.tenants, namespace)
	}
}

// unqueue removes a request from its queue.
func (p *Pool) unqueue(s *Share) {
	t := p.tenant(s.request.Namespace)
	t.continuing, t.beginning = removeShare(t.continuing, s), removeShare(t.beginning, s)
	p.waiting--
}

// first is the request of the namespace that comes next; nil if none waits.
func (t *tenant) first() *Share {
	switch {
	case len(t.continuing) > 0:
		return t.continuing[0]
	case len(t.beginning) > 0:
		return t.beginning[0]
	default:
		return nil
	}
}

// removeShare removes a Share from a queue.
func removeShare(line []*Share, s *Share) []*Share {
	for i, other := range line {
		if other != s {
			continue
		}
		if len(line) == 1 {
			return nil
		}
		if i == 0 {
			line[0] = nil
			return line[1:]
		}
		copy(line[i:], line[i+1:])
		line[len(line)-1] = nil
		return line[:len(line)-1]
	}
	return line
}

func notify(ready []func()) {
	for _, call := range ready {
		call()
	}
}
