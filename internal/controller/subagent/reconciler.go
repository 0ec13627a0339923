// Package subagent reconciles the Sessions of sub-agents whose calling Turn has ended or is gone: it cancels a
// sub-agent that still runs, and deletes the Session once it has been kept for the retention time, unless the Tool
// keeps it. The calling Turn itself creates sub-agents, waits for them and cancels them when it ends; see package turn.
package subagent

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
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller/fieldindex"
	"github.com/capstan-dev/capstan/internal/controller/pacing"
	"github.com/capstan-dev/capstan/internal/controller/turn"
	"github.com/capstan-dev/capstan/internal/controller/wake"
	"github.com/capstan-dev/capstan/internal/runtime/queue"
	agent "github.com/capstan-dev/capstan/internal/runtime/subagent"
)

// lag is how long the cache may take to show an object that exists.
const lag = 5 * time.Second

// stopLimit is how long a sub-agent that was cancelled has to end.
const stopLimit = time.Minute

// Reconciler ends and deletes sub-agents, one at a time.
type Reconciler struct {
	// Client reads from the cache and writes.
	Client client.Client
	// Live reads past the cache.
	Live client.Reader
	// Clock returns the current time.
	Clock func() time.Time
	// Retention is how long a Session is kept after the end of the Turn that made the call.
	Retention time.Duration
	// Wakes enqueues Sessions, when the Clock has jumped. It may be nil.
	Wakes *wake.Source
}

// +kubebuilder:rbac:groups=capstan.dev,resources=sessions,verbs=get;list;watch;delete
// +kubebuilder:rbac:groups=capstan.dev,resources=turns,verbs=get;list;watch;patch

// SetupWithManager registers the reconciler.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	b := ctrl.NewControllerManagedBy(mgr).
		Named("subagent").
		For(&v1alpha1.Session{}, builder.WithPredicates(newSubAgent())).
		Watches(&v1alpha1.Turn{}, handler.EnqueueRequestsFromMapFunc(r.ofTurn), builder.WithPredicates(ended())).
		WithOptions(pacing.Options(1))
	if r.Wakes != nil {
		b = b.WatchesRawSource(r.Wakes)
	}
	return b.Complete(r)
}

// Reconcile ends or deletes one sub-agent, when it is due.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	session := &v1alpha1.Session{}
	if err := r.Client.Get(ctx, req.NamespacedName, session); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	of := session.Spec.Origin.SubAgentOf()
	if of == nil || !session.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}
	caller, err := r.turn(ctx, session.Namespace, of.Turn.Name, of.Turn.UID)
	if err != nil || (caller != nil && !queue.Finished(caller)) {
		return ctrl.Result{}, err
	}
	own, err := r.ownTurn(ctx, session)
	if err != nil {
		return ctrl.Result{}, err
	}
	if own != nil && !queue.Finished(own) {
		return r.stop(ctx, session, caller, own)
	}
	if of.Retention == v1alpha1.SubAgentRetentionKeep {
		if ran, err := r.ran(ctx, session, own); err != nil || ran {
			return ctrl.Result{}, err
		}
	}
	if caller != nil {
		if wait := endedAt(caller).Add(r.Retention).Sub(r.Clock()); wait > 0 {
			return ctrl.Result{RequeueAfter: wait}, nil
		}
	} else if wait := session.CreationTimestamp.Add(lag).Sub(r.Clock()); wait > 0 {
		// The Turn of the sub-agent may be on its way into the cache.
		return ctrl.Result{RequeueAfter: wait}, nil
	}
	return ctrl.Result{}, r.delete(ctx, session)
}

// stop cancels a sub-agent that still runs. One that has not ended when its time is over, because its journal is
// damaged for example, is deleted as it is.
func (r *Reconciler) stop(
	ctx context.Context, session *v1alpha1.Session, caller, own *v1alpha1.Turn,
) (ctrl.Result, error) {
	cancelled := own.Spec.DesiredState == v1alpha1.DesiredStateCancelled
	if err := turn.CancelSubAgent(ctx, r.Client, own); err != nil {
		return ctrl.Result{}, err
	}
	if caller == nil || session.Spec.Origin.SubAgent.Retention == v1alpha1.SubAgentRetentionKeep {
		return ctrl.Result{}, nil
	}
	wait := endedAt(caller).Add(r.Retention).Sub(r.Clock())
	switch {
	case wait <= 0 && cancelled:
		return ctrl.Result{}, r.delete(ctx, session)
	case !cancelled:
		wait = max(wait, stopLimit)
	}
	return ctrl.Result{RequeueAfter: wait}, nil
}

// turn returns the Turn with this UID; nil if it is gone, which only a live read proves.
func (r *Reconciler) turn(ctx context.Context, namespace, name string, uid types.UID) (*v1alpha1.Turn, error) {
	key := types.NamespacedName{Namespace: namespace, Name: name}
	for _, reader := range []client.Reader{r.Client, r.Live} {
		found := &v1alpha1.Turn{}
		err := reader.Get(ctx, key, found)
		if client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("reading Turn %s, which has called a sub-agent: %w", name, err)
		}
		if err == nil && found.UID == uid {
			return found, nil
		}
	}
	return nil, nil
}

// ran reports whether the sub-agent has a conversation to keep: a Turn, or an entry of one that was deleted. The call
// of a Session without one was withdrawn, or its process ended before it created the Turn.
func (r *Reconciler) ran(ctx context.Context, session *v1alpha1.Session, own *v1alpha1.Turn) (bool, error) {
	if own != nil || agent.Used(session) {
		return true, nil
	}
	err := r.Live.Get(ctx, client.ObjectKeyFromObject(session), &v1alpha1.Turn{})
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("reading the Turn of a sub-agent past the cache: %w", err)
	}
	return err == nil, nil
}

// ownTurn returns the Turn of the sub-agent, from the cache; nil for none.
func (r *Reconciler) ownTurn(ctx context.Context, session *v1alpha1.Session) (*v1alpha1.Turn, error) {
	found := &v1alpha1.Turn{}
	err := r.Client.Get(ctx, client.ObjectKeyFromObject(session), found)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading the Turn of a sub-agent: %w", err)
	}
	if err != nil || found.Spec.Origin.SubAgentOf() == nil {
		return nil, nil
	}
	return found, nil
}

// delete deletes the Session, if it still is the object that was read, and with it its journal and its Turns.
func (r *Reconciler) delete(ctx context.Context, session *v1alpha1.Session) error {
	err := r.Client.Delete(ctx, session.DeepCopy(), client.Preconditions{UID: &session.UID},
		client.PropagationPolicy(metav1.DeletePropagationBackground))
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("deleting Session %s of a sub-agent: %w", session.Name, err)
	}
	return nil
}

// endedAt returns the time at which a Turn ended.
func endedAt(t *v1alpha1.Turn) time.Time {
	return meta.FindStatusCondition(t.Status.Conditions, v1alpha1.ConditionFinished).LastTransitionTime.Time
}

// ofTurn returns the sub-agents of a Turn that has ended or is gone, and the Session of a sub-agent's Turn.
func (r *Reconciler) ofTurn(ctx context.Context, object client.Object) []reconcile.Request {
	t, ok := object.(*v1alpha1.Turn)
	if !ok {
		return nil
	}
	var requests []reconcile.Request
	if t.Spec.Origin.SubAgentOf() != nil {
		requests = append(requests, request(t.Namespace, t.Spec.SessionRef.Name))
	}
	var sessions v1alpha1.SessionList
	err := r.Client.List(ctx, &sessions, client.InNamespace(t.Namespace),
		client.MatchingFields{fieldindex.CallerUID: string(t.UID)})
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Failed to list the sub-agents of a Turn", "turn", t.Name)
		return requests
	}
	for i := range sessions.Items {
		requests = append(requests, request(t.Namespace, sessions.Items[i].Name))
	}
	return requests
}

func request(namespace, name string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}
}

// newSubAgent passes the Sessions of sub-agents when they appear, also when the manager starts.
func newSubAgent() predicate.Predicate {
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool {
			session, ok := e.Object.(*v1alpha1.Session)
			return ok && session.Spec.Origin.SubAgentOf() != nil
		},
		UpdateFunc: func(event.UpdateEvent) bool { return false },
		DeleteFunc: func(event.DeleteEvent) bool { return false },
	}
}

// ended passes the end and the deletion of Turns, and new Turns of sub-agents: a process that was paused may create one
// after the end of its caller. Turns that existed before the manager started are read with the Sessions of sub-agents.
func ended() predicate.Predicate {
	finished := func(o client.Object) bool {
		t, ok := o.(*v1alpha1.Turn)
		return ok && queue.Finished(t)
	}
	return predicate.Funcs{
		CreateFunc: func(e event.CreateEvent) bool {
			t, ok := e.Object.(*v1alpha1.Turn)
			return ok && !e.IsInInitialList && t.Spec.Origin.SubAgentOf() != nil
		},
		UpdateFunc: func(e event.UpdateEvent) bool { return finished(e.ObjectNew) && !finished(e.ObjectOld) },
	}
}
