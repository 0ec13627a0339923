package turn

import (
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller/executor"
	"github.com/capstan-dev/capstan/internal/runtime/fairshare"
	"github.com/capstan-dev/capstan/internal/runtime/host"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
)

// memory is the in-memory state of a Turn between passes. A new process can find out all of it by reading.
type memory struct {
	uid types.UID

	// written is the resourceVersion of the last own write, behindSince when the cache was first found to lag it.
	written     string
	behindSince time.Time
	// wroteAt is the time of the last own write, for the spacing of progress writes.
	wroteAt time.Time
	// passes and writes count the work of this process for the Turn.
	passes, writes int
	// cleanedAt is when the deletion of an ended Turn's Jobs was requested.
	cleanedAt time.Time
	// taken reports whether an event has shown a message that went into the Turn. It may have been another process that
	// took it, so that the journal is looked up again.
	taken atomic.Bool
	// orphanedAt is when the Turn was first found without its Session.
	orphanedAt time.Time
	// stall is set while the Turn cannot continue because of its Session's journal; errors counts consecutive failed
	// passes.
	stall  *stall
	errors int

	step stepMemory
}

// stepMemory is the part of the memory that ends with a step.
type stepMemory struct {
	number int32
	// lookedUp reports whether the journal was checked for an entry that closes the step, after the last model call that
	// may have appended one.
	lookedUp bool
	// closed is the entry that closes the step, once known.
	closed *journal.Closed
	// planned holds the large fields of the step's calls, by call id; nil while they are not needed.
	planned map[string]journal.PlannedCall
	// created is when this process created a Job, by name.
	created map[string]time.Time
	// shown are the names of the Jobs that the cache has had: such a Job that is missing now is gone, and not still
	// being created.
	shown map[string]bool
	// attempted are the names of the Jobs that this process has requested. If the API server's response was lost, the
	// Job may exist, or appear later.
	attempted map[string]bool
	// intended are the attempts, by call id, that this process has written to status: no earlier process has requested
	// their Jobs.
	intended map[string]int32
	// unanswered is when the response to such a request was last lost.
	unanswered map[string]time.Time
	// opened are the pods whose gate this process has removed.
	opened map[types.UID]bool
	// gatedSince is when the first gated pod that is not recorded was seen.
	gatedSince time.Time
	// outcomes are the ends of calls, by call id.
	outcomes map[string]tool.Outcome
	// unfenced are the calls, by id, that this process has concluded as not executed while no pod was recorded for
	// them. That is valid only until another leader records one.
	unfenced map[string]bool
	// sources are the ToolResults with the results of client tools and the decisions, by call id.
	sources map[string]types.UID
	// accepted are the ToolResults that are marked as accepted, which the cache may not show yet, and lookedUpFor those
	// that another process has marked, for which the journal was looked up.
	accepted, lookedUpFor map[types.UID]bool
	// settled are the results of client tools and the decisions in the journal, by call id; nil until the journal was
	// read.
	settled map[string]journal.SettledRef
	// requests are the attempts of HTTP tool calls that this process has begun, which append to the journal one after
	// another, and kept are the outcomes that the journal has, by call id.
	requests map[executor.Key]*host.CallRun
	line     *host.Line
	kept     map[string]journal.SettledRef
	// short are the calls, by id, whose texts only the journal has, and held is what only memory has.
	short map[string]bool
	held  held
	// stale reports whether the journal may have outcomes that this process does not know.
	stale bool
	// gaveUp are the outcomes of AtMostOnce calls whose pod is being deleted, by call id, for the case that they did
	// not start. A new process without them ends the call the same way, with a less specific reason.
	gaveUp map[string]tool.Outcome
	// unstarted is, by call id, the number of attempts of a Pure or Idempotent call that this process knows not to have
	// started. A new process starts at 0, and does not state that the call was not executed.
	unstarted map[string]int32
	// misread are the calls whose result was not found in the container log at the first reading; unread counts, by
	// call id, how often a log could not be read at all.
	misread map[string]bool
	unread  map[string]int
	// pauses are the pauses of failed activities: an activity that fails now does not delay the others.
	pauses map[executor.Key]pause
	// unwritten is a model response that is not in the journal yet, share counts its bytes for the namespace, and
	// panics counts the panics of the model call.
	unwritten *host.Unwritten
	// begun reports whether this process has written the plan of the step to status: no earlier one has called a model
	// for it. refused reports whether an earlier process could not append to the journal.
	begun, refused bool
	// dropped is a paid model response that was dropped. No model is called before the journal has stored that.
	dropped *host.Dropped
	share   *fairshare.Share
	panics  int
	// backoff is the state of a model call that is retried later.
	backoff *host.Backoff
	// account is the wait for the ServiceAccount of tool pods, while the API server refuses it.
	account accountWait
	// keyRetry is when a call that has found no API key is due again, keyPause the length of that pause.
	keyRetry time.Time
	keyPause time.Duration
	// podless are the Jobs, by name, that have had no pod for a while.
	podless map[string]*podless
	// withheld are the calls, by id, that wait for a Secret, and missingSince is since when the Turn waits for something
	// that it refers to.
	withheld     map[string]*withheldCall
	missingSince time.Time
	// readySince is, by name of each Model that was Ready when the last model call began, since when.
	readySince map[string]metav1.Time
	// showing is the place in line for a write that only shows progress.
	showing *fairshare.Ticket
	// stopping is when the deletion of the step's Jobs was requested.
	stopping time.Time
}

// of returns the part for a step, which is empty for a new step.
func (m *memory) of(step int32) *stepMemory {
	if m.step.number != step || m.step.outcomes == nil {
		m.step.drop()
		m.step = stepMemory{
			number:      step,
			created:     map[string]time.Time{},
			shown:       map[string]bool{},
			attempted:   map[string]bool{},
			intended:    map[string]int32{},
			unanswered:  map[string]time.Time{},
			opened:      map[types.UID]bool{},
			outcomes:    map[string]tool.Outcome{},
			unfenced:    map[string]bool{},
			pauses:      map[executor.Key]pause{},
			gaveUp:      map[string]tool.Outcome{},
			unstarted:   map[string]int32{},
			misread:     map[string]bool{},
			unread:      map[string]int{},
			sources:     map[string]types.UID{},
			accepted:    map[types.UID]bool{},
			lookedUpFor: map[types.UID]bool{},
			requests:    map[executor.Key]*host.CallRun{},
			line:        &host.Line{},
			kept:        map[string]journal.SettledRef{},
			short:       map[string]bool{},
			withheld:    map[string]*withheldCall{},
			podless:     map[string]*podless{},
		}
	}
	return &m.step
}

// intend records the step and the attempts of calls that a status write of this process has begun.
func (m *memory) intend(before, now *v1alpha1.Turn) {
	plan := now.Status.Plan
	if plan == nil || plan.Phase == v1alpha1.PlanPhaseComplete {
		return
	}
	known := map[string]int32{}
	if before.Status.Plan != nil && before.Status.Plan.Step == plan.Step {
		for _, call := range before.Status.ToolCalls {
			known[call.ID] = call.Attempt
		}
	} else {
		m.of(plan.Step).begun = true
	}
	if plan.Phase != v1alpha1.PlanPhaseAct {
		return
	}
	for _, call := range now.Status.ToolCalls {
		if call.Attempt > known[call.ID] {
			m.of(plan.Step).intended[call.ID] = call.Attempt
		}
	}
}

// forget drops the state of the step.
func (m *memory) forget() {
	m.step.drop()
	m.step = stepMemory{}
}

// drop gives back what a step that is over holds.
func (m *stepMemory) drop() {
	m.dropUnwritten()
	m.showing.Withdraw()
	m.held.release()
}

// dropUnwritten drops a model response that is in the journal, or was kept for the maximum time.
func (m *stepMemory) dropUnwritten() {
	m.unwritten = nil
	m.share.Release()
	m.share = nil
}

// expireUnwritten drops a model response that was kept for the maximum time.
func (m *stepMemory) expireUnwritten() {
	m.dropped = m.unwritten.Drop()
	m.dropUnwritten()
}

// results returns the known results of the step's calls.
func (m *stepMemory) results() host.ActResults {
	return host.ActResults{
		Outcomes: m.outcomes, Settled: m.settled, Kept: m.kept, Dropped: m.short, Sources: m.sources, Planned: m.planned,
	}
}

// memories holds the memory of each Turn. Only one worker at a time works on a Turn, so that only the map needs a lock.
type memories struct {
	mu    sync.Mutex
	byKey map[types.NamespacedName]*memory
}

// replaced returns the remembered UID of a name if it differs from the given UID; empty otherwise.
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

// taken notes that a message went into a Turn. It reports whether there is a memory of that Turn.
func (m *memories) taken(key types.NamespacedName, uid types.UID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	found := m.byKey[key]
	if found == nil || found.uid != uid {
		return false
	}
	found.taken.Store(true)
	return true
}

// forget drops the memory of a Turn and returns its known UIDs.
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
