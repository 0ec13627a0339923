package crash_test

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/background"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
)

// closing is the end of one act step and of its calls, as the journal has it.
type closing struct {
	turn     v1alpha1.JournalTurn
	revision int64
	entry    *journal.Entry
	calls    []v1alpha1.ToolCall
}

// closings are the final entries of act steps.
func (e *evidence) closings() []closing {
	open := map[types.UID]v1alpha1.PlanPhase{}
	var found []closing
	for _, at := range e.entries {
		s := &at.object.Spec
		if !s.Final || s.Turn == nil || s.Transition == nil || s.Transition.Plan == nil {
			continue
		}
		if open[s.Turn.UID] == v1alpha1.PlanPhaseAct {
			found = append(found, closing{*s.Turn, at.revision, s, s.Transition.ToolCalls})
		}
		open[s.Turn.UID] = s.Transition.Plan.Phase
	}
	return found
}

// checkCalls compares the calls in the journal with the containers and requests that were started.
func (e *evidence) checkCalls(v *findings) {
	for _, closed := range e.closings() {
		for _, call := range closed.calls {
			e.checkCall(v, closed, call)
		}
	}
	// Under one name in one Session, whatever became of the Turn's object.
	byName := map[string]int{}
	for _, uid := range e.uids() {
		versions := e.versionsOf(uid)
		for call, class := range classes(versions) {
			n := e.startsOf(uid, call)
			last := versions[len(versions)-1].object
			name := fmt.Sprintf("%s/%s of Turn %s", call.executor, call.id, last.Name)
			byName[string(last.Status.SessionUID)+name] += n
			if total := byName[string(last.Status.SessionUID)+name]; class == v1alpha1.SideEffectAtMostOnce && total > 1 {
				v.fail(startedOnce, "the AtMostOnce call %s started %d times", name, total)
			}
		}
		e.checkApprovals(v, uid, versions)
	}
}

type callKey struct {
	id       string
	executor v1alpha1.ToolExecutor
}

// classes are the side-effect classes of all calls that the status of a Turn has ever shown.
func classes(versions []version[*v1alpha1.Turn]) map[callKey]v1alpha1.SideEffect {
	found := map[callKey]v1alpha1.SideEffect{}
	for _, at := range versions {
		for _, call := range at.object.Status.ToolCalls {
			found[callKey{call.ID, call.Executor}] = call.SideEffect
		}
	}
	return found
}

// startsOf is how often a call was started, whatever runs it.
func (e *evidence) startsOf(uid types.UID, call callKey) int {
	switch call.executor {
	case v1alpha1.ToolExecutorJob:
		if e.local != nil {
			return e.local(uid, call.id)
		}
		return len(e.starts(uid, call.id)) - e.connections(uid, call.id)
	case v1alpha1.ToolExecutorHTTP, v1alpha1.ToolExecutorMCP:
		// A call whose tool has needed something has further requests, each of which is sent as often as a call may start.
		most := 0
		for round := range int32(tool.MaxInputRounds + 1) {
			most = max(most, e.requests(tool.RoundKey(uid, call.id, round)))
		}
		return most
	case v1alpha1.ToolExecutorAgent:
		return e.agents(uid, call.id)
	case v1alpha1.ToolExecutorTask:
		starts, _ := e.taskStarts(background.ID(uid, call.id))
		return starts
	default:
		return 0
	}
}

// connections is how many attempts of a Job have ended because its tool has needed a connection and has done nothing,
// as the journal has it. They count as not started.
func (e *evidence) connections(uid types.UID, call string) int {
	rounds := map[int32]bool{}
	for _, at := range e.entries {
		s := at.object.Spec
		if s.Turn != nil && s.Turn.UID == uid && s.Settled != nil && s.Settled.ID == call && s.Settled.Asked != nil {
			rounds[s.Settled.Asked.Round] = true
		}
	}
	return len(rounds)
}

// lastStart is the newest start of a call that was started.
func (e *evidence) lastStart(uid types.UID, call string) start {
	all := e.starts(uid, call)
	return all[len(all)-1]
}

// agents is how many Sessions have begun the Turn of the sub-agent that a call runs as.
func (e *evidence) agents(uid types.UID, call string) int {
	begun := map[types.UID]bool{}
	for _, at := range e.turns {
		of := at.object.Spec.Origin.SubAgentOf()
		if of != nil && of.Turn.UID == uid && of.CallID == call && at.object.Status.Plan != nil {
			begun[at.object.Status.SessionUID] = true
		}
	}
	return len(begun)
}

func (e *evidence) checkCall(v *findings, closed closing, call v1alpha1.ToolCall) {
	n := e.startsOf(closed.turn.UID, callKey{call.ID, call.Executor})
	runs := call.Executor == v1alpha1.ToolExecutorJob || call.Executor == v1alpha1.ToolExecutorHTTP ||
		call.Executor == v1alpha1.ToolExecutorMCP || call.Executor == v1alpha1.ToolExecutorAgent
	switch {
	case call.State == v1alpha1.ToolCallStateNotExecuted && n > 0:
		v.fail(
			notExecutedNeverStarted,
			"entry %d states that call %s (%s, %s) of Turn %s was not executed (%s), and it started %d times",
			closed.entry.Ordinal,
			call.ID,
			call.Executor,
			call.SideEffect,
			closed.turn.Name,
			call.Reason,
			n,
		)
	case call.State != v1alpha1.ToolCallStateSucceeded || !runs:
	case n == 0:
		v.fail(
			succeededStarted,
			"entry %d states that call %s of Turn %s succeeded, and it never started",
			closed.entry.Ordinal,
			call.ID,
			closed.turn.Name,
		)
	case call.SideEffect == v1alpha1.SideEffectAtMostOnce && n > 1:
		v.fail(succeededStarted, "entry %d states that the AtMostOnce call %s of Turn %s succeeded, and it started %d times",
			closed.entry.Ordinal, call.ID, closed.turn.Name, n)
	case call.SideEffect == v1alpha1.SideEffectAtMostOnce && call.Executor == v1alpha1.ToolExecutorJob &&
		e.local == nil && e.lastStart(closed.turn.UID, call.ID).pod != call.PodUID:
		v.fail(
			succeededStarted,
			"call %s of Turn %s ran in another pod than the recorded %s",
			call.ID,
			closed.turn.Name,
			call.PodUID,
		)
	}
}

// checkApprovals checks that a call that needs approval starts only when the journal has the approval.
func (e *evidence) checkApprovals(v *findings, uid types.UID, versions []version[*v1alpha1.Turn]) {
	for _, at := range versions {
		for _, call := range at.object.Status.ToolCalls {
			if call.Policy != v1alpha1.ToolPolicyRequiresApproval {
				continue
			}
			key := callKey{call.ID, call.Executor}
			n := e.startsOf(uid, key)
			first := forever
			if started := e.starts(uid, call.ID); len(started) > 0 {
				first = started[0].revision
			}
			approved := slices.ContainsFunc(e.entries, func(at version[*written]) bool {
				s := at.object.Spec
				return s.Turn != nil && s.Turn.UID == uid && s.Settled != nil && s.Settled.ID == call.ID &&
					s.Settled.Decision == v1alpha1.DecisionApprove && at.revision < first
			})
			if n > 0 && !approved {
				v.fail(approvedBeforeStart, "call %s of Turn %s started and the journal had no approval", call.ID, at.object.Name)
				return
			}
		}
	}
}
