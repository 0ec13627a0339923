package fairshare

import (
	"context"
	"time"
)

// state is the state of a Share.
type state int

const (
	free state = iota
	waits
	holds
)

// Share is the amount that one request holds of a Pool, or waits for. Its methods may be called on a nil Share, which
// stands for work that no Pool bounds.
type Share struct {
	pool    *Pool
	request Request

	// The following is guarded by the Pool's lock.
	state  state
	number uint64
	since  time.Time
	// granted is closed when the Share is granted.
	granted chan struct{}
	// quiet suppresses Ready while the request is being made.
	quiet bool
	// passed is the amount that was granted to later requests while the namespace held nothing.
	passed float64
	// around is held by requests that were served while room was reserved for this one, each of which refers to it in
	// beside.
	around Amount
	beside *Share
}

// Held reports whether the Share is held.
func (s *Share) Held() bool {
	if s == nil {
		return true
	}
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	return s.state == holds
}

// Amount is the held amount; nothing while the Share waits or after its release.
func (s *Share) Amount() Amount {
	if s == nil {
		return Amount{}
	}
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	if s.state != holds {
		return Amount{}
	}
	return s.request.Amount
}

// Release releases the Share, or withdraws the request. It may be called more than once.
func (s *Share) Release() {
	if s == nil {
		return
	}
	p := s.pool
	p.mu.Lock()
	switch s.state {
	case free:
		p.mu.Unlock()
		return
	case waits:
		p.unqueue(s)
		p.forget(s.request.Namespace)
	case holds:
		p.reclaim(s, s.request.Amount)
	}
	s.state, s.beside = free, nil
	ready := p.serve()
	p.mu.Unlock()
	notify(ready)
}

// Shrink releases the part of the Share above an amount at once. So the slot of a model call is released while its
// response, which is not written yet, stays counted.
func (s *Share) Shrink(to Amount) {
	if s == nil {
		return
	}
	p := s.pool
	p.mu.Lock()
	if s.state != holds {
		p.mu.Unlock()
		return
	}
	part := s.request.Amount.minus(to.atLeastZero()).atLeastZero()
	s.request.Amount = s.request.Amount.minus(part)
	p.reclaim(s, part)
	ready := p.serve()
	p.mu.Unlock()
	notify(ready)
}

// Regain releases the Share and waits until it holds the amount, as the Share of a Turn that has begun. If the context
// ends first, or the amount is more than a namespace may hold, the Share holds nothing.
func (s *Share) Regain(ctx context.Context, amount Amount) error {
	if s == nil {
		return ctx.Err()
	}
	s.Release()
	amount = amount.atLeastZero()
	if !amount.within(s.pool.ceiling) {
		return &TooLargeError{Requested: amount, Ceiling: s.pool.ceiling}
	}
	s.pool.mu.Lock()
	s.request.Amount, s.request.Continues, s.request.Ready = amount, true, nil
	s.pool.mu.Unlock()
	s.pool.enqueue(s)
	return s.Wait(ctx)
}

// Wait waits until the Share is held. When the context ends first, the request is withdrawn.
func (s *Share) Wait(ctx context.Context) error {
	if s == nil {
		return ctx.Err()
	}
	s.pool.mu.Lock()
	granted := s.granted
	s.pool.mu.Unlock()
	select {
	case <-granted:
	case <-ctx.Done():
	}
	// Both may have happened at once.
	if err := ctx.Err(); err != nil {
		s.Release()
		return err
	}
	return nil
}

type contextKey struct{}

// NewContext is a context that carries the Share under which an activity runs.
func NewContext(ctx context.Context, s *Share) context.Context {
	return context.WithValue(ctx, contextKey{}, s)
}

// FromContext is the Share under which an activity runs; nil where no Pool bounds it.
func FromContext(ctx context.Context) *Share {
	s, _ := ctx.Value(contextKey{}).(*Share)
	return s
}
