package turnstate

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/budget"
	"github.com/capstan-dev/capstan/internal/runtime/excerpt"
)

// Payer is what the model calls of the open step are charged to.
func (t Turn) Payer() budget.Payer {
	return budget.Payer{
		Namespace: t.Session.Namespace, Root: t.Root.Name, RootUID: t.Root.UID, Turn: t.Ref.UID, Step: t.Step(),
	}
}

// rootOf returns the Session at the top of the tree of sub-agents that a Session is in.
func rootOf(session *v1alpha1.Session) v1alpha1.ObjectIdentity {
	if of := session.Spec.Origin.SubAgentOf(); of != nil {
		return of.Root
	}
	return v1alpha1.ObjectIdentity{Name: session.Name, UID: session.UID}
}

// budgetWait is the wait of a Turn whose model call a Budget has refused.
func budgetWait(r *budget.Refusal) v1alpha1.TurnWait {
	wait := v1alpha1.TurnWait{
		Type: v1alpha1.WaitTypeBudget, Reason: r.Reason, Message: excerpt.Of(r.Message, maxWaitBytes),
	}
	if !r.Until.IsZero() {
		until := metav1.NewMicroTime(r.Until)
		wait.Until = &until
	}
	return wait
}

// DescribeBudgetWait records in the status of the Turn that a Budget has refused its model call. It reports false if
// the status has it already.
func DescribeBudgetWait(p *v1alpha1.TurnProgress, r *budget.Refusal) bool {
	wait := budgetWait(r)
	if WaitsForBudget(p) {
		if is := p.WaitsFor[0]; is.Reason == wait.Reason && is.Message == wait.Message && is.Until.Equal(wait.Until) {
			return false
		}
	}
	p.Phase, p.WaitsFor = v1alpha1.TurnPhaseWaiting, []v1alpha1.TurnWait{wait}
	return true
}

// WaitsForBudget reports whether a Turn that has begun waits for a Budget.
func WaitsForBudget(p *v1alpha1.TurnProgress) bool {
	return p.Phase == v1alpha1.TurnPhaseWaiting && len(p.WaitsFor) > 0 && p.WaitsFor[0].Type == v1alpha1.WaitTypeBudget
}

// ResumeFromBudget removes the wait for a Budget from the status of the Turn, and returns the notice about it.
func ResumeFromBudget(p *v1alpha1.TurnProgress) budget.Notice {
	wait := p.WaitsFor[0]
	Resume(p)
	return budget.NoticeOf(wait.Reason, "", wait.Message)
}
