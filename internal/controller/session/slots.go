package session

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// Slots bounds how many Turns are active at once, and shares the places between namespaces max-min fair: a free place goes to the waiting
// Session whose namespace holds the fewest, and of several to the one that has waited longest. It lives in memory: what is
// active is in the Sessions' status, and each process counts it anew.
type Slots struct {
	mu      sync.Mutex
	size    int
	held    map[types.UID]types.NamespacedName
	perNS   map[string]int
	waiting map[string][]waiter
	came    uint64
	wake    func(types.NamespacedName)
}

type waiter struct {
	uid types.UID
	key types.NamespacedName
	// since numbers the waiting in the order in which they came.
	since uint64
}

// NewSlots makes room for size active Turns, at least 1. wake is called, outside of any lock, with a Session that may try again.
func NewSlots(size int, wake func(session types.NamespacedName)) *Slots {
	return &Slots{
		size:    max(size, 1),
		held:    map[types.UID]types.NamespacedName{},
		perNS:   map[string]int{},
		waiting: map[string][]waiter{},
		wake:    wake,
	}
}

// Acquire takes a place for the Session, or puts it in line and reports false; it is woken when its turn has come. A Session that holds a
// place keeps it.
func (s *Slots) Acquire(uid types.UID, key types.NamespacedName) bool {
	got, next, more := s.acquire(uid, key)
	if more {
		s.wake(next.key)
	}
	return got
}

// acquire does what Acquire says, and names who may try next: a Session that stood back for this one would otherwise wait for ever.
func (s *Slots) acquire(uid types.UID, key types.NamespacedName) (got bool, next waiter, more bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.held[uid]; ok {
		return true, waiter{}, false
	}
	if len(s.held) < s.size && !s.anotherComesFirst(uid, key.Namespace) {
		s.unqueue(uid, key.Namespace)
		s.hold(uid, key)
		next, more = s.next()
		return true, next, more
	}
	s.enqueue(uid, key)
	next, more = s.next()
	return false, next, more
}

// Hold takes a place whether there is one or not: the Session's Turn is active already, admitted by an earlier process.
func (s *Slots) Hold(uid types.UID, key types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unqueue(uid, key.Namespace)
	s.hold(uid, key)
}

// Release gives the Session's place back, takes the Session out of the line, and wakes the Sessions that may have what is free.
func (s *Slots) Release(uid types.UID, key types.NamespacedName) {
	s.mu.Lock()
	s.unqueue(uid, key.Namespace)
	if _, ok := s.held[uid]; ok {
		delete(s.held, uid)
		s.perNS[key.Namespace]--
		if s.perNS[key.Namespace] == 0 {
			delete(s.perNS, key.Namespace)
		}
	}
	next, ok := s.next()
	s.mu.Unlock()
	if ok {
		s.wake(next.key)
	}
}

// Held is the number of places taken.
func (s *Slots) Held() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.held)
}

// Waiting is the number of Sessions in line.
func (s *Slots) Waiting() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, line := range s.waiting {
		n += len(line)
	}
	return n
}

// anotherComesFirst says that the first in line is somebody else whom the free place belongs to: one who waits goes before one who comes,
// unless the latter's namespace holds less. Otherwise a Session that gives its place back and asks again at once would have it for ever.
func (s *Slots) anotherComesFirst(uid types.UID, namespace string) bool {
	next, ok := s.next()
	if !ok || next.uid == uid {
		return false
	}
	return s.perNS[next.key.Namespace] <= s.perNS[namespace]
}

// next is the waiting Session that a free place belongs to: of the namespaces that hold the fewest, the one that has waited longest.
func (s *Slots) next() (waiter, bool) {
	if len(s.held) >= s.size {
		return waiter{}, false
	}
	var best waiter
	found := false
	for namespace, line := range s.waiting {
		first := line[0]
		held, least := s.perNS[namespace], s.perNS[best.key.Namespace]
		if !found || held < least || (held == least && first.since < best.since) {
			best, found = first, true
		}
	}
	return best, found
}

func (s *Slots) hold(uid types.UID, key types.NamespacedName) {
	if _, ok := s.held[uid]; ok {
		return
	}
	s.held[uid] = key
	s.perNS[key.Namespace]++
}

func (s *Slots) enqueue(uid types.UID, key types.NamespacedName) {
	for _, w := range s.waiting[key.Namespace] {
		if w.uid == uid {
			return
		}
	}
	s.came++
	s.waiting[key.Namespace] = append(s.waiting[key.Namespace], waiter{uid: uid, key: key, since: s.came})
}

func (s *Slots) unqueue(uid types.UID, namespace string) {
	line := s.waiting[namespace]
	for i, w := range line {
		if w.uid == uid {
			line = append(line[:i], line[i+1:]...)
			break
		}
	}
	if len(line) == 0 {
		delete(s.waiting, namespace)
		return
	}
	s.waiting[namespace] = line
}
