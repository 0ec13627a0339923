// Package modelprobe asks the providers of Models with spec.probe whether they accept the Model.
package modelprobe

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller/pacing"
	"github.com/capstan-dev/capstan/internal/controller/policies"
	"github.com/capstan-dev/capstan/internal/controller/status"
	"github.com/capstan-dev/capstan/internal/controller/wake"
	"github.com/capstan-dev/capstan/internal/runtime/condition"
	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/runtime/model/probe"
)

const (
	// workers is the number of probes that run at once, of which a namespace has one.
	workers = 8
	// minPause is the least time between two probes of a Model.
	minPause = 10 * time.Second
	// policiesPause is the time until a probe is tried again whose Secret must not be read now.
	policiesPause = time.Minute
)

// Prober probes Models.
type Prober interface {
	// ProbeModel returns what a probe has found. The error is a *model.KeyError for a Model without its API key.
	ProbeModel(ctx context.Context, m *v1alpha1.Model) (probe.Result, error)
}

// Reconciler keeps the condition Reachable of Models.
type Reconciler struct {
	// Client reads from the cache and writes.
	Client client.Client
	// Clock returns the current time.
	Clock func() time.Time
	// Prober probes Models.
	Prober Prober
	// Policies prevents reads of Secrets while an admission policy of the installation is missing. Nil prevents
	// nothing.
	Policies *policies.Verifier

	places places
	// wakes has the Models that have waited for a place.
	wakes wake.Source

	mu     sync.Mutex
	probed map[types.NamespacedName]attempt
}

// attempt is the last probe of a Model by this process, which its status may not show yet.
type attempt struct {
	uid        types.UID
	generation int64
	at         time.Time
	result     probe.Result
}

// Reconcile probes one Model, if that is due.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	defer func() {
		if next, ok := r.places.next(req.Namespace); ok {
			r.wakes.Wake(next)
		}
	}()
	base := &v1alpha1.Model{}
	if err := r.Client.Get(ctx, req.NamespacedName, base); err != nil {
		if client.IgnoreNotFound(err) == nil {
			r.forget(req.NamespacedName)
		}
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	next := base.DeepCopy()
	if base.Spec.Probe == nil || base.Spec.Provider == v1alpha1.ModelProviderSimulated {
		r.forget(req.NamespacedName)
		meta.RemoveStatusCondition(&next.Status.Conditions, v1alpha1.ConditionReachable)
		next.Status.LastProbeTime = nil
		return status.Write(ctx, r.Client, base, next)
	}
	last := r.last(base)
	pause, due := wait(base, last, r.Clock())
	if due && pause == 0 {
		if r.Policies.InForce() != nil {
			return ctrl.Result{RequeueAfter: policiesPause}, nil
		}
		if !r.places.enter(req.NamespacedName) {
			return ctrl.Result{}, nil
		}
		var err error
		if last, err = r.probe(ctx, base); err != nil {
			return ctrl.Result{}, err
		}
	}
	if last.generation != base.Generation || !newer(last, base) {
		return ctrl.Result{RequeueAfter: pause}, nil
	}
	reachable := metav1.ConditionFalse
	if last.result.Reachable {
		reachable = metav1.ConditionTrue
	}
	condition.Set(
		&next.Status.Conditions,
		base.Generation,
		metav1.NewTime(last.at),
		v1alpha1.ConditionReachable,
		reachable,
		last.result.Reason,
		last.result.Message,
	)
	next.Status.LastProbeTime = &metav1.Time{Time: last.at.Truncate(time.Second)}
	result, err := status.Write(ctx, r.Client, base, next)
	if err != nil || result.RequeueAfter > 0 {
		return result, err
	}
	pause, _ = wait(next, last, r.Clock())
	return ctrl.Result{RequeueAfter: pause}, nil
}

// wait is the time until the next probe of a Model; false if none is due before its spec changes. A Model that is not
// Ready is not probed: it is looked at again once it is.
func wait(m *v1alpha1.Model, last attempt, now time.Time) (time.Duration, bool) {
	ready := meta.FindStatusCondition(m.Status.Conditions, v1alpha1.ConditionReady)
	if ready == nil || ready.Status != metav1.ConditionTrue || ready.ObservedGeneration != m.Generation {
		return 0, false
	}
	before := last.at
	if t := m.Status.LastProbeTime; t != nil && t.After(before) {
		before = t.Time
	}
	reachable := meta.FindStatusCondition(m.Status.Conditions, v1alpha1.ConditionReachable)
	current := reachable != nil && reachable.ObservedGeneration == m.Generation || last.generation == m.Generation
	switch interval := m.Spec.Probe.Interval; {
	case !current:
		return max(before.Add(minPause).Sub(now), 0), true
	case interval != nil:
		return max(before.Add(max(interval.Duration, time.Minute)).Sub(now), 0), true
	default:
		return 0, false
	}
}

// newer reports whether a probe is newer than the one that the status shows.
func newer(last attempt, m *v1alpha1.Model) bool {
	reachable := meta.FindStatusCondition(m.Status.Conditions, v1alpha1.ConditionReachable)
	shown := m.Status.LastProbeTime
	return reachable == nil || shown == nil || reachable.ObservedGeneration != m.Generation ||
		last.at.Truncate(time.Second).After(shown.Time)
}

// probe probes a Model, and gives the place of its namespace back.
func (r *Reconciler) probe(ctx context.Context, m *v1alpha1.Model) (attempt, error) {
	defer r.places.leave(m.Namespace)
	result, err := r.Prober.ProbeModel(ctx, m)
	var key *model.KeyError
	switch {
	case errors.As(err, &key):
		result = probe.Result{Reason: key.Reason, Message: key.Problem}
	case err != nil:
		return attempt{}, fmt.Errorf("probing Model %s: %w", m.Name, err)
	}
	last := attempt{uid: m.UID, generation: m.Generation, at: r.Clock(), result: result}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.probed == nil {
		r.probed = map[types.NamespacedName]attempt{}
	}
	r.probed[client.ObjectKeyFromObject(m)] = last
	return last, nil
}

// last returns the last probe of this process.
func (r *Reconciler) last(m *v1alpha1.Model) attempt {
	r.mu.Lock()
	defer r.mu.Unlock()
	if last := r.probed[client.ObjectKeyFromObject(m)]; last.uid == m.UID {
		return last
	}
	return attempt{}
}

// forget drops what is known of a Model that is not probed any more.
func (r *Reconciler) forget(key types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.probed, key)
}

// checked passes Models whose condition Ready has another value, or is about another spec.
func checked() predicate.Predicate {
	ready := func(o client.Object) metav1.Condition {
		if c := meta.FindStatusCondition(status.Conditions(o), v1alpha1.ConditionReady); c != nil {
			return metav1.Condition{Status: c.Status, ObservedGeneration: c.ObservedGeneration}
		}
		return metav1.Condition{}
	}
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool { return ready(e.ObjectOld) != ready(e.ObjectNew) }}
}

// SetupWithManager registers the reconciler. It runs for a Model that changes, and for one that was checked.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager) error {
	own := builder.WithPredicates(predicate.Or(status.SpecChanged(), checked()))
	err := ctrl.NewControllerManagedBy(mgr).Named("modelprobe").For(&v1alpha1.Model{}, own).
		WatchesRawSource(&r.wakes).WithOptions(pacing.Options(workers)).Complete(r)
	if err != nil {
		return fmt.Errorf("setting up the probes of Models: %w", err)
	}
	return nil
}
