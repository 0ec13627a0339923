package crash_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/event"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
)

// checkResults checks that an accepted ToolResult is in the journal, and that no later entry denies it.
func (e *evidence) checkResults(v *findings) {
	seen := map[types.UID]bool{}
	for _, at := range e.results {
		result := at.object
		c := meta.FindStatusCondition(result.Status.Conditions, v1alpha1.ConditionAccepted)
		if seen[result.UID] || c == nil || c.Status != metav1.ConditionTrue {
			continue
		}
		seen[result.UID] = true
		known := false
		for _, entry := range e.entries {
			s := entry.object.Spec
			known = known ||
				(entry.revision < at.revision && (names(&s, result.UID) || (s.Settled != nil && s.Settled.Source == result.UID)))
		}
		if !known {
			v.fail(acceptedInJournal, "ToolResult %s was accepted before the journal had it", result.Name)
		}
		e.checkNotDenied(v, result)
	}
}

// names reports whether an event of an entry comes from a ToolResult.
func names(s *journal.Entry, uid types.UID) bool {
	return slices.ContainsFunc(s.Events, func(e event.Event) bool {
		for _, value := range e.Context {
			if value == string(uid) {
				return true
			}
		}
		return false
	})
}

func (e *evidence) checkNotDenied(v *findings, result *v1alpha1.ToolResult) {
	for _, closed := range e.closings() {
		if closed.turn.Name != result.Spec.TurnRef.Name ||
			(result.Spec.TurnRef.UID != "" && closed.turn.UID != result.Spec.TurnRef.UID) {
			continue
		}
		if result.CreationTimestamp.After(closed.entry.Time.Time.Add(2 * 1e9)) {
			continue
		}
		if completed, ok := completedIn(closed.entry, result.Spec.CallID); ok && !agrees(completed, result) {
			v.fail(
				acceptedInJournal,
				"ToolResult %s was accepted, and entry %d has call %s with success %t, result %q, error %q",
				result.Name,
				closed.entry.Ordinal,
				result.Spec.CallID,
				completed.Success,
				textOf(completed),
				completed.Error,
			)
		}
	}
}

// completedIn returns the event of an entry that completes a call.
func completedIn(entry *journal.Entry, call string) (event.ToolCompleted, bool) {
	for _, e := range entry.Events {
		var data event.ToolCompleted
		if e.Type == event.TypeToolCompleted && e.Data != nil && json.Unmarshal(e.Data.Raw, &data) == nil &&
			data.ToolCallID == call {
			return data, true
		}
	}
	return event.ToolCompleted{}, false
}

func textOf(completed event.ToolCompleted) string {
	var text strings.Builder
	for _, part := range completed.Result {
		text.WriteString(part.Text)
	}
	return text.String()
}

// agrees reports whether the model received the text of the ToolResult. An approved call has a result of its own.
func agrees(completed event.ToolCompleted, result *v1alpha1.ToolResult) bool {
	switch {
	case result.Spec.Result != nil:
		return completed.Success && textOf(completed) == *result.Spec.Result
	case result.Spec.Error != nil:
		return !completed.Success
	case result.Spec.Decision == v1alpha1.DecisionReject:
		return !completed.Success
	default:
		return true
	}
}

// checkModelCalls checks that no money is spent twice without a reason.
func (e *evidence) checkModelCalls(v *findings) {
	extra := 0
	var lines []string
	for _, uid := range e.uids() {
		for iteration, calls := range e.modelCalls[uid] {
			n := 0
			for _, of := range calls {
				n += of
				if of > 1 {
					v.fail(paidOnce, "the model was called %d times by one process for iteration %d of Turn %s", of, iteration, uid)
				}
			}
			if n > 1 {
				extra += n - 1
				lines = append(lines, fmt.Sprintf("iteration %d of Turn %s: %d times", iteration, uid, n))
			}
		}
	}
	if extra > e.repeats {
		v.fail(
			paidOnce,
			"%d model calls were repeated, and %d processes were cut off: %s",
			extra,
			e.repeats,
			strings.Join(lines, ", "),
		)
	}
}

// checkJournals holds the form of each Session's journal.
func (e *evidence) checkJournals(v *findings) {
	journals := map[types.UID][]journal.Entry{}
	for _, at := range e.entries {
		if owners := at.object.OwnerReferences; len(owners) > 0 && !at.deleted {
			journals[owners[0].UID] = append(journals[owners[0].UID], at.object.Spec)
		}
	}
	var last types.UID
	if session := newest(e.sessions, sessionName); session != nil {
		last = session.UID
	}
	for uid, journal := range journals {
		checkJournal(v, journal, e.whole && uid == last)
		for _, entry := range journal {
			if isWithdrawal(&entry) && e.delivered(entry.Turn.UID, entry.Turn.Name, forever) {
				v.fail(
					neverBegun,
					"entry %d withdraws the message of Turn %s, and the journal delivers it",
					entry.Ordinal,
					entry.Turn.Name,
				)
			}
		}
	}
}

// isWithdrawal reports whether an entry cancels a Turn before its first step, so that no other Turn takes in its
// message. It comes between the entries of the Turn that runs.
func isWithdrawal(entry *journal.Entry) bool {
	t := entry.Transition
	return entry.Turn != nil && entry.Final && entry.Step == 1 && t != nil && t.Phase == v1alpha1.TurnPhaseCancelled &&
		t.Plan != nil && t.Plan.Phase == v1alpha1.PlanPhaseComplete && t.Plan.Step == 0 && t.Summary != nil &&
		t.Summary.ModelCalls == 0
}

// checkJournal holds the form of a journal: no gap, one final entry for each step of a Turn, one Turn after the other,
// each up to its end.
func checkJournal(v *findings, entries []journal.Entry, whole bool) {
	slices.SortFunc(entries, func(a, b journal.Entry) int { return int(a.Ordinal - b.Ordinal) })
	var open string
	var last int32
	over := map[string]bool{}
	for i, entry := range entries {
		if entry.Ordinal != int64(i)+1 {
			v.fail(journalWhole, "the entry at place %d has ordinal %d", i+1, entry.Ordinal)
		}
		if entry.Turn == nil {
			continue
		}
		key := entry.Turn.Name + " " + string(entry.Turn.UID)
		if open != key && !over[key] && isWithdrawal(&entry) {
			over[key] = true
			continue
		}
		switch {
		case over[key] && entry.Final:
			v.fail(journalWhole, "entry %d closes step %d of Turn %s, which had ended before", entry.Ordinal, entry.Step, key)
		case over[key]:
			continue // A part that was in progress when the Turn ended is ignored.
		case open == "":
			open, last = key, 0
		case open != key:
			v.fail(journalWhole, "entry %d of Turn %s comes before the end of Turn %s", entry.Ordinal, key, open)
		}
		switch {
		case entry.Final && entry.Step != last+1:
			v.fail(
				journalWhole,
				"entry %d closes step %d of Turn %s, whose step %d is open",
				entry.Ordinal,
				entry.Step,
				key,
				last+1,
			)
		case entry.Step > last+1:
			v.fail(
				journalWhole,
				"entry %d is of step %d of Turn %s, whose step %d is open",
				entry.Ordinal,
				entry.Step,
				key,
				last+1,
			)
		}
		if !entry.Final {
			continue
		}
		last = entry.Step
		if entry.Transition == nil || entry.Transition.Plan == nil {
			v.fail(journalWhole, "the final entry %d has no plan", entry.Ordinal)
			continue
		}
		if entry.Transition.Plan.Phase == v1alpha1.PlanPhaseComplete {
			over[key], open = true, ""
		}
	}
	if whole && open != "" {
		v.fail(journalWhole, "all Turns have ended, and the journal has no end of Turn %s", open)
	}
}
