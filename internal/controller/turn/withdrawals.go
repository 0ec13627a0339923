package turn

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// withdrawals withdraws Turns from Sessions, for each Session one after another: concurrent writes would conflict. A
// withdrawal is for all Turns that wait for it when it begins. The zero value is usable.
type withdrawals struct {
	mu   sync.Mutex
	last map[types.NamespacedName]*withdrawal
}

// withdrawal is one read and at most one write of a Session.
type withdrawal struct {
	begun bool
	done  chan struct{}

	// session is the Session as it was read; nil if it does not exist.
	session *v1alpha1.Session
	// excluded reports whether the admission of a Turn that waited and is not the active one fails.
	excluded bool
	err      error
}

// join returns a withdrawal from a Session that has begun after the call of join. If no other caller waits for one, it
// is carried out here, when the one before it has ended.
func (w *withdrawals) join(session types.NamespacedName, carryOut func(*withdrawal)) *withdrawal {
	w.mu.Lock()
	before := w.last[session]
	if before != nil && !before.begun {
		w.mu.Unlock()
		<-before.done
		return before
	}
	own := &withdrawal{done: make(chan struct{})}
	if w.last == nil {
		w.last = map[types.NamespacedName]*withdrawal{}
	}
	w.last[session] = own
	w.mu.Unlock()
	if before != nil {
		<-before.done
	}
	w.mu.Lock()
	own.begun = true
	w.mu.Unlock()
	defer w.end(session, own)
	carryOut(own)
	return own
}

// end ends a withdrawal.
func (w *withdrawals) end(session types.NamespacedName, own *withdrawal) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.last[session] == own {
		delete(w.last, session)
	}
	close(own.done)
}
