package turn

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/activity"
	"github.com/capstan-dev/capstan/internal/runtime/fairshare"
	"github.com/capstan-dev/capstan/internal/runtime/host"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
)

// memory is what this process remembers of a Turn between passes. It holds nothing that a new process could not find
// out by reading.
type memory struct {
	uid types.UID

	// written is the resourceVersion of our last write, behindSince when the cache was first seen to lag it.
	written     string
	behindSince time.Time
	// wroteAt is when we last wrote, for the spacing of progress writes.
	wroteAt time.Time
	// passes and writes are what the Turn has cost this process.
	passes, writes int
	// cleanedAt is when the deletion of the Jobs of a Turn that has ended was asked for.
	cleanedAt time.Time
	// orphanedAt is when the Turn was first seen without its Session.
	orphanedAt time.Time
	// stall is set while the Turn cannot go on because of its Session's journal, errors counts the passes in a row that
	// have failed.
	stall  *stall
	errors int

	step stepMemory
}

// stepMemory is the part of the memory that ends with a step.
type stepMemory struct {
	number int32
	// lookedUp reports whether the log was asked whether the step is closed.
	lookedUp bool
	// closed is the entry that closes the step, once known.
	closed *journal.Closed
	// planned is the bulk of the step's calls, by call id; nil while it is not needed.
	planned map[string]v1alpha1.PlannedCall
	// created is when this process made a Job, by name.
	created map[string]time.Time
	// shown are the names of the Jobs that the cache has had: one that it has no more is gone, and not on its way.
	shown map[string]bool
	// attempted are the names of the Jobs that this process has asked for. One whose answer was lost may exist, or come
	// to exist.
	attempted map[string]bool
	// opened are the pods whose gate this process took away.
	opened map[types.UID]bool
	// gatedSince is when the first gated pod that is not recorded was seen.
	gatedSince time.Time
	// outcomes are the ends of calls, by call id.
	outcomes map[string]tool.Outcome
	// unfenced are the calls, by id, of which this process has concluded that they were not executed while no pod was
	// recorded for them. That holds only as long as no other leader records one.
	unfenced map[string]bool
	// sources are the ToolResults that gave the results of client tools and the decisions, by call id.
	sources map[string]types.UID
	// settled are the results of client tools and the decisions that are in the log, by call id; nil until the log was
	// asked.
	settled map[string]journal.SettledRef
	// requests are the attempts of calls of HTTP tools that this process has begun, which write to the log one after
	// another, and kept the outcomes of those that the log has, by call id.
	requests map[activity.Key]*host.CallRun
	line     *host.Line
	kept     map[string]journal.SettledRef
	// gaveUp are the outcomes of AtMostOnce calls whose pod was told to go, by call id, should they prove not to have
	// started. A new process that does not know them ends the call the same way, and says less of why.
	gaveUp map[string]tool.Outcome
	// unstarted is, by call id, how many attempts of a Pure or Idempotent call this process knows not to have started.
	// A new process knows of none, and does not state that the call was not executed.
	unstarted map[string]int32
	// misread are the calls whose result was not found in the log of their container at the first reading, unread
	// counts by call id how often a log could not be read at all.
	misread map[string]bool
	unread  map[string]int
	// pauses are those of activities that have failed: one that cannot be carried out now holds up no other.
	pauses map[activity.Key]pause
	// unwritten is a response of the model that is not in the journal yet, share counts its bytes for the namespace,
	// and panics is how often the model call has panicked.
	unwritten *host.Unwritten
	share     *fairshare.Share
	panics    int
	// backoff is what the tries of a model call have come to that is due again later.
	backoff *host.Backoff
	// account is the wait for the ServiceAccount of tool pods, while the API server refuses it.
	account accountWait
	// keyRetry is when a call that has found no API key is due again, keyPause how long that took it.
	keyRetry time.Time
	keyPause time.Duration
	// stopping is when the deletion of the step's Jobs was asked for.
	stopping time.Time
}

// of returns the part for a step, emptied when the step is a new one.
func (m *memory) of(step int32) *stepMemory {
	if m.step.number != step || m.step.outcomes == nil {
		m.step.dropUnwritten()
		m.step = stepMemory{
			number:    step,
			created:   map[string]time.Time{},
			shown:     map[string]bool{},
			attempted: map[string]bool{},
			opened:    map[types.UID]bool{},
			outcomes:  map[string]tool.Outcome{},
			unfenced:  map[string]bool{},
			pauses:    map[activity.Key]pause{},
			gaveUp:    map[string]tool.Outcome{},
			unstarted: map[string]int32{},
			misread:   map[string]bool{},
			unread:    map[string]int{},
			sources:   map[string]types.UID{},
			requests:  map[activity.Key]*host.CallRun{},
			line:      &host.Line{},
			kept:      map[string]journal.SettledRef{},
		}
	}
	return &m.step
}

// forget drops what is known of the step.
func (m *memory) forget() {
	m.step.dropUnwritten()
	m.step = stepMemory{}
}

// dropUnwritten drops a response of the model that is in the journal, or was kept for as long as one may be.
func (m *stepMemory) dropUnwritten() {
	m.unwritten = nil
	m.share.Release()
	m.share = nil
}

// results is what is known of the calls of the step.
func (m *stepMemory) results() host.ActResults {
	return host.ActResults{Outcomes: m.outcomes, Settled: m.settled, Kept: m.kept, Sources: m.sources, Planned: m.planned}
}

// memories holds the memory of each Turn. A Turn is worked on by one worker at a time, so that only the map needs a
// lock.
type memories struct {
	mu    sync.Mutex
	byKey map[types.NamespacedName]*memory
}

// replaced returns the UID of the Turn that is remembered under a name where it is another one than that of the given
// UID; empty otherwise.
func (m *memories) replaced(key types.NamespacedName, uid types.UID) types.UID {
	m.mu.Lock()
	defer m.mu.Unlock()
	if found := m.byKey[key]; found != nil && found.uid != uid {
		return found.uid
	}
	return ""
}

// of returns the memory of a Turn, an empty one for a Turn not seen before. A Turn that was deleted and created again
// is a new one.
func (m *memories) of(key types.NamespacedName, uid types.UID) *memory {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.byKey == nil {
		m.byKey = map[types.NamespacedName]*memory{}
	}
	found := m.byKey[key]
	if found == nil || found.uid != uid {
		if found != nil {
			found.forget()
		}
		found = &memory{uid: uid}
		m.byKey[key] = found
	}
	return found
}

// forget drops the memory of a Turn and says which UIDs it was known by.
func (m *memories) forget(key types.NamespacedName) []types.UID {
	m.mu.Lock()
	defer m.mu.Unlock()
	found := m.byKey[key]
	if found == nil {
		return nil
	}
	found.forget()
	delete(m.byKey, key)
	return []types.UID{found.uid}
}
