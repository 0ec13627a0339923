package turn

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/condition"
)

// recall ends a Turn whose name the Session's log knows already: one that was deleted and created again takes over the recorded outcome, and
// another message under the name is refused. Run identity is (Session UID, Turn name).
func (r *Reconciler) recall(ctx context.Context, s *scope) (flow, error) {
	if s.plan() != nil {
		return proceed, nil
	}
	recalled, err := r.Host.Recall(ctx, s.hostTurn(), s.session.Status.Journal.Head)
	if err != nil {
		return stop, err
	}
	if recalled == nil {
		return proceed, nil
	}
	now := metav1.NewMicroTime(r.Clock())
	s.turn.Status.SessionUID = s.session.UID
	if into := recalled.SteeredInto; into != nil {
		s.turn.Status.SteeredInto = &v1alpha1.TurnReference{Name: into.Name, UID: into.UID}
	}
	project(&s.turn.Status, s.turn.Generation, recalled.Progress, now)
	if recalled.SameMessage {
		sayAlreadyRan(s.turn, nowSeconds(now.Time))
	}
	return ended(r.write(ctx, s, writeTransition))
}

// sayAlreadyRan gives the conditions of a Turn that takes over an outcome their reason. Whether it succeeded is for the outcome to say.
func sayAlreadyRan(turn *v1alpha1.Turn, now metav1.Time) {
	succeeded := condition.Find(turn.Status.Conditions, v1alpha1.ConditionSucceeded)
	message := fmt.Sprintf("This Turn ran in the Session before and was not run again. It had ended with %s: %s", succeeded.Reason, succeeded.Message)
	condition.Set(&turn.Status.Conditions, turn.Generation, now, v1alpha1.ConditionSucceeded, succeeded.Status, v1alpha1.ReasonAlreadyRan, message)
}
