package pacing

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
)

const (
	// minInterval and maxInterval bound the time between two checks of a state that is not watched.
	minInterval = 2 * time.Second
	maxInterval = 3 * time.Minute
	// namespaceInterval is the time between two checks in one namespace, however many of its objects wait.
	namespaceInterval = time.Second
	// intervalJitter keeps objects apart that began to wait together.
	intervalJitter = 0.2
)

// Rechecks paces the checks of state that is not watched. An object is checked again after half the time that it has
// waited, so that a quick repair is noticed quickly. The objects of one namespace together are checked once a second.
// The zero value is usable.
type Rechecks struct {
	mu      sync.Mutex
	waiting map[types.NamespacedName]waitStart
	count   map[string]int
}

// waitStart is the wait of an object: its subject, and its start.
type waitStart struct {
	subject string
	at      time.Time
}

// Next records that an object waits, and returns the time until its next check.
func (l *Rechecks) Next(key types.NamespacedName, what string, now time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.waiting == nil {
		l.waiting, l.count = map[types.NamespacedName]waitStart{}, map[string]int{}
	}
	began, known := l.waiting[key]
	if !known {
		l.count[key.Namespace]++
	}
	if began.subject != what {
		began = waitStart{subject: what, at: now}
		l.waiting[key] = began
	}
	pause := min(max(now.Sub(began.at)/2, minInterval), maxInterval)
	return wait.Jitter(max(pause, time.Duration(l.count[key.Namespace])*namespaceInterval), intervalJitter)
}

// End records that an object does not wait any more, or is gone.
func (l *Rechecks) End(key types.NamespacedName) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, known := l.waiting[key]; !known {
		return
	}
	delete(l.waiting, key)
	l.count[key.Namespace]--
	if l.count[key.Namespace] == 0 {
		delete(l.count, key.Namespace)
	}
}
