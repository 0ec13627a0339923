package turn

import (
	"cmp"
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller/executor"
	"github.com/capstan-dev/capstan/internal/runtime/fairshare"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/leftout"
	"github.com/capstan-dev/capstan/internal/runtime/queue"
	"github.com/capstan-dev/capstan/internal/runtime/step"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

// need returns the resources that an activity of the open step needs before it starts.
func (s *scope) need() executor.Need {
	return executor.Need{Continues: s.plan().Step > 1}
}

// longOutputBytes is the memory of an output that is longer than a result: what is read of it, and its forms.
const longOutputBytes = 1 << 20

// needToRequest returns the resources that a call needs that this process carries out.
func (r *Reconciler) needToRequest(a *actScope) executor.Need {
	need := a.need()
	if r.Steps.KeepsOutputs(a.config) {
		need.Bytes = longOutputBytes
	}
	return need
}

// needToReason returns the resources that the model call of the open step needs. The journal of the Session may have
// grown since its size was recorded; the call checks it again.
func (r *Reconciler) needToReason(s *scope, turn turnstate.Turn) executor.Need {
	need := s.need()
	need.Bytes = step.CallBytes(turn, conversationBytes(s.session, r.Steps.Log))
	return need
}

// conversationBytes is the size of what the prompts of a Session are made of, as far as it is known.
func conversationBytes(session *v1alpha1.Session, log *journal.Log) int64 {
	recorded := session.Status.Journal
	return cmp.Or(log.KnownConversation(session.UID), recorded.ConversationBytes, recorded.Bytes)
}

// refuse ends a Turn whose conversation is too large.
func (r *Reconciler) refuse(
	ctx context.Context, s *scope, step *stepMemory, cause *fairshare.TooLargeError,
) (flow, error) {
	closed, err := r.Steps.RefuseTooLarge(ctx, s.turnState(), cause)
	if err != nil {
		return stop, err
	}
	step.closed = closed
	return again, nil
}

// mayStart reports whether the Turn has a slot to start work. If not, it is woken when it gets one.
func (r *Reconciler) mayStart(ctx context.Context, s *scope) (bool, error) {
	begun := func(ctx context.Context) ([]fairshare.Begun, error) { return Begun(ctx, r.Client) }
	if err := r.Turns.Count(ctx, begun); err != nil {
		return false, err
	}
	key := s.key()
	return r.Turns.Resume(s.session.UID, func() { r.Wakes.Wake(key) }), nil
}

// releaseSlot releases the slot of a waiting Turn, and memory that it needs only later: tenants can have any number of
// waiting Turns. The slot of a Session is that of its active Turn, and no other Turn releases it.
func (r *Reconciler) releaseSlot(s *scope) {
	if s.active() && !NeedsSlot(s.turn) {
		r.Turns.Wait(s.session.UID, Weight(s.turn))
		s.memory.step.forgetPlanned()
	}
}

// statusPerTurn is the memory of a status that the limit of begun Turns has for each of them.
const statusPerTurn = 8 << 10

// Weight returns how many Turns a waiting one counts as: caches keep its status whole.
func Weight(turn *v1alpha1.Turn) int64 {
	if turn == nil {
		return 1
	}
	return max(1, (leftout.Size(turn.Status)+statusPerTurn-1)/statusPerTurn)
}

// NeedsSlot reports whether a Turn that has begun needs a slot: it exists, and waits neither for ToolResults nor for a
// repair.
func NeedsSlot(turn *v1alpha1.Turn) bool {
	if turn == nil || queue.Finished(turn) || turn.Status.Phase == v1alpha1.TurnPhaseWaitingForToolResults ||
		turn.Status.Phase == v1alpha1.TurnPhaseWaiting {
		return false
	}
	return journalStall(turn) == ""
}

// Begun lists the Turns that have begun according to status.
func Begun(ctx context.Context, reader client.Reader) ([]fairshare.Begun, error) {
	var sessions v1alpha1.SessionList
	if err := reader.List(ctx, &sessions, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing Sessions to count their active Turns: %w", err)
	}
	var turns v1alpha1.TurnList
	if err := reader.List(ctx, &turns, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing Turns to count those that wait: %w", err)
	}
	byUID := make(map[types.UID]*v1alpha1.Turn, len(turns.Items))
	for i := range turns.Items {
		byUID[turns.Items[i].UID] = &turns.Items[i]
	}
	var begun []fairshare.Begun
	for i := range sessions.Items {
		active := sessions.Items[i].Status.ActiveTurn
		if active == nil {
			continue
		}
		begun = append(begun, BegunTurn(&sessions.Items[i], byUID[active.UID]))
	}
	return begun, nil
}

// BegunTurn returns the active Turn of a Session in the form in which it is counted. turn is nil if it is gone.
func BegunTurn(session *v1alpha1.Session, turn *v1alpha1.Turn) fairshare.Begun {
	one := fairshare.Begun{Session: session.UID, Namespace: session.Namespace, Waits: !NeedsSlot(turn)}
	if one.Waits {
		one.Weight = Weight(turn)
	}
	return one
}
