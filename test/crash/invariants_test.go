package crash_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
)

// The invariants, by the names that violations of them begin with. They are absolute: they do not depend on what an
// undisturbed run does.
const (
	// notExecutedNeverStarted: a call of which the journal states NotExecuted has not started.
	notExecutedNeverStarted = "NotExecutedNeverStarted"
	// succeededStarted: a call of which the journal states Succeeded was started, once by the recorded pod if it is
	// AtMostOnce.
	succeededStarted = "SucceededStarted"
	// startedOnce: an AtMostOnce call starts at most once.
	startedOnce = "StartedOnce"
	// approvedBeforeStart: a call that needs approval starts after the journal has the approval.
	approvedBeforeStart = "ApprovedBeforeStart"
	// entryBeforeStatus: a status shows the end of a step, or of a Turn, after the journal has its entry.
	entryBeforeStatus = "EntryBeforeStatus"
	// entryBeforeRelease: a Session releases a Turn after the journal has the entry that ends it.
	entryBeforeRelease = "EntryBeforeRelease"
	// planBeforeJob: the status shows a call of an attempt before there is a Job for it.
	planBeforeJob = "PlanBeforeJob"
	// podBeforeGate: the status shows the UID of the pod of an AtMostOnce call before the pod is let go.
	podBeforeGate = "PodBeforeGate"
	// settledStepCloses: an act step without open calls is closed in a moment.
	settledStepCloses = "SettledStepCloses"
	// acceptedInJournal: an accepted ToolResult is in the journal before, and in the entry that closes the step.
	acceptedInJournal = "AcceptedInJournal"
	// outcomeRecorded: the entry that closes a step has the outcomes of calls that the journal had recorded before.
	outcomeRecorded = "OutcomeRecorded"
	// paidOnce: a process calls a model once for a step, and another one calls it again only where a process is gone, or
	// two lead.
	paidOnce = "PaidOnce"
	// journalWhole: a journal has no gap, one final entry for each step, and one Turn after the other.
	journalWhole = "JournalWhole"
	// oneConversation: a Session admits no Turn that its journal has ended, nor one of another Session.
	oneConversation = "OneConversation"
	// neverBegun: the message of a Turn that was cancelled before it began is in no journal.
	neverBegun = "NeverBegun"
	// statusOrder: the status of a Turn never goes back.
	statusOrder = "StatusOrder"
	// oneRuns: of the Turns of a Session one runs at a time.
	oneRuns = "OneRuns"
)

// evidence is the input of the invariants.
type evidence struct {
	history
	// requests is how often an HTTP call was started, by its idempotency key.
	requests   func(key string) int
	modelCalls map[types.UID]modelCalls
	// local is how often a Job call was started that a function of the process stands in for; nil in a cluster.
	local func(turn types.UID, call string) int
	// repeats is how many model calls may have been made in vain: one for each process that was cut off, or that leads
	// as well.
	repeats int
	// whole reports whether the journal of the newest Session must be complete: its Turns have all ended.
	whole bool
}

// findings collects violations.
type findings struct{ errs []error }

func (v *findings) fail(invariant, format string, arguments ...any) {
	if !slices.Contains(invariants, invariant) {
		panic(invariant + " is not in the list of invariants")
	}
	v.errs = append(v.errs, fmt.Errorf(invariant+": "+format, arguments...))
}

// violations returns the violations of the invariants.
func (e *evidence) violations() error {
	v := &findings{}
	e.checkStatus(v)
	e.checkEntriesFirst(v)
	e.checkReleases(v)
	e.checkJobs(v)
	e.checkPods(v)
	e.checkCalls(v)
	e.checkResults(v)
	e.checkOutcomes(v)
	e.checkModelCalls(v)
	e.checkJournals(v)
	e.checkTasks(v)
	return errors.Join(v.errs...)
}

// versionsOf are the versions of one Turn, by UID.
func (e *evidence) versionsOf(uid types.UID) []version[*v1alpha1.Turn] {
	var found []version[*v1alpha1.Turn]
	for _, v := range e.turns {
		if v.object.UID == uid && !v.deleted {
			found = append(found, v)
		}
	}
	return found
}

// uids are those of the Turns, in the order of their creation.
func (e *evidence) uids() []types.UID {
	var uids []types.UID
	for _, v := range e.turns {
		if !slices.Contains(uids, v.object.UID) {
			uids = append(uids, v.object.UID)
		}
	}
	return uids
}

// checkStatus checks each status against the one before it.
func (e *evidence) checkStatus(v *findings) {
	live := map[types.UID]*v1alpha1.Turn{}
	for _, at := range e.turns {
		after, before := at.object, live[at.object.UID]
		if at.deleted {
			delete(live, after.UID)
			continue
		}
		live[after.UID] = after
		for _, other := range live {
			if other.UID != after.UID && other.Spec.SessionRef == after.Spec.SessionRef && runs(other) && runs(after) &&
				other.Status.SessionUID == after.Status.SessionUID {
				v.fail(oneRuns, "Turns %s and %s run at the same time", other.Name, after.Name)
			}
		}
		if before == nil {
			continue
		}
		if ended(before) && (!ended(after) || before.Status.Phase != after.Status.Phase) {
			v.fail(
				statusOrder,
				"Turn %s had ended with %s and went on to %s",
				after.Name,
				before.Status.Phase,
				after.Status.Phase,
			)
		}
		if step(after) < step(before) {
			v.fail(statusOrder, "Turn %s went back from step %d to %d", after.Name, step(before), step(after))
		}
		if step(after) == step(before) {
			e.checkPodsKept(v, before, after)
		}
	}
}

// restartedForConnection reports whether a call has the next attempt, because its tool has needed a connection that was
// set up.
func restartedForConnection(was, is v1alpha1.ToolCall) bool {
	return was.Reason == v1alpha1.ReasonConnection && is.Attempt == was.Attempt+1 && is.Input != nil &&
		was.Input != nil && is.Input.Round == was.Input.Round && len(is.Input.Requests) == 0
}

func (e *evidence) checkPodsKept(v *findings, before, after *v1alpha1.Turn) {
	for i := range min(len(before.Status.ToolCalls), len(after.Status.ToolCalls)) {
		was, is := before.Status.ToolCalls[i], after.Status.ToolCalls[i]
		if restartedForConnection(was, is) {
			continue
		}
		if was.PodUID != "" && was.PodUID != is.PodUID && was.SideEffect == v1alpha1.SideEffectAtMostOnce {
			v.fail(
				statusOrder,
				"call %s of Turn %s ran in pod %s and then in %q",
				was.ID,
				after.Name,
				was.PodUID,
				is.PodUID,
			)
		}
	}
}

// final reports whether the journal had the final entry of a step before a revision.
func (e *evidence) final(uid types.UID, step int32, before int64) bool {
	return slices.ContainsFunc(e.entries, func(at version[*written]) bool {
		s := at.object.Spec
		return s.Final && s.Turn != nil && s.Turn.UID == uid && s.Step == step && at.revision < before
	})
}

// over reports whether the journal had ended a Turn before a revision. An empty UID stands for every Turn of the name.
func (e *evidence) over(uid types.UID, name string, before int64) bool {
	return slices.ContainsFunc(e.entries, func(at version[*written]) bool {
		s := at.object.Spec
		return s.Final && s.Turn != nil && s.Turn.Name == name && (uid == "" || s.Turn.UID == uid) && at.revision < before &&
			s.Transition != nil && s.Transition.Plan != nil && s.Transition.Plan.Phase == v1alpha1.PlanPhaseComplete
	})
}

// delivered reports whether the journal had the message of a Turn in another Turn before a revision. An empty UID
// stands for every Turn of the name.
func (e *evidence) delivered(uid types.UID, name string, before int64) bool {
	return slices.ContainsFunc(e.entries, func(at version[*written]) bool {
		return at.revision < before && slices.ContainsFunc(at.object.Spec.Steered, func(s journal.RecordedTurn) bool {
			return s.Name == name && (uid == "" || s.UID == uid)
		})
	})
}

// recalled reports whether a Turn took over the outcome of an earlier one of its name, or was refused because of it.
func recalled(turn *v1alpha1.Turn) bool {
	c := meta.FindStatusCondition(turn.Status.Conditions, v1alpha1.ConditionSucceeded)
	if c != nil && (c.Reason == v1alpha1.ReasonNameReused || c.Reason == v1alpha1.ReasonAlreadyRan) {
		return true
	}
	c = meta.FindStatusCondition(turn.Status.Conditions, v1alpha1.ConditionFinished)
	return c != nil && c.Reason == v1alpha1.ReasonAlreadyRan
}

const forever = int64(1) << 62

// checkEntriesFirst checks that no status is ahead of the journal.
func (e *evidence) checkEntriesFirst(v *findings) {
	for _, uid := range e.uids() {
		shown := int32(1)
		finished := false
		for _, at := range e.versionsOf(uid) {
			turn := at.object
			for ; shown < step(turn) && !recalled(turn); shown++ {
				if !e.final(uid, shown, at.revision) {
					v.fail(
						entryBeforeStatus,
						"the status of Turn %s shows step %d before the journal has the end of step %d",
						turn.Name,
						step(turn),
						shown,
					)
				}
			}
			if finished || !ended(turn) {
				continue
			}
			finished = true
			switch {
			case recalled(turn):
				if !e.over("", turn.Name, at.revision) && !e.delivered("", turn.Name, at.revision) {
					v.fail(entryBeforeStatus, "Turn %s ended as one that ran before, which the journal does not have", turn.Name)
				}
			case turn.Status.SteeredInto != nil:
				if !e.delivered(uid, turn.Name, at.revision) {
					v.fail(entryBeforeStatus, "Turn %s ended as steered before the journal had its message", turn.Name)
				}
			case !began(turn):
				if e.delivered(uid, turn.Name, forever) {
					v.fail(
						neverBegun,
						"Turn %s is %s and never began, and the journal delivers its message",
						turn.Name,
						turn.Status.Phase,
					)
				}
				if e.hasEntries(uid) {
					v.fail(
						neverBegun,
						"Turn %s is %s and never began, and the journal has entries of it",
						turn.Name,
						turn.Status.Phase,
					)
				}
			case !e.over(uid, turn.Name, at.revision):
				v.fail(entryBeforeStatus, "Turn %s ended with %s before the journal had its end", turn.Name, turn.Status.Phase)
			}
		}
	}
}

// began reports whether the Turn has ever had an open step.
func began(turn *v1alpha1.Turn) bool {
	return turn.Status.Plan != nil && turn.Status.Plan.OpenedAtOrdinal > 0
}

func (e *evidence) hasEntries(uid types.UID) bool {
	return slices.ContainsFunc(e.entries, func(at version[*written]) bool {
		return at.object.Spec.Turn != nil && at.object.Spec.Turn.UID == uid
	})
}

// checkReleases checks the active Turns of each Session.
func (e *evidence) checkReleases(v *findings) {
	active := map[types.UID]*v1alpha1.ActiveTurn{}
	for _, at := range e.sessions {
		session := at.object
		before, now := active[session.UID], session.Status.ActiveTurn
		active[session.UID] = now
		if at.deleted {
			continue
		}
		if before != nil && (now == nil || now.UID != before.UID) && !e.over("", before.Name, at.revision) &&
			!e.delivered("", before.Name, at.revision) &&
			!e.endedUnbegun(before.UID, at.revision) {
			v.fail(entryBeforeRelease, "the Session released Turn %s before the journal had its end", before.Name)
		}
		if now == nil || (before != nil && before.UID == now.UID) {
			continue
		}
		if other := e.conversation(now.UID, at.revision); other != "" && other != session.UID {
			v.fail(
				oneConversation,
				"the Session %s admitted Turn %s, which had begun in Session %s",
				session.UID,
				now.Name,
				other,
			)
		}
		if e.over(now.UID, now.Name, at.revision) {
			v.fail(oneConversation, "the Session admitted Turn %s, which the journal has ended", now.Name)
		}
		if e.cancelledUnbegun(now.UID, at.revision) {
			v.fail(oneConversation, "the Session admitted Turn %s, which was cancelled before it began", now.Name)
		}
	}
}

// conversation is the Session that a Turn had begun in before a revision; empty for none.
func (e *evidence) conversation(uid types.UID, before int64) (session types.UID) {
	for _, at := range e.versionsOf(uid) {
		if at.revision < before && at.object.Status.SessionUID != "" {
			session = at.object.Status.SessionUID
		}
	}
	return session
}

// endedUnbegun reports whether a Turn had ended without any step before a revision.
func (e *evidence) endedUnbegun(uid types.UID, before int64) bool {
	return slices.ContainsFunc(e.versionsOf(uid), func(at version[*v1alpha1.Turn]) bool {
		return ended(at.object) && !began(at.object) && at.revision < before
	})
}

// cancelledUnbegun reports whether a Turn was shown before a revision as cancelled without any step.
func (e *evidence) cancelledUnbegun(uid types.UID, before int64) bool {
	return slices.ContainsFunc(e.versionsOf(uid), func(at version[*v1alpha1.Turn]) bool {
		return at.revision < before && !began(at.object) && at.object.Status.Phase == v1alpha1.TurnPhaseCancelled
	})
}

// labels of what the manager makes for a call.
func callOf(o client.Object) (turn types.UID, step, call, attempt string) {
	l := o.GetLabels()
	return types.UID(l[v1alpha1.LabelTurnUID]), l[v1alpha1.LabelStep], l[v1alpha1.LabelCall], l[v1alpha1.LabelAttempt]
}

// checkJobs checks that each Job was planned before it was made.
func (e *evidence) checkJobs(v *findings) {
	seen := map[types.UID]bool{}
	for _, at := range e.jobs {
		uid, ofStep, ofCall, attempt := callOf(at.object)
		if seen[at.object.UID] || uid == "" {
			continue
		}
		seen[at.object.UID] = true
		planned := slices.ContainsFunc(e.versionsOf(uid), func(t version[*v1alpha1.Turn]) bool {
			return t.revision < at.revision && fmt.Sprint(step(t.object)) == ofStep &&
				slices.ContainsFunc(t.object.Status.ToolCalls, func(c v1alpha1.ToolCall) bool {
					return c.ID == ofCall && fmt.Sprint(c.Attempt) == attempt
				})
		})
		if !planned {
			v.fail(planBeforeJob, "the Job of call %s, attempt %s, exists and no status had planned it", ofCall, attempt)
		}
	}
}

// start is one start of a tool's container.
type start struct {
	pod      types.UID
	attempt  string
	revision int64
}

// starts are the starts of a call's containers.
func (e *evidence) starts(uid types.UID, call string) []start {
	var found []start
	for _, at := range e.pods {
		ofTurn, _, ofCall, attempt := callOf(at.object)
		known := slices.ContainsFunc(found, func(s start) bool { return s.pod == at.object.UID })
		if ofTurn == uid && ofCall == call && !known && hasStarted(at.object) {
			found = append(found, start{at.object.UID, attempt, at.revision})
		}
	}
	return found
}

func hasStarted(pod *corev1.Pod) bool {
	for _, status := range pod.Status.ContainerStatuses {
		if status.State.Running != nil {
			return true
		}
		if t := status.State.Terminated; t != nil && t.StartedAt.Unix() > 0 {
			return true
		}
	}
	return false
}

// checkPods checks that no pod of an AtMostOnce call is let go before the status names it.
func (e *evidence) checkPods(v *findings) {
	open := map[types.UID]bool{}
	for _, at := range e.pods {
		uid, _, call, _ := callOf(at.object)
		if uid == "" || open[at.object.UID] || len(at.object.Spec.SchedulingGates) > 0 {
			continue
		}
		open[at.object.UID] = true
		var class v1alpha1.SideEffect
		recorded := false
		for _, t := range e.versionsOf(uid) {
			for _, c := range t.object.Status.ToolCalls {
				if c.ID == call {
					class = c.SideEffect
					recorded = recorded || (c.PodUID == at.object.UID && t.revision < at.revision)
				}
			}
		}
		if class == v1alpha1.SideEffectAtMostOnce && !recorded && !at.deleted {
			v.fail(podBeforeGate, "pod %s of the AtMostOnce call %s was let go before the status named it", at.object.Name, call)
		}
	}
}

// invariants are the invariants that the suite checks.
var invariants = []string{
	notExecutedNeverStarted,
	succeededStarted,
	startedOnce,
	approvedBeforeStart,
	entryBeforeStatus,
	entryBeforeRelease,
	planBeforeJob,
	podBeforeGate,
	settledStepCloses,
	acceptedInJournal,
	outcomeRecorded,
	paidOnce,
	journalWhole,
	oneConversation,
	neverBegun,
	statusOrder,
	oneRuns,
	taskShown,
	taskDelivered,
}

func TestEachInvariantHasABreak(t *testing.T) {
	for _, invariant := range invariants {
		if !slices.ContainsFunc(brokenManagers, func(b brokenManager) bool { return b.invariant == invariant }) {
			t.Errorf("no manager breaks %s", invariant)
		}
	}
}
