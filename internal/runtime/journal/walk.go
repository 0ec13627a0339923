package journal

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// walk reads the entries from the one at which a step was opened, and keeps those of the step: the entry that closed
// it, and until then the first claim and the first settled result of each call, and the recorded parts of responses.
type walk struct {
	log     *Log
	session Session
	uid     types.UID // of the Turn
	step    int32
	next    int64 // the first ordinal that was not read
	final   *entry
	settled []SettledRef
	claims  []ClaimRef
	// partials are the recorded parts of streaming responses, in the order in which they began.
	partials []*Partial
	// prompt is the message after its hooks, and response the recorded part of a response whose calls
	// hooks look at.
	prompt   *HookedPrompt
	response hookedResponse
	// ended has the outcomes of the hooks at the end of the Turn, in the step after its last one.
	ended *HookedEnd
	// ownBytes is the size of the parts that the closing entry makes redundant: those of responses, and of outcomes that
	// were recorded before the step was complete.
	ownBytes int64
}

func (l *Log) walk(s Session, turn types.UID, step int32, openedAt int64) *walk {
	return &walk{log: l, session: s, uid: turn, step: step, next: max(openedAt, 1)}
}

// visit processes the entry at next.
func (w *walk) visit(found *entry) {
	e := found.spec
	w.next = e.Ordinal + 1
	if e.Turn == nil || e.Turn.UID != w.uid || e.Step != w.step {
		return
	}
	if e.Final {
		w.final = found
		return
	}
	if e.Claimed != nil {
		w.addClaim(e.Ordinal, *e.Claimed)
	}
	if e.Partial != nil {
		w.keep(found)
	}
	if e.Prompt != nil && w.prompt == nil {
		w.prompt = e.Prompt
	}
	if e.Ended != nil && w.ended == nil {
		w.ended = e.Ended
	}
	if e.Response != nil {
		w.response.add(*e.Response)
		w.ownBytes += found.size
	}
	if len(e.Outcomes) > 0 {
		w.ownBytes += found.size
	}
	w.settled = settledIn(w.settled, e)
}

// addClaim adds a claim, or the task that a claimed call has become. The first claim of a request counts, and only its
// holder knows a task.
func (w *walk) addClaim(ordinal int64, call ClaimedCall) {
	for i, ref := range w.claims {
		if ref.Call.ID != call.ID || ref.Call.Round != call.Round {
			continue
		}
		if ref.Call.Holder == call.Holder && ref.Call.Task == "" {
			w.claims[i].Call.Task, w.claims[i].Call.TaskUntil = call.Task, call.TaskUntil
		}
		return
	}
	w.claims = append(w.claims, ClaimRef{Ordinal: ordinal, Call: call})
}

// settledIn adds the calls that an entry settles to those that were settled before it. The first result of a call
// counts.
func settledIn(refs []SettledRef, e *Entry) []SettledRef {
	calls := e.Outcomes
	if e.Settled != nil {
		calls = append([]SettledCall{*e.Settled}, calls...)
	}
	for _, call := range calls {
		if slotOf(refs, call).Ordinal == 0 {
			refs = append(refs, SettledRef{Ordinal: e.Ordinal, Call: call, Adopted: true})
		}
	}
	return refs
}

// to reads the entries up to an ordinal, all of which exist, or up to the one that closed the step.
func (w *walk) to(ctx context.Context, last int64) error {
	for w.final == nil && w.next <= last {
		e, err := w.log.must(ctx, w.session, w.next)
		if err != nil {
			return err
		}
		w.visit(e)
	}
	return nil
}

// toEnd reads the entries until the store has no more, or up to the one that closed the step.
func (w *walk) toEnd(ctx context.Context) error {
	for w.final == nil {
		e, err := w.log.get(ctx, w.session, w.next)
		if errors.Is(err, ErrNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		w.visit(e)
	}
	return nil
}

// settledCall identifies the settled part of a call that counts. The decision about a call and its outcome are
// separate: an approved call has yet to run.
func (w *walk) settledCall(call SettledCall) SettledRef {
	return slotOf(w.settled, call)
}

// slotOf returns the settled part among several that counts for a call.
func slotOf(refs []SettledRef, call SettledCall) SettledRef {
	for _, ref := range refs {
		if sameSlot(ref.Call, call) {
			return ref
		}
	}
	return SettledRef{}
}

// sameSlot reports whether of two settled parts one only can count.
func sameSlot(a, b SettledCall) bool {
	return slotName(a) == slotName(b)
}

// slot identifies what a settled part is about: a decision, a question, an answer, or the outcome of a call.
type slot struct {
	call     string
	decision bool
	asked    int32
	answered int32
	question string
}

func slotName(c SettledCall) slot {
	s := slot{call: c.ID, decision: c.Decision != ""}
	if c.Asked != nil {
		s.asked = c.Asked.Round
	}
	if c.Answered != nil {
		s.answered, s.question = c.Answered.Round, c.Answered.Answer.ID
	}
	return s
}

// counted returns the settled parts that count: all of them while the step is open, those that its record includes when
// it is closed.
func (w *walk) counted() []SettledRef {
	if w.final == nil {
		return w.settled
	}
	return slices.DeleteFunc(slices.Clone(w.settled), func(ref SettledRef) bool {
		return !slices.Contains(w.final.spec.Parts, ref.Ordinal)
	})
}

// outcome returns the step as closed by another writer.
func (w *walk) outcome(ctx context.Context) (*Closed, error) {
	return w.log.closed(ctx, w.session, w.final)
}

// Find looks for the entry that closed a step; nil without an error means that the step is open. It always reads the
// store's first free ordinal.
func (l *Log) Find(ctx context.Context, s Session, turn types.UID, step int32, openedAt int64) (*Closed, error) {
	w := l.walk(s, turn, step, openedAt)
	if err := w.toEnd(ctx); err != nil {
		return nil, err
	}
	if w.final == nil {
		return nil, nil
	}
	return w.outcome(ctx)
}

// FindSettled looks for the entry that closed a step, as Find does, and returns the results of calls that count as
// Settled does for a step that is open.
func (l *Log) FindSettled(
	ctx context.Context, s Session, turn types.UID, step int32, openedAt int64,
) (*Closed, []SettledRef, error) {
	w := l.walk(s, turn, step, openedAt)
	if err := w.toEnd(ctx); err != nil {
		return nil, nil, err
	}
	if w.final == nil {
		return nil, w.settled, nil
	}
	closed, err := w.outcome(ctx)
	return closed, nil, err
}

// Settled returns the results of calls that count for a step, in the order of the journal. While the step is open it
// always reads the store's first free ordinal.
func (l *Log) Settled(
	ctx context.Context,
	s Session,
	turn types.UID,
	step int32,
	openedAt int64,
) ([]SettledRef, error) {
	w := l.walk(s, turn, step, openedAt)
	if err := w.toEnd(ctx); err != nil {
		return nil, err
	}
	return w.counted(), nil
}

// Step reads the final entry at an ordinal, with its parts. It is an error if the entry does not exist (ErrCorrupt: the
// Turn's plan follows from it), is not final or is not the Turn's.
func (l *Log) Step(ctx context.Context, s Session, turn types.UID, ordinal int64) (*Closed, error) {
	e, err := l.must(ctx, s, ordinal)
	if err != nil {
		return nil, fmt.Errorf("reading the step that the entry at ordinal %d closes: %w", ordinal, err)
	}
	if !e.spec.Final || e.spec.Turn == nil || e.spec.Turn.UID != turn {
		return nil, fmt.Errorf(
			"the entry at ordinal %d of Session %s/%s closes no step of the Turn with UID %s",
			ordinal,
			s.Namespace,
			s.Name,
			turn,
		)
	}
	return l.closed(ctx, s, e)
}
