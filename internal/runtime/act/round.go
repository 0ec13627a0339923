package act

import (
	"slices"
	"time"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/journal/format"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
	"github.com/capstan-dev/capstan/internal/runtime/tool/executors"
)

// Action is the next action of a driver. The driver reports the result to the Round, where the action requires it.
type Action interface{ action() }

// Actions, in the order in which a round can have them.
type (
	// Block ends the Turn, because its Harness or Agent may not be used (BLK-02).
	Block struct{}
	// ReadPlan reads the large fields of the calls, as the Step has them in Planned.
	ReadPlan struct{}
	// Observe looks at the Job or the request of a call, and settles or retries it when it has ended.
	Observe struct{ Index int }
	// WriteRetry writes the next attempt of a call to status before it starts.
	WriteRetry struct{}
	// ReadJournal reads the results and decisions that the journal has, for Step.Record.
	ReadJournal struct{}
	// Collect looks for ToolResults, for Round.Offer.
	Collect struct{}
	// Keep appends an accepted offer to the journal on its own, for Round.Kept.
	Keep struct{ Offer Offer }
	// WriteApproval writes the first attempt of an approved call to status before it starts. Waits is as in Rest.
	WriteApproval struct{ Waits bool }
	// CheckForMessage looks for a message to the Turn, for Step.Abandon.
	CheckForMessage struct{}
	// CheckSecrets looks for the Secrets that calls wait for, for Step.Withhold or Step.Release.
	CheckSecrets struct{ Indexes []int }
	// StartCalls starts the calls. Their intent is in status.
	StartCalls struct{ Indexes []int }
	// OpenGates lets the recorded pods and sub-agents start. With Record it records others first.
	OpenGates struct{ Record bool }
	// Close appends the entry that closes the step.
	Close struct{}
	// Rest shows the state of the step, and waits for the next event. Waits reports whether the step only waits for
	// others. With KeepOutcomes, the outcomes that are only in memory are appended to the journal.
	Rest struct{ Waits, KeepOutcomes bool }
)

func (Block) action()           {}
func (ReadPlan) action()        {}
func (Observe) action()         {}
func (WriteRetry) action()      {}
func (ReadJournal) action()     {}
func (Collect) action()         {}
func (Keep) action()            {}
func (WriteApproval) action()   {}
func (CheckForMessage) action() {}
func (CheckSecrets) action()    {}
func (StartCalls) action()      {}
func (OpenGates) action()       {}
func (Close) action()           {}
func (Rest) action()            {}

// Facts are the inputs of a round besides the calls and the Step.
type Facts struct {
	// Blocked reports whether a Harness or Agent of the Turn may not be used.
	Blocked bool
	// Begun reports whether a call of the step has begun, or may have.
	Begun bool
	// Clients reports whether the Turn waits for clients (TURN-11, GAP-06).
	Clients bool
	// Concurrency is that of the Turn's configuration.
	Concurrency v1alpha1.ToolConcurrency
	// Exists reports whether a Job of a call may exist. Not needed by a process that runs Jobs itself.
	Exists func(call v1alpha1.ToolCall) bool
}

// Round is one pass of a driver over an open act step. It ends with Block, Close or Rest, or when an action has changed
// the Turn in another way.
type Round struct {
	*Step
	Facts
	// Calls are those of the step, in the status that the driver works on. Decisions change them.
	Calls []v1alpha1.ToolCall

	// The progress of the round.
	observed, collected, messageChecked, secretsChecked, started, opened, over bool
	// accepted are the offers that are not part of the Turn yet.
	accepted []Offer
	// unsure are the calls that could not be observed. They are not started.
	unsure []int
	// retried and approved report whether a call has a new attempt that is not in status.
	retried, approved bool
	wakeAt            time.Time
}

// NewRound returns a round over a step.
func NewRound(step *Step, calls []v1alpha1.ToolCall, facts Facts) *Round {
	return &Round{Step: step, Calls: calls, Facts: facts}
}

// WakeAt returns when the next round is due although nothing has happened; zero for never.
func (r *Round) WakeAt() time.Time {
	return r.wakeAt
}

// Next returns the actions to take now, in this order; none when the round is over. The first rule that returns an
// action decides.
func (r *Round) Next(now time.Time) []Action {
	for _, rule := range []func(time.Time) []Action{
		r.block, r.observe, r.retry, r.read, r.acceptOffers, r.approve, r.abandon, r.checkSecrets, r.start, r.open, r.close,
	} {
		if actions := rule(now); len(actions) > 0 {
			return actions
		}
	}
	return nil
}

// block ends a blocked Turn before any call of the step has begun.
func (r *Round) block(time.Time) []Action {
	if r.over || !r.Blocked || r.Begun || r.observed {
		return nil
	}
	r.over = true
	return []Action{Block{}}
}

// observe settles the calls that status settles, and looks at those that a process carries out.
func (r *Round) observe(time.Time) []Action {
	if r.over || r.observed {
		return nil
	}
	if r.Planned == nil && slices.ContainsFunc(r.Calls, r.refused) {
		return []Action{ReadPlan{}}
	}
	r.observed = true
	var actions []Action
	r.Fence(r.Calls)
	for i := range r.Calls {
		call := &r.Calls[i]
		switch {
		case r.Done(call.ID):
			actions = append(actions, Observe{i})
		case !r.Local && Withdrawn(*call):
			// From before a restart, or by another leader. A withdrawn call never starts again.
			r.Settle(call, tool.Recalled(*call))
		case Unapproved(*call):
			// No Job of it can exist. Decisions are accepted after the other calls were observed.
		case AwaitsInput(*call):
			// Its request has ended. Answers are accepted after the other calls were observed.
		case r.refused(*call):
			r.Refuse(call)
		case executors.CarriedOut(call.Executor):
			actions = append(actions, Observe{i})
		}
	}
	return actions
}

// refused reports whether a call was planned as refused and is not settled yet.
func (r *Round) refused(call v1alpha1.ToolCall) bool {
	return call.Executor == v1alpha1.ToolExecutorNone && !r.Done(call.ID)
}

// SetUnobserved records that a call could not be observed.
func (r *Round) SetUnobserved(index int) {
	r.unsure = append(r.unsure, index)
}

// EndAttempt treats the end of an attempt as the end of its call, unless the call is retried. It returns the outcome,
// and whether there is one.
func (r *Round) EndAttempt(index int, ended tool.Outcome, now time.Time) (tool.Outcome, bool) {
	if r.Retries(&r.Calls[index], ended, now) {
		r.retried = true
		return tool.Outcome{}, false
	}
	return r.Settle(&r.Calls[index], ended), true
}

// retry writes new attempts: they are intents like any other.
func (r *Round) retry(time.Time) []Action {
	if !r.retried {
		return nil
	}
	r.retried = false
	return []Action{WriteRetry{}}
}

// read reads the results and decisions in the journal, once a step. Also if the Turn does not wait for clients: it may
// have done so before the Session was changed, and recorded results count.
func (r *Round) read(time.Time) []Action {
	if r.over || r.collected || !r.External(r.Calls) {
		return nil
	}
	if !r.Read {
		return []Action{ReadJournal{}}
	}
	r.approved = r.ApplyRecorded(r.Calls) || r.approved
	if !r.Clients {
		r.SkipClients(r.Calls)
	}
	r.collected = true
	return []Action{Collect{}}
}

// Offer passes the accepted offers to the round: those of which the driver knows that the Turn still waits for them.
func (r *Round) Offer(accepted []Offer, now time.Time) {
	r.wakeAt = Earlier(r.wakeAt, r.TimeOut(r.Calls, accepted, now))
	r.accepted = accepted
}

// acceptOffers processes the accepted offers: all of them if they complete the step, and otherwise one after another.
func (r *Round) acceptOffers(time.Time) []Action {
	if len(r.accepted) == 0 {
		return nil
	}
	var actions []Action
	complete := r.Completes(r.Calls, r.accepted)
	for _, o := range r.accepted {
		if complete {
			r.AcceptResult(&r.Calls[o.Index], o.Call)
		} else {
			actions = append(actions, Keep{o})
		}
	}
	r.accepted = nil
	return actions
}

// SetRecorded processes an offer in the form that the journal has recorded.
func (r *Round) SetRecorded(index int, recorded format.SettledRef) {
	r.Record([]format.SettledRef{recorded})
	r.approved = r.AcceptResult(&r.Calls[index], recorded.Call) || r.approved
}

// approve writes the first attempts of approved calls.
func (r *Round) approve(time.Time) []Action {
	if !r.approved {
		return nil
	}
	r.approved = false
	return []Action{WriteApproval{Waits: r.waits()}}
}

// abandon looks for a message once the step only waits for others: the next model call must read it (CLIENT-05). Only a
// new message ends the wait for a client before its time limit.
func (r *Round) abandon(time.Time) []Action {
	if r.over || r.messageChecked {
		return nil
	}
	r.messageChecked = true
	r.RecallAbandoned(r.Calls)
	if !r.waits() {
		return nil
	}
	return []Action{CheckForMessage{}}
}

// Waits reports whether the step only waits for others.
func (r *Round) Waits() bool { return r.waits() }

func (r *Round) waits() bool {
	return r.WaitsForOthers(r.Calls, r.Clients, r.Concurrency)
}

// checkSecrets checks for the Secrets that calls wait for, when a check is due. A process that is notified of new
// Secrets checks in each round.
func (r *Round) checkSecrets(now time.Time) []Action {
	if r.over || r.secretsChecked || r.Blocked {
		return nil
	}
	r.secretsChecked = true
	var withheld []int
	for i, call := range r.Calls {
		at := r.Row(call.ID).secretCheckAt
		switch {
		case !awaitsSecret(call):
		case !r.Local && now.Before(at):
			r.wakeAt = Earlier(r.wakeAt, at)
		default:
			withheld = append(withheld, i)
		}
	}
	if len(withheld) == 0 {
		return nil
	}
	return []Action{CheckSecrets{withheld}}
}

// start starts the calls that may start now. A blocked Turn starts none: running calls continue, and then the Turn ends
// with the known results (BLK-02).
func (r *Round) start(now time.Time) []Action {
	switch {
	case r.over || r.started:
		return nil
	case r.Blocked && !r.Settled(r.Calls) && !r.inProgress():
		r.over = true
		return []Action{Block{}}
	}
	r.started = true
	if r.Blocked {
		return nil
	}
	due, next := Startable(r.Calls, r.Concurrency, now)
	r.wakeAt = Earlier(r.wakeAt, next)
	due = slices.DeleteFunc(due, func(index int) bool { return slices.Contains(r.unsure, index) })
	if len(due) == 0 {
		return nil
	}
	return []Action{StartCalls{due}}
}

// inProgress reports whether a call of the step that has no result yet has begun.
func (r *Round) inProgress() bool {
	return slices.ContainsFunc(r.Calls, func(call v1alpha1.ToolCall) bool {
		return r.InProgress(call, r.Exists != nil && r.Exists(call))
	})
}

// open lets pods start. A blocked Turn records none: a recorded pod counts as started.
func (r *Round) open(time.Time) []Action {
	if r.over || r.opened || r.Local {
		return nil
	}
	r.opened = true
	return []Action{OpenGates{Record: !r.Blocked}}
}

// close closes the step when every call has its outcome. Otherwise the round rests.
func (r *Round) close(now time.Time) []Action {
	if r.over {
		return nil
	}
	r.over = true
	if r.Settled(r.Calls) {
		return []Action{Close{}}
	}
	waits := r.waits()
	keep, at := r.KeepNow(r.Calls, waits, now)
	if !keep {
		r.wakeAt = Earlier(r.wakeAt, at)
	}
	return []Action{Rest{Waits: waits, KeepOutcomes: keep}}
}
