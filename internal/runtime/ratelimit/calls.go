package ratelimit

import (
	"context"
	"errors"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Tool is what a limit of tool calls is kept for: a Tool, or an MCPServer with all its tools.
type Tool struct {
	Namespace, Kind, Name string
	// UID of the object: one that was created anew begins anew.
	UID types.UID
}

// Limiter decides whether a tool call may start (RATE-01). It has no errors: a limiter that cannot decide lets the call
// pass.
type Limiter interface {
	// Allow counts one more call of a Tool within its limit per minute. If it has no room, the call is not allowed, does
	// not count, and should be repeated after a while.
	Allow(ctx context.Context, of Tool, perMinute int32) (allowed bool, retryAfter time.Duration)
}

// Counter counts calls. It may fail.
type Counter interface {
	// Take counts one more call, unless the limit has no room for it until a time from now.
	Take(ctx context.Context, of Tool, perMinute int32) (taken bool, retryAfter time.Duration, err error)
}

// Calls is a Limiter over a Counter.
type Calls struct {
	Counter Counter
	// OnFailure is called with the error of a Counter that failed. It may be nil.
	OnFailure func(ctx context.Context, of Tool, err error)
}

// Allow implements Limiter. A nil Calls allows everything.
func (c *Calls) Allow(ctx context.Context, of Tool, perMinute int32) (bool, time.Duration) {
	if c == nil || c.Counter == nil {
		return true, 0
	}
	taken, retryAfter, err := c.Counter.Take(ctx, of, perMinute)
	if err != nil {
		if c.OnFailure != nil {
			c.OnFailure(ctx, of, err)
		}
		return true, 0
	}
	return taken, retryAfter
}

// maxTools is the number of Tools of a namespace with calls in the last minute that a Memory counts. It takes 1 KiB for
// each.
const maxTools = 1 << 10

// ErrFull is why a Memory cannot count the calls of another Tool.
var ErrFull = errors.New("too many Tools of the namespace with a rate limit were called in the last minute")

// Memory is a Counter in the memory of this process. A namespace has room for a number of Tools of its own: a tenant
// that calls more cannot lift the limits of others.
type Memory struct {
	clock func() time.Time
	began time.Time

	mu         sync.Mutex
	namespaces map[string]*tools
	// pruned is when idle Tools were last forgotten in all namespaces.
	pruned time.Duration
}

// tools are the calls of the Tools of a namespace.
type tools struct {
	calls map[Tool]*window
	// pruned is when idle ones were last forgotten.
	pruned time.Duration
}

// NewMemory returns a Memory that has counted nothing yet. The clock should be monotonic, as time.Now is.
func NewMemory(clock func() time.Time) *Memory {
	return &Memory{clock: clock, began: clock(), namespaces: map[string]*tools{}}
}

// Take implements Counter.
func (m *Memory) Take(_ context.Context, of Tool, perMinute int32) (bool, time.Duration, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := max(m.clock().Sub(m.began), 0)
	m.prune(now)
	counted := m.namespaces[of.Namespace]
	if counted == nil {
		counted = &tools{calls: map[Tool]*window{}}
		m.namespaces[of.Namespace] = counted
	}
	calls := counted.calls[of]
	if calls == nil {
		if !counted.hasRoom(now) {
			return false, 0, ErrFull
		}
		calls = &window{}
		counted.calls[of] = calls
	}
	at, _ := calls.below(now, int64(max(perMinute, 1))-1)
	if at > now {
		return false, at - now, nil
	}
	calls.add(now, 1)
	return true, 0, nil
}

// prune forgets, at most once a minute, the Tools without calls in the last one, and namespaces without others.
func (m *Memory) prune(now time.Duration) {
	if now-m.pruned < minute {
		return
	}
	m.pruned = now
	for namespace, counted := range m.namespaces {
		counted.forget(now)
		if len(counted.calls) == 0 {
			delete(m.namespaces, namespace)
		}
	}
}

// hasRoom reports whether another Tool can be counted. It forgets idle ones for that, at most once a second.
func (t *tools) hasRoom(now time.Duration) bool {
	if len(t.calls) >= maxTools && now-t.pruned >= time.Second {
		t.pruned = now
		t.forget(now)
	}
	return len(t.calls) < maxTools
}

// forget forgets the Tools without calls in the last minute.
func (t *tools) forget(now time.Duration) {
	for of, calls := range t.calls {
		if calls.used(now) == 0 {
			delete(t.calls, of)
		}
	}
}
