package feed

import (
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// Limits bound the subscribers.
type Limits struct {
	// Total of all subscribers.
	Total int
	// PerNamespace, PerUser and PerSession bound those of one namespace, of one user and of one Session.
	PerNamespace, PerUser, PerSession int
}

// LimitsOf divides a total: a namespace gets half of it, a user and a Session a quarter each.
func LimitsOf(total int) Limits {
	return Limits{Total: total, PerNamespace: max(total/2, 1), PerUser: max(total/4, 1), PerSession: max(total/4, 1)}
}

// LimitError reports that there are too many subscribers.
type LimitError struct {
	// Of is what has too many: all, namespace, user or Session.
	Of string
	// Limit that was reached.
	Limit int
}

// Error implements error.
func (e *LimitError) Error() string {
	if e.Of == "" {
		return fmt.Sprintf("the manager serves %d event streams, which is its limit", e.Limit)
	}
	return fmt.Sprintf("the %s has %d event streams, which is the limit of one", e.Of, e.Limit)
}

// Total reports whether all subscribers together are too many, not those of the caller.
func (e *LimitError) Total() bool { return e.Of == "" }

// counts are the subscribers of each namespace, user and Session.
type counts struct {
	mu         sync.Mutex
	total      int
	namespaces map[string]int
	users      map[string]int
	sessions   map[types.UID]int
}

func newCounts() *counts {
	return &counts{namespaces: map[string]int{}, users: map[string]int{}, sessions: map[types.UID]int{}}
}

// add counts a subscriber. The error is a *LimitError.
func (c *counts) add(l Limits, namespace, user string, session types.UID) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.namespaces[namespace] >= l.PerNamespace:
		return &LimitError{"namespace", l.PerNamespace}
	case c.users[user] >= l.PerUser:
		return &LimitError{"user", l.PerUser}
	case c.sessions[session] >= l.PerSession:
		return &LimitError{"Session", l.PerSession}
	case c.total >= l.Total:
		return &LimitError{"", l.Total}
	}
	c.total++
	c.namespaces[namespace]++
	c.users[user]++
	c.sessions[session]++
	return nil
}

func (c *counts) remove(namespace, user string, session types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.total--
	decrease(c.namespaces, namespace)
	decrease(c.users, user)
	decrease(c.sessions, session)
}

func decrease[K comparable](counts map[K]int, key K) {
	counts[key]--
	if counts[key] == 0 {
		delete(counts, key)
	}
}
