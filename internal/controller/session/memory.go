package session

import (
	"sync"

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
}

// see notes which object the name stands for. It gives the UID of an earlier one that was replaced.
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
	k.written = version
	m.byKey[key] = k
}

// written is the version of our last write; empty for none.
func (m *memory) written(key types.NamespacedName) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.byKey[key].written
}

// forget drops a Session and says which object the name stood for.
func (m *memory) forget(key types.NamespacedName) (types.UID, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k, ok := m.byKey[key]
	delete(m.byKey, key)
	return k.uid, ok
}
