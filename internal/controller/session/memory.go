package session

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
)

// memory is the in-memory state about Sessions: the UID of each name, and the version of the last own write.
type memory struct {
	mu    sync.Mutex
	byKey map[types.NamespacedName]known
}

type known struct {
	uid     types.UID
	written string
	// journalChecked reports whether the journal is known to be as long as in status.
	journalChecked bool
	// stall is the obstacle that the last pass has met in the journal.
	stall stall
	// admitted is the last admission by this process.
	admitted v1alpha1.ActiveTurn
	// ending is the last failure of the hooks at the end of a deleted Turn.
	ending ending
	// deletion is what this process knows about the deletion of the Session.
	deletion deletion
	// behindSince is when the cache was first found to lag the last own write; zero while it does not.
	behindSince time.Time
}

// stall is an obstacle in a journal.
type stall struct {
	// reason of the obstacle; empty without one.
	reason string
	// checks counts the checks that have found it, each after the pause that followed the one before.
	checks int
	// until is the time of the next check.
	until time.Time
}

// observe records the UID of a name. It returns the UID of an earlier object that was replaced.
func (m *memory) observe(key types.NamespacedName, uid types.UID) (old types.UID, replaced bool) {
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

// admit records an admission that this process is about to write; the zero value for none.
func (m *memory) admit(key types.NamespacedName, turn v1alpha1.ActiveTurn) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := m.byKey[key]
	k.admitted = turn
	m.byKey[key] = k
}

// hasAdmitted reports whether the admission that a Session shows is one by this process.
func (m *memory) hasAdmitted(key types.NamespacedName, uid types.UID, shown *v1alpha1.ActiveTurn) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := m.byKey[key]
	return k.uid == uid && shown != nil && k.admitted.UID == shown.UID && k.admitted.AdmittedAt.Equal(shown.AdmittedAt)
}

// recordWrite records the version of the last own write.
func (m *memory) recordWrite(key types.NamespacedName, version string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := m.byKey[key]
	k.written, k.behindSince = version, time.Time{}
	m.byKey[key] = k
}

// written returns the version of the last own write; empty for none.
func (m *memory) written(key types.NamespacedName) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.byKey[key].written
}

// behind records that the cache lags the last own write, and returns since when.
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

// caughtUp records that the cache shows the last own write.
func (m *memory) caughtUp(key types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if k := m.byKey[key]; !k.behindSince.IsZero() {
		k.behindSince = time.Time{}
		m.byKey[key] = k
	}
}

// forget drops a Session and returns its UID.
func (m *memory) forget(key types.NamespacedName) (types.UID, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k, ok := m.byKey[key]
	delete(m.byKey, key)
	return k.uid, ok
}

// stalled records that a pass has met an obstacle, and returns the time until the next check and whether the obstacle
// is new. A pass that comes before its time, because something else has changed, does not make the next pause longer.
func (m *memory) stalled(
	key types.NamespacedName, o *journal.Obstacle, now time.Time,
) (pause time.Duration, isNew bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k, ok := m.byKey[key]
	if k.stall.reason != o.Reason {
		k.stall, isNew = stall{reason: o.Reason}, true
	}
	if !now.Before(k.stall.until) {
		k.stall.checks++
		k.stall.until = now.Add(o.Pause(k.stall.checks))
	}
	if ok {
		m.byKey[key] = k
	}
	return k.stall.until.Sub(now), isNew
}

// goesOn records that a pass has met no obstacle.
func (m *memory) goesOn(key types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if k, ok := m.byKey[key]; ok {
		k.stall = stall{}
		m.byKey[key] = k
	}
}

// check records that the journal of a Session is as long as in status.
func (m *memory) check(key types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if k, ok := m.byKey[key]; ok {
		k.journalChecked = true
		m.byKey[key] = k
	}
}

// checked reports whether check was called.
func (m *memory) checked(key types.NamespacedName) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.byKey[key].journalChecked
}
