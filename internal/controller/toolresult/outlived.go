package toolresult

import (
	"cmp"
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller/fieldindex"
	"github.com/capstan-dev/capstan/internal/controller/wake"
)

// outlived reports whether the exact Turn that the ToolResult was for is gone. now is the Turn that has the name; nil
// for none. A ToolResult without a UID is for every Turn of the name, until one of them has accepted or refused it. A
// ToolResult that was created after the deletion of its Turn is kept: a GitOps tool would apply it again forever.
func outlived(result *v1alpha1.ToolResult, now *v1alpha1.Turn) bool {
	uid := turnOf(result)
	return uid != "" && (now == nil || now.UID != uid) && metTurn(result) && result.DeletionTimestamp.IsZero()
}

// turnOf returns the UID of the Turn that the ToolResult was for, by which it is named or has judged the ToolResult;
// empty while it may still be any Turn of the name.
func turnOf(result *v1alpha1.ToolResult) types.UID {
	return cmp.Or(result.Spec.TurnRef.UID, result.Status.TurnUID)
}

// metTurn reports whether the ToolResult was accepted or refused while its Turn existed.
func metTurn(result *v1alpha1.ToolResult) bool {
	accepted := meta.FindStatusCondition(result.Status.Conditions, v1alpha1.ConditionAccepted)
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

// grace is how long a ToolResult outlives its Turn. When a namespace is deleted, its ToolResults are deleted meanwhile,
// and cost no request.
const grace = 5 * time.Second

// deleteOutlived deletes a ToolResult whose Turn is gone according to the watch or, because the cache may lag, to a
// live read: one for all ToolResults of the Turn. Their texts are in the Session's journal. ToolResults have no owner
// reference, because Argo CD does not prune objects with one. A collection cannot be deleted instead: a selector does
// not distinguish those that no Turn has judged, and the API server deletes the objects of a collection one by one too.
func (r *Reconciler) deleteOutlived(ctx context.Context, result *v1alpha1.ToolResult) (ctrl.Result, error) {
	now := r.Clock()
	since, known := r.gone.Since(turnOf(result), now)
	if !known {
		live, err := r.turn(ctx, r.Live, result)
		if err != nil || !outlived(result, live) {
			return ctrl.Result{}, err
		}
		r.gone.Add(turnOf(result), now)
		since = now
	}
	if due := since.Add(grace); now.Before(due) {
		return ctrl.Result{RequeueAfter: due.Sub(now)}, nil
	}
	err := r.Client.Delete(ctx, result.DeepCopy(), client.Preconditions{UID: &result.UID})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return ctrl.Result{}, fmt.Errorf("deleting the ToolResult of a deleted Turn: %w", err)
	}
	return ctrl.Result{}, nil
}

// turnGone wakes the ToolResults for an exact Turn when it is gone: deleted, or replaced by another one.
func (r *Reconciler) turnGone() handler.EventHandler {
	return handler.Funcs{
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, queue wake.Queue) {
			r.enqueueOutlived(ctx, e.Object, queue)
		},
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, queue wake.Queue) {
			if e.ObjectOld.GetUID() != e.ObjectNew.GetUID() {
				r.enqueueOutlived(ctx, e.ObjectOld, queue)
			}
		},
	}
}

// enqueueOutlived wakes the ToolResults for a Turn that is gone.
func (r *Reconciler) enqueueOutlived(ctx context.Context, object client.Object, queue wake.Queue) {
	var results v1alpha1.ToolResultList
	if err := r.Client.List(ctx, &results, client.InNamespace(object.GetNamespace()),
		client.MatchingFields{fieldindex.TurnName: object.GetName()}); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Failed to list the ToolResults of a deleted Turn", "turn", object.GetName())
		return
	}
	for i := range results.Items {
		if turnOf(&results.Items[i]) == object.GetUID() {
			r.gone.Add(object.GetUID(), r.Clock())
			queue.Add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&results.Items[i])})
		}
	}
}
