package schedule

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/schedule"
)

// maxEnded is the number of Schedules of a Session that models have created, that create no Turns any more, and that
// are kept.
const maxEnded = 20

// modelPrefix begins the names of the Schedules that models create.
const modelPrefix = "model-"

var _ schedule.Host = (*Reconciler)(nil)

// +kubebuilder:rbac:groups=capstan.dev,resources=schedules,verbs=get;list;create;patch;delete

// Create implements schedule.Host.
func (r *Reconciler) Create(ctx context.Context, of schedule.Owner, request schedule.Request) (*schedule.Entry, error) {
	existing, err := r.owned(ctx, of, nameOf(of, request.Key))
	if err != nil {
		return nil, err
	}
	if existing != nil {
		return r.entry(existing), nil
	}
	if err := request.Check(r.Clock()); err != nil {
		return nil, err
	}
	if err := r.admit(ctx, of); err != nil {
		return nil, err
	}
	own := newSchedule(of, request)
	err = r.Client.Create(ctx, own)
	switch {
	case err == nil:
		return r.entry(own), nil
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return nil, schedule.Limitf("the session is being deleted")
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err):
		return nil, schedule.Limitf("the cluster refuses it")
	case !apierrors.IsAlreadyExists(err):
		return nil, fmt.Errorf("creating Schedule %s: %w", own.Name, err)
	}
	if existing, err = r.owned(ctx, of, own.Name); err != nil {
		return nil, err
	}
	if existing == nil {
		return nil, schedule.Limitf("its name is taken")
	}
	return r.entry(existing), nil
}

// List implements schedule.Host.
func (r *Reconciler) List(ctx context.Context, of schedule.Owner) ([]schedule.Entry, error) {
	all, err := r.all(ctx, of)
	if err != nil {
		return nil, err
	}
	entries := make([]schedule.Entry, 0, len(all))
	for i := range all {
		entries = append(entries, *r.entry(&all[i]))
	}
	return entries, nil
}

// Cancel implements schedule.Host.
func (r *Reconciler) Cancel(ctx context.Context, of schedule.Owner, name string) (*schedule.Entry, error) {
	s, err := r.owned(ctx, of, name)
	if err != nil || s == nil {
		return nil, err
	}
	if s.Spec.Suspend == nil || !*s.Spec.Suspend {
		patch := fmt.Sprintf(`{"metadata":{"uid":%q},"spec":{"suspend":true}}`, s.UID)
		err := r.Client.Patch(ctx, s, client.RawPatch(types.MergePatchType, []byte(patch)))
		if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("suspending Schedule %s: %w", name, err)
		}
	}
	return r.entry(s), nil
}

// admit bounds the Schedules that models create, and deletes the oldest of those that have ended. Calls of several
// Sessions that are admitted at the same time may exceed the bound of the namespace by their number.
func (r *Reconciler) admit(ctx context.Context, of schedule.Owner) error {
	own, err := r.all(ctx, of)
	if err != nil {
		return err
	}
	ended := slices.DeleteFunc(slices.Clone(own), func(s v1alpha1.Schedule) bool { return !over(&s) })
	if active := len(own) - len(ended); active >= schedule.MaxPerSession {
		return schedule.Limitf("this session has %d active schedules, and at most %d are permitted. Cancel one with %s",
			active, schedule.MaxPerSession, schedule.CancelTool)
	}
	var list v1alpha1.ScheduleList
	err = r.Client.List(ctx, &list, client.InNamespace(of.Namespace), client.UnsafeDisableDeepCopy,
		client.MatchingLabels{v1alpha1.LabelManagedBy: v1alpha1.ManagedByCapstan})
	if err != nil {
		return fmt.Errorf("listing the Schedules of models: %w", err)
	}
	active := 0
	for i := range list.Items {
		if !over(&list.Items[i]) {
			active++
		}
	}
	if active >= schedule.MaxPerNamespace {
		return schedule.Limitf("the namespace has %d active schedules of models, and no more are permitted", active)
	}
	for i := range ended[:max(0, len(ended)-maxEnded+1)] {
		if err := r.delete(ctx, &ended[i]); err != nil {
			return err
		}
	}
	return nil
}

// over reports whether a Schedule creates no Turns any more, unless a user changes it.
func over(s *v1alpha1.Schedule) bool {
	ready := meta.FindStatusCondition(s.Status.Conditions, v1alpha1.ConditionReady)
	return s.Spec.Suspend != nil && *s.Spec.Suspend || ready != nil && ready.Reason == v1alpha1.ReasonCompleted
}

// all returns the Schedules that models have created for a Session, past the cache, in the order of their creation.
func (r *Reconciler) all(ctx context.Context, of schedule.Owner) ([]v1alpha1.Schedule, error) {
	var list v1alpha1.ScheduleList
	err := r.Live.List(ctx, &list, client.InNamespace(of.Namespace), client.MatchingLabels{
		v1alpha1.LabelManagedBy: v1alpha1.ManagedByCapstan, v1alpha1.LabelSessionUID: string(of.UID),
	})
	if err != nil {
		return nil, fmt.Errorf("listing the Schedules of Session %s past the cache: %w", of.Name, err)
	}
	own := slices.DeleteFunc(list.Items, func(s v1alpha1.Schedule) bool { return !ownedBy(&s, of) })
	slices.SortStableFunc(own, func(a, b v1alpha1.Schedule) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	return own, nil
}

// owned returns a Schedule that a model has created for a Session, past the cache; nil for none.
func (r *Reconciler) owned(ctx context.Context, of schedule.Owner, name string) (*v1alpha1.Schedule, error) {
	s := &v1alpha1.Schedule{}
	err := r.Live.Get(ctx, types.NamespacedName{Namespace: of.Namespace, Name: name}, s)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading Schedule %s past the cache: %w", name, err)
	}
	if err != nil || !ownedBy(s, of) {
		return nil, nil
	}
	return s, nil
}

// ownedBy reports whether a model has created a Schedule for a Session.
func ownedBy(s *v1alpha1.Schedule, of schedule.Owner) bool {
	owner := metav1.GetControllerOf(s)
	return owner != nil && owner.UID == of.UID && s.Labels[v1alpha1.LabelManagedBy] == v1alpha1.ManagedByCapstan
}

// nameOf returns the name of the Schedule that a call creates.
func nameOf(of schedule.Owner, key string) string {
	sum := sha256.Sum256([]byte(string(of.UID) + "/" + key))
	return modelPrefix + hex.EncodeToString(sum[:8])
}

// newSchedule returns the Schedule of a request.
func newSchedule(of schedule.Owner, request schedule.Request) *v1alpha1.Schedule {
	controller := true
	s := &v1alpha1.Schedule{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: of.Namespace, Name: nameOf(of, request.Key),
			Labels: map[string]string{
				v1alpha1.LabelManagedBy: v1alpha1.ManagedByCapstan, v1alpha1.LabelSessionUID: string(of.UID),
			},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: v1alpha1.GroupVersion.String(), Kind: "Session", Name: of.Name, UID: of.UID, Controller: &controller,
			}},
		},
		Spec: v1alpha1.ScheduleSpec{
			Schedule: request.Schedule, TimeZone: request.TimeZone, SubmittedBy: request.SubmittedBy,
			ConcurrencyPolicy: v1alpha1.ConcurrencyPolicyForbid,
			SessionRef:        &v1alpha1.LocalReference{Name: of.Name},
			Turn:              v1alpha1.ScheduledTurn{Input: request.Message, Delivery: v1alpha1.DeliveryQueue},
		},
	}
	if !request.At.IsZero() {
		at := metav1.NewTime(request.At)
		s.Spec.At = &at
	}
	return s
}

// entry returns what a model is shown of a Schedule.
func (r *Reconciler) entry(s *v1alpha1.Schedule) *schedule.Entry {
	e := &schedule.Entry{
		Name: s.Name, Message: s.Spec.Turn.Input, Schedule: s.Spec.Schedule, TimeZone: s.Spec.TimeZone,
		Ticks: s.Status.Ticks, Next: schedule.Decide(s, r.Clock()).Next, Enabled: !over(s),
	}
	if s.Spec.At != nil {
		e.At = s.Spec.At.UTC()
		e.Enabled = e.Enabled && s.Status.LastScheduleTime == nil
	}
	if last := s.Status.LastScheduleTime; last != nil {
		e.Last = last.UTC()
	}
	return e
}
