package session

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// memory is what this process remembers of Sessions: which object a name stood for, and the version of our last write.
type memory struct {
	mu    sync.Mutex
	byKey map[types.NamespacedName]known
}

type known struct {
	uid     types.UID
	written string
	// whole reports whether the journal was found to be as long as the status says, looks counts the looks in a row
	// that found that it cannot be appended to.
	whole bool
	looks int
	// behindSince is when the cache was first seen to lag what was written; zero while it does not.
	behindSince time.Time
}

// see notes which object the name stands for. It returns the UID of an earlier one that was replaced.
func (m *memory) see(key types.NamespacedName, uid types.UID) (old types.UID, replaced bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.byKey == nil {
		m.byKey = map[types.NamespacedName]known{}
	}
	before, ok := m.byKey[key]
	if ok && before.uid == uid {
		return "", false
	}
	m.byKey[key] = known{uid: uid}
	return before.uid, ok
}

// wrote notes the version of our last write.
func (m *memory) wrote(key types.NamespacedName, version string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := m.byKey[key]
	k.written, k.behindSince = version, time.Time{}
	m.byKey[key] = k
}

// written is the version of our last write; empty for none.
func (m *memory) written(key types.NamespacedName) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.byKey[key].written
}

// behind notes that the cache lags what was written, and gives since when.
func (m *memory) behind(key types.NamespacedName, now time.Time) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := m.byKey[key]
	if k.behindSince.IsZero() {
		k.behindSince = now
		m.byKey[key] = k
	}
	return k.behindSince
}

// caughtUp notes that the cache shows what was written.
func (m *memory) caughtUp(key types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if k := m.byKey[key]; !k.behindSince.IsZero() {
		k.behindSince = time.Time{}
		m.byKey[key] = k
	}
}

// forget drops a Session and says which object the name stood for.
func (m *memory) forget(key types.NamespacedName) (types.UID, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k, ok := m.byKey[key]
	delete(m.byKey, key)
	return k.uid, ok
}

// looked counts the looks in a row at a journal that cannot be appended to.
func (m *memory) looked(key types.NamespacedName, obstructed bool) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	k, ok := m.byKey[key]
	if !ok {
		return 1
	}
	k.looks++
	if !obstructed {
		k.looks = 0
	}
	m.byKey[key] = k
	return k.looks
}

// check notes that the journal of a Session is as long as the status says.
func (m *memory) check(key types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if k, ok := m.byKey[key]; ok {
		k.whole = true
		m.byKey[key] = k
	}
}

// checked reports whether check was called.
func (m *memory) checked(key types.NamespacedName) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.byKey[key].whole
}
