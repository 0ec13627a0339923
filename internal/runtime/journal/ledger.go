package journal

import (
	"fmt"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// LimitedBy is which bound a journal has reached.
type LimitedBy string

const (
	// BySession is the limit of the Session itself.
	BySession LimitedBy = "Session"
	// ByManager is the manager's limit of every journal.
	ByManager LimitedBy = "Manager"
	// ByNamespace is the manager's limit of all journals of a namespace.
	ByNamespace LimitedBy = "Namespace"
)

// FullError is ErrFull with the bound that was reached.
type FullError struct {
	// By is the bound, Limit its bytes.
	By    LimitedBy
	Limit int64

	text string
}

// Error implements error.
func (e *FullError) Error() string { return e.text }

// Is reports whether the other error is ErrFull.
func (e *FullError) Is(other error) bool { return other == ErrFull }

// ledger has the sizes of the journals of each namespace.
type ledger struct {
	mu         sync.Mutex
	namespaces map[string]*namespaceBytes
	// forgotten are the last Sessions that are gone, oldest first: a read or an append that was in progress then must
	// not add their bytes again.
	forgotten []types.UID
}

// maxForgotten bounds the number of remembered Sessions that are gone. Operations that were in progress when a Session
// was deleted end long before as many others are deleted.
const maxForgotten = 4096

type namespaceBytes struct {
	total    int64
	sessions map[types.UID]int64
}

// set records the size of one journal.
func (l *ledger) set(s Session, bytes int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !slices.Contains(l.forgotten, s.UID) {
		l.put(s, bytes)
	}
}

// forget removes the journal of a Session that is gone. A UID is not used again.
func (l *ledger) forget(s Session) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.put(s, 0)
	if len(l.forgotten) == maxForgotten {
		l.forgotten = slices.Delete(l.forgotten, 0, maxForgotten/2)
	}
	l.forgotten = append(l.forgotten, s.UID)
}

func (l *ledger) put(s Session, bytes int64) {
	n := l.namespaces[s.Namespace]
	if n == nil {
		if bytes == 0 {
			return
		}
		if l.namespaces == nil {
			l.namespaces = map[string]*namespaceBytes{}
		}
		n = &namespaceBytes{sessions: map[types.UID]int64{}}
		l.namespaces[s.Namespace] = n
	}
	n.total += bytes - n.sessions[s.UID]
	n.sessions[s.UID] = bytes
	if bytes == 0 {
		delete(n.sessions, s.UID)
	}
	if len(n.sessions) == 0 {
		delete(l.namespaces, s.Namespace)
	}
}

// sizeOf returns the known size of one journal.
func (l *ledger) sizeOf(s Session) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := l.namespaces[s.Namespace]; n != nil {
		return n.sessions[s.UID]
	}
	return 0
}

// otherBytes returns the size of the other journals in the Session's namespace.
func (l *ledger) otherBytes(s Session) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.namespaces[s.Namespace]
	if n == nil {
		return 0
	}
	return n.total - n.sessions[s.UID]
}

// Measured reports the size of a Session's journal, from the Session's status, to the Log: the Log itself knows only
// the journals that it has read.
func (l *Log) Measured(s Session, bytes int64) {
	if bytes > l.ledger.sizeOf(s) {
		l.ledger.set(s, bytes)
	}
}

// bounded reports whether there is any bound for a journal.
func (l *Log) bounded(s Session) bool {
	return s.Limit > 0 || l.maxBytes > 0 || l.maxNamespaceBytes > 0
}

// room returns an error if a journal has no room for a number of further bytes.
func (l *Log) room(s Session, used, needed int64) error {
	full := func(by LimitedBy, limit int64) error {
		return &FullError{By: by, Limit: limit, text: fmt.Sprintf("the journal of Session %s/%s is full: it takes %d "+
			"bytes and needs %d more; the limit (%s) is %d",
			s.Namespace, s.Name, used, needed, by, limit)}
	}
	switch {
	case s.Limit > 0 && used+needed > s.Limit:
		return full(BySession, s.Limit)
	case l.maxBytes > 0 && used+needed > l.maxBytes:
		return full(ByManager, l.maxBytes)
	case l.maxNamespaceBytes > 0 && l.ledger.otherBytes(s)+used+needed > l.maxNamespaceBytes:
		return full(ByNamespace, l.maxNamespaceBytes)
	default:
		return nil
	}
}

// remember keeps the state of a Session in the cache, and the size of its journal.
func (l *Log) remember(s Session, st *state) {
	l.cache.putState(s.UID, st)
	l.ledger.set(s, st.bytes())
}
