package schedule

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller/fieldindex"
	"github.com/capstan-dev/capstan/internal/controller/status"
	"github.com/capstan-dev/capstan/internal/controller/wake"
	"github.com/capstan-dev/capstan/internal/runtime/condition"
	"github.com/capstan-dev/capstan/internal/runtime/queue"
	"github.com/capstan-dev/capstan/internal/runtime/schedule"
)

// staleRetry is the pause before a pass is repeated whose view of the Schedule was stale.
const staleRetry = 100 * time.Millisecond

// Reconciler creates the Turns of Schedules.
type Reconciler struct {
	// Client reads from the cache and writes.
	Client client.Client
	// Live reads past the cache.
	Live client.Reader
	// Clock returns the current time.
	Clock func() time.Time
	// Wakes enqueues Schedules, when the Clock has jumped.
	Wakes *wake.Source
}

// +kubebuilder:rbac:groups=capstan.dev,resources=schedules,verbs=get;list;watch
// +kubebuilder:rbac:groups=capstan.dev,resources=schedules/status,verbs=patch
// +kubebuilder:rbac:groups=capstan.dev,resources=sessions,verbs=get;list;watch;create;delete
// +kubebuilder:rbac:groups=capstan.dev,resources=turns,verbs=get;list;watch;create;patch;delete

// scope is the data of one pass.
type scope struct {
	// base is the Schedule as it was read or written last, next with the changes of this pass.
	base, next *v1alpha1.Schedule
	// turns are those of the Schedule in the cache.
	turns []v1alpha1.Turn
	// verdict is what follows from the time.
	verdict schedule.Verdict
	// blocked reports whether a tick is due that has to wait for something other than the time.
	blocked bool
	now     time.Time
}

// Reconcile brings one Schedule up to date.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	base := &v1alpha1.Schedule{}
	if err := r.Client.Get(ctx, req.NamespacedName, base); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !base.DeletionTimestamp.IsZero() {
		return ctrl.Result{}, nil
	}
	s := &scope{base: base, next: base.DeepCopy(), now: r.Clock()}
	for _, phase := range []func(context.Context, *scope) error{
		r.gather, r.settle, r.decide, r.record, r.start, r.replace, r.cleanUp,
	} {
		err := phase(ctx, s)
		switch {
		case apierrors.IsConflict(err), errors.Is(err, errStale):
			return ctrl.Result{RequeueAfter: staleRetry}, nil
		case errors.Is(err, errGone):
			return ctrl.Result{}, nil
		case err != nil:
			return ctrl.Result{}, err
		}
	}
	return ctrl.Result{RequeueAfter: s.pause(r.Clock())}, nil
}

// errStale reports that the cache shows an earlier state of the Schedule than the API server, and errGone that the
// Schedule does not exist any more.
var (
	errStale = errors.New("the Schedule has changed")
	errGone  = errors.New("the Schedule is gone")
)

// pause returns the time until the next tick; zero if nothing is to be done at a later time.
func (s *scope) pause(now time.Time) time.Duration {
	if s.blocked || s.verdict.Next.IsZero() {
		return 0
	}
	return max(s.verdict.Next.Sub(now), time.Millisecond)
}

// gather reads the Turns of the Schedule.
func (r *Reconciler) gather(ctx context.Context, s *scope) error {
	var list v1alpha1.TurnList
	err := r.Client.List(ctx, &list, client.InNamespace(s.base.Namespace),
		client.MatchingFields{fieldindex.ScheduleUID: string(s.base.UID)})
	if err != nil {
		return fmt.Errorf("listing the Turns of Schedule %s: %w", s.base.Name, err)
	}
	s.turns = list.Items
	return nil
}

// turn returns a Turn of the Schedule from the cache; nil for none.
func (s *scope) turn(name string) *v1alpha1.Turn {
	for i := range s.turns {
		if s.turns[i].Name == name {
			return &s.turns[i]
		}
	}
	return nil
}

// settle drops the ticks whose Turns have ended, or were deleted.
func (r *Reconciler) settle(ctx context.Context, s *scope) error {
	active := s.next.Status.Active[:0:0]
	for _, tick := range s.next.Status.Active {
		found := s.turn(tick.Name)
		if found == nil && tick.UID != "" {
			var err error
			if found, err = r.live(ctx, s, tick.Name); err != nil {
				return err
			}
			if found != nil && schedule.Runs(originOf(found), s.base.UID, tick.Tick.Time) {
				s.turns = append(s.turns, *found)
			}
		}
		switch {
		case found != nil && queue.Finished(found):
			continue
		case tick.UID != "" && (found == nil || found.UID != tick.UID):
			continue
		case found != nil:
			tick.UID = found.UID
		}
		active = append(active, tick)
	}
	s.next.Status.Active = slices.Clip(active)
	return nil
}

// live reads a Turn of the Schedule past the cache; nil if it does not exist.
func (r *Reconciler) live(ctx context.Context, s *scope, name string) (*v1alpha1.Turn, error) {
	found := &v1alpha1.Turn{}
	err := r.Live.Get(ctx, types.NamespacedName{Namespace: s.base.Namespace, Name: name}, found)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading Turn %s past the cache: %w", name, err)
	}
	if err != nil {
		return nil, nil
	}
	return found, nil
}

// decide adds the tick that is due, unless it has to wait, and shows the next one.
func (r *Reconciler) decide(ctx context.Context, s *scope) error {
	next := s.next
	s.verdict = schedule.Decide(next, s.now)
	v := &s.verdict
	missing, err := r.pin(ctx, s)
	if err != nil {
		return err
	}
	switch {
	case v.Due.IsZero():
	case missing != nil || !schedule.Admits(next, next.Status.Active):
		s.blocked = true
	default:
		schedule.Begin(next, v.Due)
		if next.Spec.At != nil {
			*v = schedule.Decide(next, s.now)
		}
	}
	if missing != nil && missing.shown(next, v.Reason) {
		v.Reason, v.Message = missing.reason, missing.message
	}
	next.Status.ObservedGeneration = next.Generation
	if !s.blocked {
		next.Status.NextScheduleTime = nil
		if !v.Next.IsZero() {
			at := metav1.NewTime(v.Next.UTC())
			next.Status.NextScheduleTime = &at
		}
	}
	if !failing(next) {
		s.show(v.Reason, v.Message, v.Stalled)
	}
	return nil
}

// failing reports whether the condition shows a tick that cannot be started, and that is still to be.
func failing(s *v1alpha1.Schedule) bool {
	for _, c := range s.Status.Conditions {
		if c.Type == v1alpha1.ConditionReady &&
			(c.Reason == v1alpha1.ReasonStartFailing || c.Reason == v1alpha1.ReasonNameTaken) {
			return !schedule.Suspended(s) && schedule.Pending(s)
		}
	}
	return false
}

// show sets the conditions.
func (s *scope) show(reason, message string, stalled bool) {
	ready := metav1.ConditionFalse
	switch reason {
	case v1alpha1.ReasonReady, v1alpha1.ReasonSuspended, v1alpha1.ReasonCompleted:
		ready = metav1.ConditionTrue
	}
	at, conditions := metav1.NewTime(s.now), &s.next.Status.Conditions
	condition.Set(conditions, s.next.Generation, at, v1alpha1.ConditionReady, ready, reason, message)
	condition.SetStalled(conditions, s.next.Generation, at, stalled, reason, message)
}

// record writes the status. From then on the tick exists.
func (r *Reconciler) record(ctx context.Context, s *scope) error {
	next := s.next.DeepCopy()
	changed, err := status.Patch(ctx, r.Client, s.base, next)
	if apierrors.IsNotFound(err) {
		return errGone
	}
	if err != nil || !changed {
		return err
	}
	s.base, s.next = next, next.DeepCopy()
	return nil
}
