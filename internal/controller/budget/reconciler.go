package budget

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller/fieldindex"
	"github.com/capstan-dev/capstan/internal/controller/notice"
	"github.com/capstan-dev/capstan/internal/controller/pacing"
	"github.com/capstan-dev/capstan/internal/controller/wake"
	"github.com/capstan-dev/capstan/internal/runtime/budget"
	"github.com/capstan-dev/capstan/internal/runtime/budget/keeper"
	"github.com/capstan-dev/capstan/internal/runtime/queue"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
)

// Reconciler keeps the status of Budgets up to date between model calls.
type Reconciler struct {
	// Client reads from the cache.
	Client client.Client
	// Live reads past the cache.
	Live client.Reader
	// Keeper writes all changes.
	Keeper *keeper.Keeper
	// Clock returns the current time.
	Clock func() time.Time
	// Wakes enqueues Budgets after the clock has jumped.
	Wakes *wake.Source
	// Notices records an Event when a Budget is exhausted. Nil records none.
	Notices *notice.Recorder

	left leftovers
}

// +kubebuilder:rbac:groups=capstan.dev,resources=budgets,verbs=get;list;watch
// +kubebuilder:rbac:groups=capstan.dev,resources=budgets/status,verbs=patch

// SetupWithManager registers the reconciler.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	if err := mgr.Add(flusher{r.Keeper}); err != nil {
		return fmt.Errorf("adding the writer of Budgets: %w", err)
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named("budget").
		For(&v1alpha1.Budget{}).
		Watches(&v1alpha1.Session{}, handler.Funcs{UpdateFunc: r.relabelled}).
		Watches(&v1alpha1.Turn{}, handler.EnqueueRequestsFromMapFunc(r.ofTurn), builder.WithPredicates(movedOn())).
		WatchesRawSource(r.Wakes).
		WithOptions(pacing.Options(1)).
		Complete(r)
}

// Reconcile learns the current version of a Budget, counts reservations in full whose outcome nobody knows any more,
// and writes the status if the spec or the window has changed.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	b := &v1alpha1.Budget{}
	if err := r.Client.Get(ctx, req.NamespacedName, b); err != nil {
		if client.IgnoreNotFound(err) != nil {
			return ctrl.Result{}, fmt.Errorf("reading the Budget: %w", err)
		}
		r.Keeper.Gone(req.NamespacedName, "")
		r.left.set(req.NamespacedName, nil)
		return ctrl.Result{}, nil
	}
	r.Keeper.Gone(req.NamespacedName, b.UID)
	r.Keeper.Observe(b)
	if err := r.forfeit(ctx, b); err != nil {
		return ctrl.Result{}, err
	}
	now := r.Clock()
	r.notify(b, now)
	if outdated(b, now) {
		r.Keeper.Refresh(b)
		return ctrl.Result{}, nil
	}
	if end := b.Status.WindowEnd; end != nil && used(b) {
		return ctrl.Result{RequeueAfter: max(end.Sub(now), time.Millisecond)}, nil
	}
	return ctrl.Result{}, nil
}

// outdated reports whether the status is about an earlier spec, or about an earlier window in which something was
// spent.
func outdated(b *v1alpha1.Budget, now time.Time) bool {
	end := b.Status.WindowEnd
	return b.Status.ObservedGeneration != b.Generation || end != nil && !now.Before(end.Time) && used(b)
}

// used reports whether the end of the window changes the balance of the Budget. An unused one is not written.
func used(b *v1alpha1.Budget) bool {
	s := &b.Status
	return s.Spent != "" && s.Spent != "0" || s.Reserved != "" && s.Reserved != "0" ||
		meta.IsStatusConditionTrue(s.Conditions, v1alpha1.ConditionExhausted)
}

// forfeit counts reservations of earlier processes in full whose Turns have moved on, and watches those of the others.
func (r *Reconciler) forfeit(ctx context.Context, b *v1alpha1.Budget) error {
	foreign := r.Keeper.Foreign(b)
	open := make([]types.UID, len(foreign))
	for i, key := range foreign {
		open[i] = key.Turn
	}
	// They are watched before they are read: a change that the cache does not have yet enqueues the Budget again.
	r.left.set(client.ObjectKeyFromObject(b), open)
	live := &liveTurns{client: r.Live, namespace: b.Namespace}
	for _, key := range foreign {
		moved, err := r.hasMovedOn(ctx, live, key)
		if err != nil {
			return err
		}
		if moved {
			forfeits.Inc()
			r.Keeper.Forfeit(b, key)
		}
	}
	return nil
}

// hasMovedOn reports whether the step of a reservation has ended. The process that has made it may still run, and the
// cache of this one may be behind: a Turn that it shows at an earlier step has yet to open that of the reservation, and
// one that it does not have is gone only if the API server does not have it either.
func (r *Reconciler) hasMovedOn(ctx context.Context, live *liveTurns, key budget.Key) (bool, error) {
	var turns v1alpha1.TurnList
	err := r.Client.List(ctx, &turns, client.InNamespace(live.namespace),
		client.MatchingFields{fieldindex.UID: string(key.Turn)}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return false, fmt.Errorf("finding the Turn of a reservation: %w", err)
	}
	for i := range turns.Items {
		turn := &turns.Items[i]
		return queue.Finished(turn) || turn.Status.Plan != nil && turn.Status.Plan.Step > key.Step, nil
	}
	exists, err := live.has(ctx, key.Turn)
	return !exists, err
}

// pageSize is how many Turns are read at once past the cache.
const pageSize = 500

// liveTurns are the Turns of a namespace that the API server has. They are read once, when the first is looked for: the
// API server finds Turns by name alone. Reservations of an earlier process were made before that.
type liveTurns struct {
	client    client.Reader
	namespace string
	uids      sets.Set[types.UID]
}

// has reports whether the API server has a Turn.
func (l *liveTurns) has(ctx context.Context, turn types.UID) (bool, error) {
	if l.uids == nil {
		uids, err := l.read(ctx)
		if err != nil {
			return false, err
		}
		l.uids = uids
	}
	return l.uids.Has(turn), nil
}

func (l *liveTurns) read(ctx context.Context) (sets.Set[types.UID], error) {
	uids := sets.Set[types.UID]{}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("TurnList"))
	for {
		err := l.client.List(ctx, list, client.InNamespace(l.namespace), client.Limit(pageSize),
			client.Continue(list.Continue))
		if err != nil {
			return nil, fmt.Errorf("finding the Turns of reservations past the cache: %w", err)
		}
		for i := range list.Items {
			uids.Insert(list.Items[i].UID)
		}
		if list.Continue == "" {
			return uids, nil
		}
	}
}

// noticeAge is how old an exhaustion may be that an Event is recorded about: a new process records none about old ones.
const noticeAge = time.Minute

// notify records an Event about a Budget that was exhausted just now.
func (r *Reconciler) notify(b *v1alpha1.Budget, now time.Time) {
	c := meta.FindStatusCondition(b.Status.Conditions, v1alpha1.ConditionExhausted)
	if c == nil || c.Status != metav1.ConditionTrue || now.Sub(c.LastTransitionTime.Time) > noticeAge {
		return
	}
	r.Notices.Record(b, notice.Notice{
		Warning: true, Reason: v1alpha1.ReasonBudgetExhausted, Action: "Reserve", Message: c.Message,
	})
}

// ofTurn wakes the Budgets with reservations of an earlier process for the Turn.
func (r *Reconciler) ofTurn(_ context.Context, object client.Object) []reconcile.Request {
	var requests []reconcile.Request
	for _, key := range r.left.of(object.GetUID()) {
		requests = append(requests, reconcile.Request{NamespacedName: key})
	}
	return requests
}

// relabelled wakes the Turns that wait for Budgets of a Session whose labels have changed.
func (r *Reconciler) relabelled(
	_ context.Context, e event.UpdateEvent, _ workqueue.TypedRateLimitingInterface[reconcile.Request],
) {
	before, okBefore := e.ObjectOld.(*v1alpha1.Session)
	after, okAfter := e.ObjectNew.(*v1alpha1.Session)
	if okBefore && okAfter && !turnstate.SameLabels(before, after) {
		r.Keeper.Relabelled(after.UID)
	}
}

// movedOn passes the changes of Turns after which another step is open, or none, and Turns that the cache did not have.
func movedOn() predicate.Predicate {
	step := func(t *v1alpha1.Turn) int32 {
		if t.Status.Plan == nil {
			return 0
		}
		return t.Status.Plan.Step
	}
	return predicate.Funcs{
		UpdateFunc: func(e event.UpdateEvent) bool {
			before, okBefore := e.ObjectOld.(*v1alpha1.Turn)
			after, okAfter := e.ObjectNew.(*v1alpha1.Turn)
			return okBefore && okAfter && (step(before) != step(after) || queue.Finished(before) != queue.Finished(after) ||
				before.UID != after.UID)
		},
	}
}

// leftovers are the Turns with open reservations of earlier processes, by Budget.
type leftovers struct {
	mu      sync.Mutex
	budgets map[types.NamespacedName][]types.UID
}

// set sets the Turns of a Budget.
func (l *leftovers) set(key types.NamespacedName, turns []types.UID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.budgets == nil {
		l.budgets = map[types.NamespacedName][]types.UID{}
	}
	if len(turns) == 0 {
		delete(l.budgets, key)
		return
	}
	l.budgets[key] = turns
}

// of returns the Budgets of a Turn.
func (l *leftovers) of(turn types.UID) []types.NamespacedName {
	l.mu.Lock()
	defer l.mu.Unlock()
	var keys []types.NamespacedName
	for key, turns := range l.budgets {
		for _, uid := range turns {
			if uid == turn {
				keys = append(keys, key)
				break
			}
		}
	}
	return keys
}

// flushLimit is how long the manager waits at its end until settlements are stored. What is not counts in full.
const flushLimit = 5 * time.Second

// flusher stores the last settlements when the manager ends.
type flusher struct{ keeper *keeper.Keeper }

// Start implements manager.Runnable.
func (f flusher) Start(ctx context.Context) error {
	<-ctx.Done()
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushLimit)
	defer cancel()
	if err := f.keeper.Flush(limited); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Failed to store the last settlements of Budgets; they count in full")
	}
	return nil
}
