package turn

import (
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller/executor"
	"github.com/capstan-dev/capstan/internal/runtime/act"
	"github.com/capstan-dev/capstan/internal/runtime/budget"
	"github.com/capstan-dev/capstan/internal/runtime/budget/keeper"
	"github.com/capstan-dev/capstan/internal/runtime/fairshare"
	"github.com/capstan-dev/capstan/internal/runtime/invocation"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/plan"
	"github.com/capstan-dev/capstan/internal/runtime/ratelimit"
	"github.com/capstan-dev/capstan/internal/runtime/step"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

// memory is the in-memory state of a Turn between passes. A new process can restore all of it by reads.
type memory struct {
	uid types.UID

	// written is the resourceVersion of the last own write, behindSince when the cache was first found to lag it.
	written     string
	behindSince time.Time
	// wroteAt is the time of the last own write, for the spacing of progress writes.
	wroteAt time.Time
	// session is the Session that has admitted the Turn, and admission the last admission with which it has begun. They
	// are not in the Turn's status at first.
	session   types.UID
	admission turnstate.Admission
	// withdrawn reports whether no process can admit the Turn any more, because it was cancelled while it was queued. The
	// status of the Session names only one such Turn.
	withdrawn bool
	// passes and writes count the work of this process for the Turn.
	passes, writes int
	// traced is the number of steps whose spans this process has exported.
	traced int32
	// cleanedAt is when the deletion of an ended Turn's Jobs was requested.
	cleanedAt time.Time
	// messageSteered reports whether an event has shown that a message was steered into the Turn. Another process may have
	// accepted it, so that the journal is read again.
	messageSteered atomic.Bool
	// orphanedAt is when the Turn was first found without its Session.
	orphanedAt time.Time
	// stall is set while the Turn cannot continue because of its Session's journal; errors counts consecutive failed
	// passes.
	stall  *stall
	errors int
	// budgets are the changes of Budgets that concern the Turn.
	budgets budget.Notices

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
	// ended reports whether the hooks at the end of the Turn have run. untitled reports whether the Turn ends without a
	// title for its Session, because its conversation is too large.
	ended, untitled bool
	// violation ends the Turn as soon as the calls of the step are withdrawn; nil for none.
	violation *plan.Failure
	// known is the knowledge of this process about the calls of the step.
	known *act.Step
	// jobs are the requests for Jobs, by the name of the Job.
	jobs map[string]*jobMemory
	// opened are the pods whose gate this process has removed.
	opened map[types.UID]bool
	// gatedSince is when the first gated pod that is not recorded was seen.
	gatedSince time.Time
	// accepted are the ToolResults that are marked as accepted, which the cache may not show yet, and lookedUpFor those
	// that another process has marked, for which the journal was looked up.
	accepted, rechecked map[types.UID]bool
	// requests are the attempts of calls that this process carries out itself and has begun, which append to the journal
	// one after another.
	requests map[executor.Key]*invocation.Attempt
	line     *invocation.Line
	// held describes the outcomes that are only in memory because the journal does not accept them.
	held held
	// stale reports whether the journal may have outcomes that this process does not know.
	stale bool
	// pauses are the pauses of failed activities: an activity that fails now does not delay the others.
	pauses map[executor.Key]pause
	// undelivered is a model response that is not in the journal yet, share counts its bytes for the namespace, and
	// panics counts the panics of the model call.
	undelivered *step.UndeliveredResponse
	// startedHere reports whether this process has admitted the Turn, or written the plan of the step to status: no
	// earlier one has called a model for it. refused reports whether an earlier process could not append to the journal.
	startedHere, appendRefused bool
	// dropped is a paid model response that was dropped. No model is called before the journal has stored that.
	dropped *step.Dropped
	share   *fairshare.Share
	panics  int
	// backoff is the state of a model call that is retried later.
	backoff *step.Backoff
	// continues is where a model call continues that waits for a Budget; nil for one that starts anew, or after backoff.
	continues *step.Backoff
	// budget is the wait for room in a Budget; nil for none. awaitsSlot reports whether the model call waits for nothing
	// but a slot. priced are the Models that the Budgets were last checked for.
	budget     *keeper.Ticket
	awaitsSlot bool
	priced     []modelVersion
	// limited is the last wait of the model call for room within the limits of a Model; nil for none since the last
	// backoff. room is its place in line; nil for none. awaitsRoom reports whether the model call waits for nothing but
	// that room, and a slot.
	limited    *step.RateLimited
	room       *ratelimit.Ticket
	awaitsRoom bool
	// account is the wait for the ServiceAccount of tool pods, while the API server refuses it.
	account accountWait
	// keyRetry is when a call that has found no API key is due again, keyPause the length of that pause.
	keyRetry time.Time
	keyPause time.Duration
	// missingSince is since when the Turn waits for something that it refers to.
	missingSince time.Time
	// readySince is, by name of each Model that was Ready when the last model call began, since when.
	readySince map[string]metav1.Time
	// showing is the queued request for a write that only shows progress.
	showing *fairshare.Ticket
	// stopping is when the deletion of the step's Jobs was requested.
	stopping time.Time
}

// jobMemory is the knowledge of this process about a Job that it has requested or seen.
type jobMemory struct {
	// created is when this process created the Job.
	created time.Time
	// seen reports whether the cache has had the Job: if it is missing now, it is gone, and not still being created.
	seen bool
	// requested reports whether this process has requested the Job. If the API server's response was lost, the Job may
	// exist, or appear later.
	requested bool
	// responseLostAt is when the response to such a request was last lost.
	responseLostAt time.Time
	// missingPod is set while the Job has had no pod for a while.
	missingPod *missingPod
}

// hasBegun reports whether the Turn has begun in this process with an admission to a Session.
func (m *memory) hasBegun(session types.UID, admission turnstate.Admission) bool {
	return m.session == session && m.admission.OpenedAtOrdinal == admission.OpenedAtOrdinal &&
		m.admission.At.Equal(&admission.At)
}

// job returns the memory of a Job, an empty one for a Job not requested or seen before.
func (m *stepMemory) job(name string) *jobMemory {
	if m.jobs[name] == nil {
		m.jobs[name] = &jobMemory{}
	}
	return m.jobs[name]
}

// forgetPlanned drops the large fields of the calls, which the journal has.
func (m *stepMemory) forgetPlanned() {
	if m.known != nil {
		m.known.Planned = nil
	}
}

// requestedJobs reports whether this process has requested a Job of the step.
func (m *stepMemory) requestedJobs() bool {
	for _, job := range m.jobs {
		if job.requested {
			return true
		}
	}
	return false
}

// of returns the part for a step, which is empty for a new step.
func (m *memory) of(number int32) *stepMemory {
	if m.step.number != number || m.step.known == nil {
		m.step.drop()
		m.step = stepMemory{
			number:    number,
			known:     &act.Step{},
			jobs:      map[string]*jobMemory{},
			opened:    map[types.UID]bool{},
			pauses:    map[executor.Key]pause{},
			accepted:  map[types.UID]bool{},
			rechecked: map[types.UID]bool{},
			requests:  map[executor.Key]*invocation.Attempt{},
			line:      &invocation.Line{},
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
	var known []v1alpha1.ToolCall
	if before.Status.Plan != nil && before.Status.Plan.Step == plan.Step {
		known = before.Status.ToolCalls
	} else if before.Status.Plan != nil || plan.Step > 1 {
		m.of(plan.Step).startedHere = true
	}
	if plan.Phase == v1alpha1.PlanPhaseAct {
		m.of(plan.Step).known.Intend(known, now.Status.ToolCalls)
	}
}

// forget drops the state of the step.
func (m *memory) forget() {
	m.step.drop()
	m.step = stepMemory{}
}

// drop releases the resources of a step that has ended.
func (m *stepMemory) drop() {
	m.dropUndelivered()
	m.budget.Withdraw()
	m.room.Withdraw()
	m.showing.Withdraw()
	m.held.release()
}

// dropUndelivered drops a model response that is in the journal, or was kept for the maximum time.
func (m *stepMemory) dropUndelivered() {
	m.undelivered = nil
	m.share.Release()
	m.share = nil
}

// expireUndelivered drops a model response that was kept for the maximum time.
func (m *stepMemory) expireUndelivered() {
	m.dropped = m.undelivered.Drop()
	m.dropUndelivered()
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

// markSteered records that a message was steered into a Turn. It reports whether there is a memory of that Turn.
func (m *memories) markSteered(key types.NamespacedName, uid types.UID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	found := m.byKey[key]
	if found == nil || found.uid != uid {
		return false
	}
	found.messageSteered.Store(true)
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
