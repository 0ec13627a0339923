package toolresult

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller/fieldindex"
	"github.com/capstan-dev/capstan/internal/controller/pacing"
	"github.com/capstan-dev/capstan/internal/controller/status"
	"github.com/capstan-dev/capstan/internal/controller/tombstone"
	"github.com/capstan-dev/capstan/internal/runtime/condition"
	"github.com/capstan-dev/capstan/internal/runtime/toolresult"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

// Reconciler refuses ToolResults that no Turn can accept, and deletes those whose Turn is gone.
type Reconciler struct {
	// Client reads from the cache and writes.
	Client client.Client
	// Live reads past the cache.
	Live client.Reader
	// Clock returns the current time.
	Clock func() time.Time

	// gone are the Turns with ToolResults that are gone.
	gone tombstone.Set
}

// +kubebuilder:rbac:groups=capstan.dev,resources=toolresults;turns,verbs=get;list;watch
// +kubebuilder:rbac:groups=capstan.dev,resources=toolresults,verbs=delete
// +kubebuilder:rbac:groups=capstan.dev,resources=toolresults/status,verbs=patch

// Reconcile decides about one ToolResult.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	result := &v1alpha1.ToolResult{}
	if err := r.Client.Get(ctx, req.NamespacedName, result); err != nil {
		if apierrors.IsNotFound(err) {
			return ctrl.Result{}, nil
		}
		return ctrl.Result{}, fmt.Errorf("reading the ToolResult: %w", err)
	}
	turn, err := r.turn(ctx, r.Client, result)
	if err != nil {
		return ctrl.Result{}, err
	}
	if outlived(result, turn) {
		return r.deleteOutlived(ctx, result)
	}
	if Decided(result) {
		return ctrl.Result{}, nil
	}
	if result.Spec.Input != nil && turnstate.ResultLeftOut(result) {
		// The content of an answer decides whether it is accepted.
		if err := r.Live.Get(ctx, req.NamespacedName, result); err != nil {
			return ctrl.Result{}, client.IgnoreNotFound(err)
		}
	}
	acceptance := toolresult.Evaluate(result, turn)
	if acceptance.Status == metav1.ConditionFalse {
		// A refusal is final, so that it needs a live read.
		if turn, err = r.turn(ctx, r.Live, result); err != nil {
			return ctrl.Result{}, err
		}
		acceptance = toolresult.Evaluate(result, turn)
	}
	if acceptance.Reason == "" {
		return ctrl.Result{}, nil
	}
	changed := result.DeepCopy()
	changed.Status.ObservedGeneration = result.Generation
	if turn != nil && acceptance.Status == metav1.ConditionFalse && acceptance.Reason != v1alpha1.ReasonTurnReplaced {
		changed.Status.TurnUID = turn.UID
	}
	condition.SetAccepted(
		&changed.Status.Conditions,
		result.Generation,
		metav1.NewTime(r.Clock()),
		acceptance.Status,
		acceptance.Reason,
		acceptance.Message,
	)
	_, err = status.Patch(ctx, r.Client, result.DeepCopy(), changed)
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		// The watch event of the other write wakes the reconciler.
		return ctrl.Result{}, nil
	}
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("writing the status: %w", err)
	}
	return ctrl.Result{}, nil
}

// turn reads the Turn that the ToolResult names; nil for none.
func (r *Reconciler) turn(
	ctx context.Context,
	reader client.Reader,
	result *v1alpha1.ToolResult,
) (*v1alpha1.Turn, error) {
	turn := &v1alpha1.Turn{}
	err := reader.Get(ctx, types.NamespacedName{Namespace: result.Namespace, Name: result.Spec.TurnRef.Name}, turn)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading Turn %s: %w", result.Spec.TurnRef.Name, err)
	}
	return turn, nil
}

// Decided reports whether the ToolResult was accepted or refused.
func Decided(result *v1alpha1.ToolResult) bool {
	c := meta.FindStatusCondition(result.Status.Conditions, v1alpha1.ConditionAccepted)
	return c != nil && c.Status != metav1.ConditionUnknown
}

// SetupWithManager registers the reconciler.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	others := pacing.NewFanOut(pacing.InNamespace(r.Client, &v1alpha1.ToolResultList{}))
	return ctrl.NewControllerManagedBy(mgr).
		Named("toolresult").
		For(&v1alpha1.ToolResult{}).
		Watches(&v1alpha1.Turn{}, others.Of(r.ofTurn), builder.WithPredicates(callsChanged())).
		Watches(&v1alpha1.Turn{}, r.turnGone()).
		WithOptions(pacing.Options(pacing.FewWorkers)).
		Complete(r)
}

// ofTurn wakes the ToolResults for a Turn.
func (r *Reconciler) ofTurn(ctx context.Context, object client.Object) []reconcile.Request {
	var results v1alpha1.ToolResultList
	if err := r.Client.List(
		ctx,
		&results,
		client.InNamespace(object.GetNamespace()),
		client.MatchingFields{fieldindex.TurnName: object.GetName()},
	); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Failed to list the ToolResults of a Turn", "turn", object.GetName())
		return nil
	}
	var requests []reconcile.Request
	for i := range results.Items {
		if !Decided(&results.Items[i]) {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&results.Items[i])})
		}
	}
	return requests
}

// callsChanged passes those changes of a Turn after which another decision is possible: it is new, has other calls, has
// ended, or is being deleted.
func callsChanged() predicate.Predicate {
	return predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, okBefore := e.ObjectOld.(*v1alpha1.Turn)
			after, okAfter := e.ObjectNew.(*v1alpha1.Turn)
			return okBefore && okAfter && (before.UID != after.UID ||
				before.DeletionTimestamp.IsZero() != after.DeletionTimestamp.IsZero() ||
				before.Status.Iteration != after.Status.Iteration || before.Status.Phase != after.Status.Phase ||
				len(before.Status.ToolCalls) != len(after.Status.ToolCalls) ||
				stoppedWaiting(before.Status.ToolCalls, after.Status.ToolCalls))
		},
	}
}

// questions counts those of a call that have no answer.
func questions(call v1alpha1.ToolCall) int {
	if call.Input == nil {
		return 0
	}
	return len(call.Input.Requests)
}

// stoppedWaiting reports whether one of the calls has ceased to wait, or waits for something else. before and after
// have the same length.
func stoppedWaiting(before, after []v1alpha1.ToolCall) bool {
	for i := range before {
		waited := before[i].State == v1alpha1.ToolCallStateWaiting
		if waited && (after[i].State != v1alpha1.ToolCallStateWaiting || before[i].CallDigest != after[i].CallDigest ||
			questions(before[i]) > questions(after[i])) {
			return true
		}
	}
	return false
}
