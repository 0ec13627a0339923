package schedule

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller/fieldindex"
	"github.com/capstan-dev/capstan/internal/runtime/queue"
	"github.com/capstan-dev/capstan/internal/runtime/schedule"
)

// cleanUp deletes the Turns and Sessions that the history limits do not keep, and those of ticks that are over: a
// process that was paused may create them late.
func (r *Reconciler) cleanUp(ctx context.Context, s *scope) error {
	var sessions v1alpha1.SessionList
	err := r.Client.List(ctx, &sessions, client.InNamespace(s.base.Namespace),
		client.MatchingFields{fieldindex.ScheduleUID: string(s.base.UID)})
	if err != nil {
		return fmt.Errorf("listing the Sessions of Schedule %s: %w", s.base.Name, err)
	}
	var doomed []client.Object
	kept := map[string]bool{}
	over := dropped(s.base, s.turns)
	for i := range s.turns {
		turn := &s.turns[i]
		late := !queue.Finished(turn) && !schedule.Active(s.base, turn.Name)
		if late || slices.Contains(over, turn) {
			doomed = append(doomed, turn)
			continue
		}
		kept[turn.Name] = true
	}
	for i := range sessions.Items {
		if session := &sessions.Items[i]; !kept[session.Name] && !schedule.Active(s.base, session.Name) {
			doomed = append(doomed, session)
		}
	}
	doomed = slices.DeleteFunc(doomed, func(o client.Object) bool { return !o.GetDeletionTimestamp().IsZero() })
	if len(doomed) == 0 {
		return nil
	}
	// What the cache shows as over may have begun since.
	if _, err := r.whole(ctx, s); err != nil {
		return err
	}
	for _, o := range doomed {
		if err := r.delete(ctx, o); err != nil {
			return err
		}
	}
	return nil
}

// delete deletes an object, if it still is the one that was read. A Session on hold stays.
func (r *Reconciler) delete(ctx context.Context, o client.Object) error {
	uid := o.GetUID()
	err := r.Client.Delete(ctx, o, client.Preconditions{UID: &uid},
		client.PropagationPolicy(metav1.DeletePropagationBackground))
	switch {
	case err == nil, apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return nil
	case apierrors.IsForbidden(err):
		ctrl.LoggerFrom(ctx).V(1).Info("A Session of a Schedule is kept", "session", o.GetName(), "reason", err.Error())
		return nil
	}
	return fmt.Errorf("deleting %T %s of a Schedule: %w", o, o.GetName(), err)
}
