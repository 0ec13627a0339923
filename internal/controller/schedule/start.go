package schedule

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/schedule"
)

// replace cancels the Turns that a later tick replaces.
func (r *Reconciler) replace(ctx context.Context, s *scope) error {
	for _, tick := range schedule.Replaced(s.next) {
		known := s.turn(tick.Name)
		if tick.UID == "" || known != nil && known.Spec.DesiredState == v1alpha1.DesiredStateCancelled {
			continue
		}
		turn := &v1alpha1.Turn{ObjectMeta: metav1.ObjectMeta{Namespace: s.base.Namespace, Name: tick.Name}}
		patch := fmt.Sprintf(`{"metadata":{"uid":%q},"spec":{"desiredState":%q}}`, tick.UID, v1alpha1.DesiredStateCancelled)
		err := r.Client.Patch(ctx, turn, client.RawPatch(types.MergePatchType, []byte(patch)))
		if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
			return fmt.Errorf("cancelling Turn %s, which a later tick replaces: %w", tick.Name, err)
		}
	}
	return nil
}

// start creates the missing objects of active ticks, and records the UIDs of their Turns. Those of a Schedule that is
// suspended wait.
func (r *Reconciler) start(ctx context.Context, s *scope) error {
	if !schedule.Pending(s.next) || schedule.Suspended(s.next) {
		return nil
	}
	whole, err := r.whole(ctx, s)
	if err != nil {
		return err
	}
	missing, err := r.replaced(ctx, whole)
	if err != nil {
		return err
	}
	if missing != nil {
		s.show(missing.reason, missing.message, false)
		return r.record(ctx, s)
	}
	for i := range s.next.Status.Active {
		tick := &s.next.Status.Active[i]
		if tick.UID != "" {
			continue
		}
		if tick.UID, err = r.create(ctx, whole, tick.Tick.Time); err != nil {
			return r.refused(ctx, s, err)
		}
	}
	s.show(s.verdict.Reason, s.verdict.Message, s.verdict.Stalled)
	return r.record(ctx, s)
}

// whole reads the Schedule past the cache, which leaves messages out. Its ticks must be those of the pass: another
// process may have started them since, and their Turns may have ended.
func (r *Reconciler) whole(ctx context.Context, s *scope) (*v1alpha1.Schedule, error) {
	whole := &v1alpha1.Schedule{}
	err := r.Live.Get(ctx, client.ObjectKeyFromObject(s.base), whole)
	switch {
	case apierrors.IsNotFound(err), err == nil && (whole.UID != s.base.UID || !whole.DeletionTimestamp.IsZero()):
		return nil, errGone
	case err != nil:
		return nil, fmt.Errorf("reading Schedule %s past the cache: %w", s.base.Name, err)
	case whole.ResourceVersion != s.base.ResourceVersion:
		return nil, errStale
	}
	return whole, nil
}

// create creates the Turn of a tick, and before it its Session, and returns the UID of the Turn. Objects that exist are
// adopted.
func (r *Reconciler) create(ctx context.Context, s *v1alpha1.Schedule, tick time.Time) (types.UID, error) {
	if session := schedule.NewSession(s, tick); session != nil {
		if err := r.createOrAdopt(ctx, s, tick, session); err != nil {
			return "", fmt.Errorf("creating Session %s of Schedule %s: %w", session.Name, s.Name, err)
		}
	}
	turn := schedule.NewTurn(s, tick)
	if err := r.createOrAdopt(ctx, s, tick, turn); err != nil {
		return "", fmt.Errorf("creating Turn %s of Schedule %s: %w", turn.Name, s.Name, err)
	}
	return turn.UID, nil
}

// takenError reports that another object has the name of one of a tick.
type takenError struct{ name string }

// Error implements error.
func (e *takenError) Error() string { return "another object has the name " + e.name }

// createOrAdopt creates an object of a tick. One that exists is read instead.
func (r *Reconciler) createOrAdopt(
	ctx context.Context, s *v1alpha1.Schedule, tick time.Time, o client.Object,
) error {
	err := r.Client.Create(ctx, o)
	switch {
	case err == nil:
		return nil
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return errGone
	case !apierrors.IsAlreadyExists(err):
		return err
	}
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil {
		return fmt.Errorf("reading the existing one past the cache: %w", err)
	}
	if !schedule.Runs(originOf(o), s.UID, tick) {
		return &takenError{o.GetName()}
	}
	return nil
}

// originOf returns the tick that a Session or a Turn was created for; nil for none.
func originOf(o client.Object) *v1alpha1.ScheduleOrigin {
	switch o := o.(type) {
	case *v1alpha1.Session:
		return o.Spec.Origin.ScheduleOf()
	case *v1alpha1.Turn:
		return o.Spec.Origin.ScheduleOf()
	default:
		return nil
	}
}
