package turn

import (
	"context"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller/fieldindex"
	"github.com/capstan-dev/capstan/internal/controller/pacing"
)

// SetupWithManager registers the reconciler. workers is the number of Turns that are reconciled in parallel.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, workers int) error {
	others := pacing.NewFanOut(pacing.InNamespace(r.Client, &v1alpha1.TurnList{}))
	return ctrl.NewControllerManagedBy(mgr).
		Named("turn").
		For(&v1alpha1.Turn{}).
		Watches(&v1alpha1.Turn{}, handler.EnqueueRequestsFromMapFunc(r.ofSteer), builder.WithPredicates(newSteer())).
		Watches(&v1alpha1.Turn{}, handler.EnqueueRequestsFromMapFunc(r.ofSteered), builder.WithPredicates(newlySteered())).
		Watches(&v1alpha1.Turn{}, handler.EnqueueRequestsFromMapFunc(callerOf), builder.WithPredicates(subAgentEnded())).
		Watches(&v1alpha1.Session{}, handler.EnqueueRequestsFromMapFunc(r.ofSession),
			builder.WithPredicates(activeTurnChanged())).
		Watches(&v1alpha1.Session{}, handler.EnqueueRequestsFromMapFunc(r.ofEverySession),
			builder.WithPredicates(concernsEveryTurn())).
		Watches(&v1alpha1.Session{}, others.Of(r.ofEverySession), builder.WithPredicates(turnTTLChanged())).
		Watches(&batchv1.Job{}, handler.EnqueueRequestsFromMapFunc(r.ofLabelled),
			builder.WithPredicates(predicate.NewPredicateFuncs(isOurs))).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(r.ofLabelled),
			builder.WithPredicates(predicate.NewPredicateFuncs(isOurs))).
		Watches(&v1alpha1.ToolResult{}, handler.EnqueueRequestsFromMapFunc(r.ofToolResult),
			builder.WithPredicates(concernsItsTurn())).
		WatchesRawSource(r.Wakes).
		WithOptions(pacing.Options(workers)).
		Complete(r.Watchdog.Watch("Turn", r))
}

// ofSession wakes the active Turn of the Session, and, if the Session is new, the Turns that wait for it.
func (r *Reconciler) ofSession(ctx context.Context, object client.Object) []reconcile.Request {
	session, ok := object.(*v1alpha1.Session)
	if !ok {
		return nil
	}
	if active := session.Status.ActiveTurn; active != nil {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: session.Namespace, Name: active.Name}}}
	}
	if len(session.Status.Conditions) > 0 {
		return nil
	}
	turns, err := r.turnsOf(ctx, client.ObjectKeyFromObject(session), fieldindex.OpenTurn)
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Failed to list the Turns that wait for a new Session")
		return nil
	}
	var requests []reconcile.Request
	for _, turn := range turns {
		if turn.Status.Plan == nil {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(turn)})
		}
	}
	return requests
}

// ofEverySession wakes all Turns of the Session.
func (r *Reconciler) ofEverySession(ctx context.Context, object client.Object) []reconcile.Request {
	turns, err := r.turnsOf(ctx, client.ObjectKeyFromObject(object), fieldindex.SessionName)
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Failed to list the Turns of a changed Session")
		return nil
	}
	requests := make([]reconcile.Request, 0, len(turns))
	for _, turn := range turns {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(turn)})
	}
	return requests
}

// ofLabelled wakes the Turn that a tool Job or its pod belongs to.
func (r *Reconciler) ofLabelled(ctx context.Context, object client.Object) []reconcile.Request {
	var turns v1alpha1.TurnList
	uid := object.GetLabels()[v1alpha1.LabelTurnUID]
	if err := r.Client.List(
		ctx,
		&turns,
		client.InNamespace(object.GetNamespace()),
		client.MatchingFields{fieldindex.UID: uid},
	); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Failed to find the Turn of a tool call", "turnUID", uid)
		return nil
	}
	var requests []reconcile.Request
	for i := range turns.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&turns.Items[i])})
	}
	return requests
}

// ofToolResult wakes the Turn that a ToolResult is for. One that was accepted wakes the Turn only if it still waits for
// it: another process has accepted it then, or the Turn's status is about to show it.
func (r *Reconciler) ofToolResult(ctx context.Context, object client.Object) []reconcile.Request {
	result, ok := object.(*v1alpha1.ToolResult)
	if !ok {
		return nil
	}
	key := types.NamespacedName{Namespace: result.Namespace, Name: result.Spec.TurnRef.Name}
	if !wasAccepted(result) {
		return []reconcile.Request{{NamespacedName: key}}
	}
	turn := &v1alpha1.Turn{}
	if err := r.Client.Get(ctx, key, turn); err != nil {
		if client.IgnoreNotFound(err) != nil {
			ctrl.LoggerFrom(ctx).Error(err, "Failed to read the Turn of a ToolResult", "toolResult", result.Name)
		}
		return nil
	}
	if !waitsForResult(turn, result) {
		return nil
	}
	return []reconcile.Request{{NamespacedName: key}}
}

// activeTurnChanged passes the changes of a Session that concern its active Turn: a new Session, or another active
// Turn. Changes of its totals and phase wake no Turn.
func activeTurnChanged() predicate.Predicate {
	return predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, okBefore := e.ObjectOld.(*v1alpha1.Session)
			after, okAfter := e.ObjectNew.(*v1alpha1.Session)
			if !okBefore || !okAfter {
				return false
			}
			if before.UID != after.UID {
				return true
			}
			if after.Status.ActiveTurn == nil {
				return false
			}
			return before.Status.ActiveTurn == nil || before.Status.ActiveTurn.UID != after.Status.ActiveTurn.UID
		},
		DeleteFunc: func(event.DeleteEvent) bool { return false },
	}
}

// concernsEveryTurn passes those changes of a Session that concern its finished Turns as well: its deletion, or that of
// the one before it.
func concernsEveryTurn() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, okBefore := e.ObjectOld.(*v1alpha1.Session)
			after, okAfter := e.ObjectNew.(*v1alpha1.Session)
			if !okBefore || !okAfter {
				return false
			}
			return before.UID != after.UID || before.DeletionTimestamp.IsZero() != after.DeletionTimestamp.IsZero()
		},
	}
}

// turnTTLChanged passes changes of the turnTTL of a Session, which concern all its finished Turns.
func turnTTLChanged() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false },
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, okBefore := e.ObjectOld.(*v1alpha1.Session)
			after, okAfter := e.ObjectNew.(*v1alpha1.Session)
			return okBefore && okAfter && !apiequality.Semantic.DeepEqual(before.Spec.TurnTTL, after.Spec.TurnTTL)
		},
		DeleteFunc:  func(event.DeleteEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

// concernsItsTurn passes ToolResults that are neither accepted nor refused, and those that have just been accepted. A
// new process reads the earlier accepted ones from the journal.
func concernsItsTurn() predicate.Predicate {
	is := func(o client.Object, what func(*v1alpha1.ToolResult) bool) bool {
		result, ok := o.(*v1alpha1.ToolResult)
		return ok && what(result)
	}
	open := func(result *v1alpha1.ToolResult) bool { return !decided(result) }
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool {
			return is(e.Object, open) || (!e.IsInInitialList && is(e.Object, wasAccepted))
		},
		UpdateFunc: func(e event.UpdateEvent) bool {
			return is(e.ObjectNew, open) || (is(e.ObjectNew, wasAccepted) && !is(e.ObjectOld, wasAccepted))
		},
		DeleteFunc: func(event.DeleteEvent) bool { return false },
	}
}
