package fairshare

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// TurnsOptions are the limits of Turns.
type TurnsOptions struct {
	// Active is the most Turns that are active at once. A Turn that waits is not.
	Active int64
	// BegunPerNamespace is the most Turns of one namespace that have begun and not ended, those that wait included. One
	// that waits counts by its weight. 0 for no limit.
	BegunPerNamespace int64
	// Waited is called with the waiting time of each Turn for its slot. It may be nil.
	Waited Observer
}

// Turns decides which Sessions may have an active Turn. A Session has one Turn at a time, so that the Session's UID
// stands for it.
//
// The state is in memory: status has the begun Turns, and each process counts them before it decides anything.
type Turns struct {
	active, begun *Pool

	counting sync.Mutex
	counted  bool

	mu       sync.Mutex
	sessions map[types.UID]*entry
}

// entry is the state of a Session that holds or waits for places.
type entry struct {
	namespace string
	// begun is held by a Turn that has begun, active by one that does not wait, and heavy by one that waits and counts as
	// several.
	begun, active, heavy *Share
	// admitted reports whether the Turn may begin, or has begun.
	admitted bool
}

// Begun is a Turn that has begun, by status.
type Begun struct {
	Session   types.UID
	Namespace string
	// Waits marks a Turn that waits: it needs no place among the active ones.
	Waits bool
	// Weight is how many Turns it counts as while it waits; at least 1.
	Weight int64
}

// NewTurns makes Turns of at least one place.
func NewTurns(o TurnsOptions) *Turns {
	return &Turns{
		active:   NewPool(Options{Total: Amount{Places: max(o.Active, 1)}, Waited: o.Waited}),
		begun:    NewPool(Options{PerNamespace: Amount{Places: o.BegunPerNamespace}}),
		sessions: map[types.UID]*entry{},
	}
}

// Count counts the Turns that have begun according to status, once. Nothing may be admitted before it has succeeded.
func (t *Turns) Count(ctx context.Context, list func(context.Context) ([]Begun, error)) error {
	t.counting.Lock()
	defer t.counting.Unlock()
	if t.counted {
		return nil
	}
	all, err := list(ctx)
	if err != nil {
		return err
	}
	for _, one := range all {
		t.Adopt(one)
	}
	t.counted = true
	return nil
}

// Adopt adds a Turn that has begun according to status, even above the limits. A known Turn does not change: its own
// passes know better whether it waits.
func (t *Turns) Adopt(b Begun) {
	t.mu.Lock()
	old := t.sessions[b.Session]
	if old != nil && old.admitted {
		t.mu.Unlock()
		return
	}
	e := &entry{namespace: b.Namespace, admitted: true, begun: t.begun.Hold(b.Namespace, Amount{Places: 1})}
	if b.Waits {
		e.setWeight(t.begun, b.Weight)
	} else {
		e.active = t.active.Hold(b.Namespace, Amount{Places: 1})
	}
	t.sessions[b.Session] = e
	t.mu.Unlock()
	old.release()
}

// Begin reports whether the next Turn of a Session may begin. If not, the Session is in line, and wake is called when
// it has a place. It must not block.
func (t *Turns) Begin(session types.UID, namespace string, wake func()) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.sessions[session]
	if e == nil {
		e = &entry{namespace: namespace}
		t.sessions[session] = e
	}
	if e.begun == nil {
		e.begun = t.begun.requestPlace(namespace, false, wake)
	}
	if !e.begun.Held() {
		return false
	}
	if e.active == nil {
		e.active = t.active.requestPlace(namespace, false, wake)
	}
	if !e.active.Held() {
		return false
	}
	e.admitted = true
	e.setWeight(t.begun, 1)
	return true
}

// Reserve makes the next Turn of a Session count as one that has begun, and reports whether its namespace has room for
// it. The Turn of a sub-agent then never waits for the ceiling of its namespace, which Turns may have reached that wait
// for sub-agents.
func (t *Turns) Reserve(session types.UID, namespace string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.sessions[session] != nil {
		return true
	}
	begun := t.begun.requestPlace(namespace, false, func() {})
	if !begun.Held() {
		begun.Release()
		return false
	}
	t.sessions[session] = &entry{namespace: namespace, begun: begun}
	return true
}

// BeginReserved is Begin for a Turn that does not wait for the ceiling of its namespace.
func (t *Turns) BeginReserved(session types.UID, namespace string, wake func()) bool {
	t.mu.Lock()
	if e := t.sessions[session]; e == nil {
		t.sessions[session] = &entry{namespace: namespace, begun: t.begun.Hold(namespace, Amount{Places: 1})}
	}
	t.mu.Unlock()
	return t.Begin(session, namespace, wake)
}

// Limit is how many Turns of its namespace may have begun, where that keeps the next Turn of a Session from beginning;
// 0 where it does not.
func (t *Turns) Limit(session types.UID) int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.sessions[session]
	if e == nil || e.begun == nil || e.begun.Held() {
		return 0
	}
	return t.begun.Ceiling().Places
}

// Resume reports whether a Turn that has begun may start something. If it has waited, it is in line before those of its
// namespace that have not begun, and wake is called when it has a place. It must not block.
func (t *Turns) Resume(session types.UID, wake func()) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.sessions[session]
	if e == nil || !e.admitted {
		// The Session's own pass adds the Turn that has begun.
		return true
	}
	if e.active == nil {
		e.active = t.active.requestPlace(e.namespace, true, wake)
	}
	if !e.active.Held() {
		return false
	}
	e.setWeight(t.begun, 1)
	return true
}

// Wait releases the slot of a waiting Turn, which counts as so many Turns from now on.
func (t *Turns) Wait(session types.UID, weight int64) {
	t.mu.Lock()
	e := t.sessions[session]
	if e == nil || !e.admitted {
		t.mu.Unlock()
		return
	}
	active := e.active
	e.active = nil
	e.setWeight(t.begun, weight)
	t.mu.Unlock()
	active.Release()
}

// End releases everything that a Session holds, or removes it from the queue.
func (t *Turns) End(session types.UID) {
	t.mu.Lock()
	e := t.sessions[session]
	delete(t.sessions, session)
	t.mu.Unlock()
	e.release()
}

// Active is the number of active Turns, Waiting that of Turns that wait for a place or for the ceiling of their
// namespace.
func (t *Turns) Active() int { return int(t.active.Held().Places) }

// Waiting returns how many Turns wait for a place.
func (t *Turns) Waiting() int { return t.active.Waiting() + t.begun.Waiting() }

func (e *entry) release() {
	if e == nil {
		return
	}
	e.active.Release()
	e.heavy.Release()
	e.begun.Release()
}

// setWeight makes the Turn of a Session count as so many, over the ceiling of its namespace if need be.
func (e *entry) setWeight(begun *Pool, weight int64) {
	more := max(weight-1, 0)
	if e.heavy.Amount().Places == more {
		return
	}
	e.heavy.Release()
	e.heavy = nil
	if more > 0 {
		e.heavy = begun.Hold(e.namespace, Amount{Places: more})
	}
}

// requestPlace requests a place, which is always within the ceiling.
func (p *Pool) requestPlace(namespace string, goesOn bool, wake func()) *Share {
	s, err := p.Request(Request{Namespace: namespace, Amount: Amount{Places: 1}, Continues: goesOn, Ready: wake})
	if err != nil {
		panic("fairshare: a Pool without a single place: " + err.Error())
	}
	return s
}
