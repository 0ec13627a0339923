package act

import (
	"slices"
	"time"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/journal/format"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
)

// Offer is a ToolResult that was neither accepted nor refused yet.
type Offer struct {
	// Index of the call that it is for.
	Index int
	// Result is the ToolResult. Its texts may be left out.
	Result *v1alpha1.ToolResult
	// Call is the whole ToolResult in the form of the journal, once it is read.
	Call format.SettledCall
	// Binds reports whether a decision, or an answer, is about exactly this call of this Turn and its questions.
	Binds bool
}

// answers reports whether the offer is an answer to a question of a tool.
func (o Offer) answers() bool {
	return o.Result.Spec.Input != nil
}

// decides reports whether the offer is a decision.
func (o Offer) decides() bool {
	return o.Result.Spec.Decision != ""
}

// Accept returns the offers for calls without an outcome: for each call the first of its kind, in the order of the
// calls, which is also their order in the journal. A decision counts if it came in time, according to the time at which
// it was created: the process may have been down meanwhile, or its clock be behind.
func (s *Step) Accept(calls []v1alpha1.ToolCall, offers []Offer, now time.Time) []Offer {
	var accepted []Offer
	for i, call := range calls {
		if s.Done(call.ID) {
			continue
		}
		if AwaitsInput(call) {
			accepted = append(accepted, firstAnswers(i, call, offers)...)
			continue
		}
		at := slices.IndexFunc(offers, func(o Offer) bool { return o.Index == i && matchesWait(o, call, now) })
		if at >= 0 {
			accepted = append(accepted, offers[at])
		}
	}
	return accepted
}

// firstAnswers returns the offers that answer questions of a call: for each question the first.
func firstAnswers(index int, call v1alpha1.ToolCall, offers []Offer) []Offer {
	var accepted []Offer
	for _, question := range call.Input.Requests {
		at := slices.IndexFunc(offers, func(o Offer) bool {
			return o.Index == index && o.answers() && o.Binds && o.Result.Spec.Input.ID == question.ID
		})
		if at >= 0 {
			accepted = append(accepted, offers[at])
		}
	}
	return accepted
}

// matchesWait reports whether an offer is of the kind that a call waits for: a decision in time, or a result.
func matchesWait(o Offer, call v1alpha1.ToolCall, now time.Time) bool {
	if !AwaitsApproval(call) {
		return call.Executor == v1alpha1.ToolExecutorClient && !o.decides() && !o.answers()
	}
	by := call.ApproveBy
	return o.decides() && o.Binds &&
		(by == nil || now.Before(by.Time) || !o.Result.CreationTimestamp.After(by.Time))
}

// Completes reports whether the accepted offers complete the step, so that they go into the entry that closes it. The
// others, and all approvals and answers, are appended on their own, so that they outlive their ToolResult (CLIENT-04)
// and the journal decides between two processes. Neither completes anything: the call has yet to run.
func (s *Step) Completes(calls []v1alpha1.ToolCall, accepted []Offer) bool {
	return s.missing(calls) == len(accepted) && !slices.ContainsFunc(accepted, func(o Offer) bool {
		return o.Result.Spec.Decision == v1alpha1.DecisionApprove || o.answers()
	})
}

// TimeOut ends the calls without a decision in time, and returns when the next one times out; zero for none. Calls with
// an accepted offer do not time out. The journal does not have this before the step is closed: if another process
// appends an approval meanwhile, the closing entry is refused as stale.
func (s *Step) TimeOut(calls []v1alpha1.ToolCall, accepted []Offer, now time.Time) (next time.Time) {
	for i := range calls {
		call := &calls[i]
		switch {
		case s.Done(call.ID) || !Unapproved(*call) || wasAbandoned(*call):
		case slices.ContainsFunc(accepted, func(o Offer) bool { return o.Index == i }):
		case call.State.Settled():
			// The status has it already, from before a restart. A clock that is behind does not revert it.
			s.Settle(call, tool.ApprovalTimedOut())
		case call.ApproveBy == nil:
		case now.Before(call.ApproveBy.Time):
			next = Earlier(next, call.ApproveBy.Time)
		default:
			s.Settle(call, tool.ApprovalTimedOut())
		}
	}
	return next
}

// Earlier returns the earlier of two times; a zero time is ignored.
func Earlier(a, b time.Time) time.Time {
	if a.IsZero() || (!b.IsZero() && b.Before(a)) {
		return b
	}
	return a
}

// AcceptResult records a client's result, a decision or an answer for a call, and reports whether it lets an attempt of
// the call start. Its status is then an intent like any other: it is written before anything starts.
func (s *Step) AcceptResult(call *v1alpha1.ToolCall, given format.SettledCall) (approved bool) {
	if given.Answered != nil {
		return s.applyAnswers(call)
	}
	s.Row(call.ID).Source = given.Source
	switch given.Decision {
	case v1alpha1.DecisionApprove:
		if !Unapproved(*call) {
			return false
		}
		Approve(call)
		return true
	case v1alpha1.DecisionReject:
		s.Settle(call, rejected(given))
	default:
		s.Settle(call, clientOutcome(given))
	}
	return false
}

// ApplyRecorded applies the results, decisions and answers in the journal to calls without an outcome. It reports
// whether one of them lets a call start.
func (s *Step) ApplyRecorded(calls []v1alpha1.ToolCall) (approved bool) {
	for i := range calls {
		if row := s.copyOf(calls[i].ID); row.RecordedResult.Ordinal != 0 && row.Outcome == nil {
			approved = s.AcceptResult(&calls[i], row.RecordedResult.Call) || approved
		}
		approved = s.applyAnswers(&calls[i]) || approved
	}
	return approved
}

// SkipClients settles the client calls of a Session whose hints exclude client results (TURN-11).
func (s *Step) SkipClients(calls []v1alpha1.ToolCall) {
	for i := range calls {
		if calls[i].Executor == v1alpha1.ToolExecutorClient && !s.Done(calls[i].ID) {
			s.Settle(&calls[i], NoClientOutcome())
		}
	}
}

// Abandon settles the calls that wait for clients and approvals, because there is a message for the Turn (CLIENT-05). A
// call whose tool has asked something keeps waiting: the tool has begun, and only an answer lets it end.
func (s *Step) Abandon(calls []v1alpha1.ToolCall) {
	for i := range calls {
		if !s.Done(calls[i].ID) && calls[i].State == v1alpha1.ToolCallStateWaiting && !AwaitsInput(calls[i]) {
			s.Settle(&calls[i], abandoned(calls[i]))
		}
	}
}

// RecallAbandoned settles the calls that were abandoned, or skipped because no client answers, according to a status
// from before a restart.
func (s *Step) RecallAbandoned(calls []v1alpha1.ToolCall) {
	for i := range calls {
		if s.Done(calls[i].ID) {
			continue
		}
		if outcome, known := fromStatus(calls[i]); known {
			s.Settle(&calls[i], outcome)
		}
	}
}

// Forget drops the knowledge about calls that another process may have decided about, so that it is read again from the
// journal: results, decisions, and the outcomes of claimed calls that the journal does not have. The calls get back the
// status that they have in base.
func (s *Step) Forget(calls, base []v1alpha1.ToolCall) {
	s.ForgetResults(calls, base)
	for i := range calls {
		call := &calls[i]
		row := s.find(call.ID)
		if row == nil || row.Outcome == nil || row.RecordedOutcome.Ordinal != 0 || !s.claimable(*call) {
			continue
		}
		row.Outcome = nil
		call.State, call.Reason, call.Preview = v1alpha1.ToolCallStatePending, "", ""
	}
}

// ForgetResults drops the results and decisions, so that they are read again.
func (s *Step) ForgetResults(calls, base []v1alpha1.ToolCall) {
	s.Read = false
	for _, row := range s.rows {
		row.RecordedResult = format.SettledRef{}
	}
	for i, call := range calls {
		if call.Executor != v1alpha1.ToolExecutorClient && !Unapproved(call) {
			continue
		}
		row := s.Row(call.ID)
		row.Outcome, row.Cut, row.Source = nil, false, ""
		calls[i] = *base[i].DeepCopy()
	}
}

// HasExternalCalls reports whether the step has calls that a client answers, that need approval, or whose tools have
// asked something, according to the status.
func HasExternalCalls(calls []v1alpha1.ToolCall) bool {
	return slices.ContainsFunc(calls, func(call v1alpha1.ToolCall) bool {
		return call.Executor == v1alpha1.ToolExecutorClient || call.Policy == v1alpha1.ToolPolicyRequiresApproval ||
			call.Input != nil
	})
}
