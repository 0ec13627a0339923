package act

import (
	"time"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/journal/format"
	"github.com/capstan-dev/capstan/internal/runtime/tool/executors"
)

// Outcomes of calls stay in memory until their step closes, and do not count for their namespace. A waiting Turn holds
// none: the journal has them, in one part. A Turn whose own calls still run holds a slot, and at most this much text:
// slots are bounded, and parts cost writes.
const (
	// fewHeldBytes is the text that a Turn with running calls may hold for as long as they run.
	fewHeldBytes = 16 << 10
	// manyHeldBytes is the text that it may hold while calls settle, one after another.
	manyHeldBytes = 256 << 10
	// holdFew and holdMany are how long it holds more than that after the last call has settled.
	holdFew, holdMany = 10 * time.Second, time.Second
)

// keepAt returns when the outcomes that are only in memory must be appended to the journal, for a Turn that does not
// wait for others; zero for not before the step closes. last is when the last of them was settled.
func keepAt(bytes int64, last time.Time) time.Time {
	switch {
	case bytes > manyHeldBytes:
		return last.Add(holdMany)
	case bytes > fewHeldBytes:
		return last.Add(holdFew)
	default:
		return time.Time{}
	}
}

// Held returns the number of outcomes that are only in memory, of calls that a process carried out, and the size of all
// texts in memory.
func (s *Step) Held(calls []v1alpha1.ToolCall) (n int, bytes int64) {
	for _, call := range calls {
		row := s.copyOf(call.ID)
		if row.Outcome == nil || row.Cut {
			continue
		}
		bytes += TextBytes(*row.Outcome)
		if s.keepable(call) {
			n++
		}
	}
	return n, bytes
}

// KeepNow reports whether the outcomes that are only in memory must be appended to the journal now: once the Turn waits
// for others, or holds too much text. Otherwise it returns when they must; zero for not before the step closes.
func (s *Step) KeepNow(calls []v1alpha1.ToolCall, waits bool, now time.Time) (bool, time.Time) {
	n, bytes := s.Held(calls)
	if n != s.held {
		s.held, s.heldSince = n, now
	}
	if waits {
		return true, time.Time{}
	}
	at := keepAt(bytes, s.heldSince)
	return !at.IsZero() && !now.Before(at), at
}

// Keepable returns the calls whose outcomes are only in memory and can be appended to the journal before the step
// closes.
func (s *Step) Keepable(calls []v1alpha1.ToolCall) []v1alpha1.ToolCall {
	var keepable []v1alpha1.ToolCall
	for _, call := range calls {
		if s.keepable(call) {
			keepable = append(keepable, call)
		}
	}
	return keepable
}

// keepable reports whether the outcome of a call can be appended to the journal before its step closes. A call that was
// not executed is not among them: another process may still start it until the status has its withdrawal. Nor is a
// claim without a result: its holder may still append one.
func (s *Step) keepable(call v1alpha1.ToolCall) bool {
	row := s.copyOf(call.ID)
	if !executors.CarriedOut(call.Executor) || row.Outcome == nil || row.RecordedOutcome.Ordinal != 0 {
		return false
	}
	switch row.Outcome.State {
	case v1alpha1.ToolCallStateSucceeded, v1alpha1.ToolCallStateFailed:
		return true
	case v1alpha1.ToolCallStateUnknown:
		return !s.claimable(call)
	default:
		return false
	}
}

// DropReproducible drops the outcomes that are only in memory and can be produced again: a Job is observed again, and a
// repeatable request is sent again.
func (s *Step) DropReproducible(calls []v1alpha1.ToolCall) {
	for _, call := range s.Keepable(calls) {
		if !s.claimable(call) {
			s.Row(call.ID).Outcome = nil
		}
	}
}

// Adopt replaces outcomes by those in the journal, without their texts. Results of clients and decisions stay.
func (s *Step) Adopt(recorded []format.SettledRef) {
	for _, r := range recorded {
		row := s.Row(r.Call.ID)
		if r.IsInput() {
			row.addInput(r)
		}
		if r.ByOthers() || r.IsInput() {
			continue
		}
		outcome := OutcomeOf(r.Call)
		row.Outcome, row.RecordedOutcome, row.Unfenced = &outcome, r, false
		row.cut()
	}
}

// Record adds the results, decisions, questions and answers that the journal has. Those of a call with a known outcome
// change nothing.
func (s *Step) Record(recorded []format.SettledRef) {
	s.Read = true
	for _, r := range recorded {
		switch row := s.Row(r.Call.ID); {
		case r.IsInput():
			row.addInput(r)
		case r.ByOthers():
			row.RecordedResult = r
		}
	}
}

// Drop drops the texts of the outcomes that the journal has. They are read again for the entry that closes the step.
func (s *Step) Drop() {
	for _, row := range s.rows {
		given := row.RecordedResult.Ordinal != 0 && row.RecordedResult.Call.Decision == ""
		if row.Outcome != nil && !row.Cut && (given || row.RecordedOutcome.Ordinal != 0) {
			row.cut()
		}
	}
}

// cut shortens an outcome to the part that status shows.
func (r *Row) cut() {
	outcome := shortened(*r.Outcome)
	r.Outcome, r.Cut = &outcome, true
	r.RecordedResult.Call.Result, r.RecordedResult.Call.Error = nil, nil
	r.RecordedOutcome.Call.Result, r.RecordedOutcome.Call.Error = nil, nil
}

// AnyCut reports whether the texts of an outcome are to be read from the journal again.
func (s *Step) AnyCut() bool {
	return s.countCut() > 0
}

func (s *Step) countCut() int {
	n := 0
	if s != nil {
		for _, row := range s.rows {
			if row.Cut {
				n++
			}
		}
	}
	return n
}

// Restore returns a copy with the dropped texts, read from the journal, and the number of calls that still lack theirs.
func (s *Step) Restore(recorded []format.SettledRef) (whole *Step, lacking int) {
	whole = s.Clone()
	for _, r := range recorded {
		if row := whole.find(r.Call.ID); row != nil && row.Cut && r.Call.Decision == "" &&
			!r.IsInput() {
			outcome := OutcomeOf(r.Call)
			row.Outcome, row.Cut = &outcome, false
		}
	}
	return whole, whole.countCut()
}

// With returns a copy in which the journal takes precedence, for an entry that ends the Turn.
func (s *Step) With(recorded []format.SettledRef) *Step {
	all := s.Clone()
	for _, row := range all.rows {
		row.RecordedResult, row.RecordedOutcome = format.SettledRef{}, format.SettledRef{}
	}
	for _, r := range recorded {
		row := all.Row(r.Call.ID)
		if r.IsInput() {
			row.addInput(r)
			continue
		}
		outcome := OutcomeOf(r.Call)
		switch {
		case !r.ByOthers():
			row.RecordedOutcome, row.Outcome, row.Cut = r, &outcome, false
			continue
		case r.Call.Decision == v1alpha1.DecisionReject:
			outcome = rejected(r.Call)
			row.Outcome = &outcome
		case r.Call.Decision == "":
			row.Outcome, row.Cut = &outcome, false
		}
		row.RecordedResult, row.Source = r, r.Call.Source
	}
	if all.brief {
		all.shorten()
	}
	return all
}
