package toolresult

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller/turn"
	"github.com/capstan-dev/capstan/internal/runtime/condition"
)

// outlived reports whether the exact Turn that the ToolResult was for is gone. now is the Turn that has the name; nil
// for none. A ToolResult without a UID never outlives its Turn: it applies to every Turn of the name. A ToolResult that
// was created after the deletion of its Turn is kept: a GitOps tool would apply it again forever.
func outlived(result *v1alpha1.ToolResult, now *v1alpha1.Turn) bool {
	uid := result.Spec.TurnRef.UID
	return uid != "" && (now == nil || now.UID != uid) && metTurn(result) && result.DeletionTimestamp.IsZero()
}

// metTurn reports whether the ToolResult was accepted or refused while its Turn existed.
func metTurn(result *v1alpha1.ToolResult) bool {
	accepted := condition.Find(result.Status.Conditions, v1alpha1.ConditionAccepted)
	if accepted == nil {
		return false
	}
	switch accepted.Reason {
	case v1alpha1.ReasonPending, v1alpha1.ReasonTurnNotFound, v1alpha1.ReasonTurnReplaced:
		return false
	default:
		return true
	}
}

// deleteOutlived deletes a ToolResult whose Turn is gone, after a live read. Its text is in the Session's journal.
// ToolResults have no owner reference, because Argo CD does not prune objects with one.
func (r *Reconciler) deleteOutlived(ctx context.Context, result *v1alpha1.ToolResult) error {
	live, err := r.turn(ctx, r.Live, result)
	if err != nil {
		return err
	}
	if !outlived(result, live) {
		return nil
	}
	err = r.Client.Delete(ctx, result.DeepCopy(), client.Preconditions{UID: &result.UID})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("deleting the ToolResult of a Turn that is gone: %w", err)
	}
	return nil
}

// ofGoneTurn wakes the ToolResults that name the Turn by UID.
func (r *Reconciler) ofGoneTurn(ctx context.Context, object client.Object) []reconcile.Request {
	var results v1alpha1.ToolResultList
	if err := r.Client.List(ctx, &results, client.InNamespace(object.GetNamespace()),
		client.MatchingFields{turn.IndexTurnName: object.GetName()}); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "listing the ToolResults for a Turn that is gone", "turn", object.GetName())
		return nil
	}
	var requests []reconcile.Request
	for i := range results.Items {
		if results.Items[i].Spec.TurnRef.UID == object.GetUID() {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&results.Items[i])})
		}
	}
	return requests
}

// gone passes deletions of Turns. After a relist, the deletion of a Turn and the creation of another one of its name
// are one update.
func gone() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool { return e.ObjectOld.GetUID() != e.ObjectNew.GetUID() },
	}
}
