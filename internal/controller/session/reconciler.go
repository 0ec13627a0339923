package session

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller/layers"
	"github.com/capstan-dev/capstan/internal/controller/queue"
	"github.com/capstan-dev/capstan/internal/controller/status"
	"github.com/capstan-dev/capstan/internal/controller/turn"
	"github.com/capstan-dev/capstan/internal/controller/wake"
	"github.com/capstan-dev/capstan/internal/controller/watchdog"
	"github.com/capstan-dev/capstan/internal/runtime/host"
)

// lagRetry is when a pass that found the cache behind the API server is repeated, if no watch event comes first.
const lagRetry = 5 * time.Second

// Reconciler admits and releases Turns.
type Reconciler struct {
	// Client reads from the cache and writes.
	Client client.Client
	// Live reads past the cache.
	Live client.Reader
	// Host closes the step of an active Turn that was deleted.
	Host *host.Host
	// Slots bound how many Turns are active at once.
	Slots *Slots
	// Wakes is where slots that came free announce their Session.
	Wakes *wake.Source
	// Clock tells the time.
	Clock func() time.Time
	// Watchdog is told of every pass.
	Watchdog *watchdog.Watchdog

	known memory
}

// +kubebuilder:rbac:groups=capstan.dev,resources=sessions;turns;harnesses;agents;models;tools,verbs=get;list;watch
// +kubebuilder:rbac:groups=capstan.dev,resources=sessions/status,verbs=patch
// +kubebuilder:rbac:groups=capstan.dev,resources=journalentries,verbs=get;create

// scope is what one pass works on.
type scope struct {
	session, base *v1alpha1.Session
	turns         []*v1alpha1.Turn
	active        *v1alpha1.Turn
	usable        bool
	requeue       time.Duration
}

// Reconcile brings one Session up to date: readiness, release, admission, and at most one write.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	s, err := r.open(ctx, req.NamespacedName)
	if err != nil || s == nil {
		return ctrl.Result{}, err
	}
	if r.behind(s) {
		return ctrl.Result{RequeueAfter: lagRetry}, nil
	}
	if err := r.readiness(ctx, s); err != nil {
		return ctrl.Result{}, fmt.Errorf("resolving what the Session names: %w", err)
	}
	if err := r.release(ctx, s); err != nil {
		return ctrl.Result{}, fmt.Errorf("releasing: %w", err)
	}
	if err := r.admit(ctx, s); err != nil {
		return ctrl.Result{}, fmt.Errorf("admitting: %w", err)
	}
	if err := r.write(ctx, s); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: s.requeue}, nil
}

// open fetches the Session and its Turns. It gives nil for a Session that is gone or going.
func (r *Reconciler) open(ctx context.Context, key types.NamespacedName) (*scope, error) {
	session := &v1alpha1.Session{}
	err := r.Client.Get(ctx, key, session)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading the Session: %w", err)
	}
	if err != nil || !session.DeletionTimestamp.IsZero() {
		if uid, ok := r.known.forget(key); ok {
			r.Slots.Release(uid, key)
		}
		return nil, nil
	}
	if old, replaced := r.known.see(key, session.UID); replaced {
		r.Slots.Release(old, key)
	}
	s := &scope{session: session.DeepCopy(), base: session.DeepCopy()}
	var list v1alpha1.TurnList
	if err := r.Client.List(ctx, &list, client.InNamespace(key.Namespace), client.MatchingFields{turn.IndexSessionName: key.Name}); err != nil {
		return nil, fmt.Errorf("listing the Session's Turns: %w", err)
	}
	for i := range list.Items {
		s.turns = append(s.turns, &list.Items[i])
	}
	return s, nil
}

// behind says that the cache shows less of the Session than this process has written.
func (r *Reconciler) behind(s *scope) bool {
	written := r.known.written(client.ObjectKeyFromObject(s.session))
	if written == "" {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(s.session.ResourceVersion, written)
	return err == nil && order < 0
}

// readiness says whether all that the Session names exists.
func (r *Reconciler) readiness(ctx context.Context, s *scope) error {
	resolved, err := layers.Resolve(ctx, r.Client, s.session)
	if err != nil {
		return err
	}
	reason, message := resolved.Problem(s.session)
	s.usable = reason == ""
	setReady(s.session, reason, message, metav1.NewTime(r.Clock()))
	return nil
}

// release clears the active Turn once it has ended. A Turn that was deleted while it was active has its open step closed first, so that
// nothing of it can still be decided afterwards (law 2).
func (r *Reconciler) release(ctx context.Context, s *scope) error {
	active := s.session.Status.ActiveTurn
	if active == nil {
		return nil
	}
	for _, t := range s.turns {
		if t.UID == active.UID {
			s.active = t
		}
	}
	if s.active == nil {
		gone, err := r.gone(ctx, s, active)
		if err != nil || !gone {
			return err
		}
		closed, err := r.Host.Abandon(ctx, host.JournalOf(s.session), v1alpha1.JournalTurn{Name: active.Name, UID: active.UID}, s.session.Status.Journal.Head+1)
		if err != nil {
			return err
		}
		addTotals(&s.session.Status.Totals, closed.Transition.Summary)
		s.session.Status.Journal.Head = max(s.session.Status.Journal.Head, closed.Ordinal)
		s.session.Status.ActiveTurn = nil
		r.yield(s)
		return nil
	}
	if !queue.Finished(s.active) {
		return nil
	}
	if ran(s.active) {
		addTotals(&s.session.Status.Totals, s.active.Status.Summary)
	}
	if plan := s.active.Status.Plan; plan != nil && plan.OpenedAt > 0 {
		s.session.Status.Journal.Head = max(s.session.Status.Journal.Head, plan.OpenedAt-1)
	}
	s.session.Status.ActiveTurn, s.active = nil, nil
	r.yield(s)
	return r.measure(ctx, s)
}

// yield gives the place of a Turn that has ended back before the next one is admitted: without it a Session whose Turns never end would keep
// its place, and who waits for one would wait for ever. When nobody does, admission takes it again.
func (r *Reconciler) yield(s *scope) {
	r.Slots.Release(s.session.UID, client.ObjectKeyFromObject(s.session))
}

// measure brings the size of the log up to date.
func (r *Reconciler) measure(ctx context.Context, s *scope) error {
	view, err := r.Host.Log.View(ctx, host.JournalOf(s.session), s.session.Status.Journal.Head)
	if err != nil {
		return fmt.Errorf("reading the log: %w", err)
	}
	s.session.Status.Journal = v1alpha1.JournalStatus{Head: view.Head, Bytes: view.Bytes}
	return nil
}

// gone says that the active Turn does not exist any more; the cache alone is not enough to know.
func (r *Reconciler) gone(ctx context.Context, s *scope, active *v1alpha1.ActiveTurn) (bool, error) {
	found := &v1alpha1.Turn{}
	err := r.Live.Get(ctx, types.NamespacedName{Namespace: s.session.Namespace, Name: active.Name}, found)
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading Turn %s past the cache: %w", active.Name, err)
	}
	if found.UID == active.UID {
		s.requeue = lagRetry
		return false, nil
	}
	return true, nil
}

// admit makes the next Turn the active one, if the Session can be used and there is a slot.
func (r *Reconciler) admit(ctx context.Context, s *scope) error {
	key := client.ObjectKeyFromObject(s.session)
	if s.session.Status.ActiveTurn != nil {
		r.Slots.Hold(s.session.UID, key)
		return nil
	}
	next := queue.Next(s.turns)
	if next == nil || !s.usable {
		return nil
	}
	if !r.Slots.Acquire(s.session.UID, key) {
		return nil
	}
	current := &v1alpha1.Turn{}
	err := r.Live.Get(ctx, client.ObjectKeyFromObject(next), current)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading Turn %s past the cache: %w", next.Name, err)
	}
	if err != nil || current.UID != next.UID || !queue.Runnable(current) {
		// The cache lags: what it will show wakes the Session.
		s.requeue = lagRetry
		return nil
	}
	s.session.Status.ActiveTurn = &v1alpha1.ActiveTurn{Name: next.Name, UID: next.UID, QueueEnd: queue.End(s.turns)}
	return nil
}

// write brings the status to the API server under optimistic lock, and gives the slot back when nothing is active.
func (r *Reconciler) write(ctx context.Context, s *scope) error {
	key := client.ObjectKeyFromObject(s.session)
	s.session.Status.Phase = phaseOf(&s.session.Status, s.active, s.usable)
	s.session.Status.ObservedGeneration = s.session.Generation
	changed, err := status.Patch(ctx, r.Client, s.base, s.session)
	if apierrors.IsConflict(err) {
		s.requeue = lagRetry
		return nil
	}
	if err != nil {
		return fmt.Errorf("writing the status: %w", err)
	}
	if changed {
		r.known.wrote(key, s.session.ResourceVersion)
	}
	if s.session.Status.ActiveTurn == nil && s.requeue == 0 && (queue.Next(s.turns) == nil || !s.usable) {
		r.Slots.Release(s.session.UID, key)
	}
	return nil
}
