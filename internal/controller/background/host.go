package background

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller/fieldindex"
	"github.com/capstan-dev/capstan/internal/controller/status"
	"github.com/capstan-dev/capstan/internal/runtime/background"
)

// maxConflicts bounds how often the status of a Session is written again after another write.
const maxConflicts = 20

var _ background.Host = (*Reconciler)(nil)

// Admit implements background.Host: it bounds the tasks of a namespace. Calls that are admitted at the same time may
// exceed the bound by their number.
func (r *Reconciler) Admit(ctx context.Context, of background.Session) error {
	var sessions v1alpha1.SessionList
	err := r.Client.List(ctx, &sessions, client.InNamespace(of.Namespace),
		client.MatchingFields{fieldindex.TaskID: fieldindex.AnyTask})
	if err != nil {
		return fmt.Errorf("listing the Sessions with background tasks: %w", err)
	}
	tasks := 0
	for i := range sessions.Items {
		tasks += len(sessions.Items[i].Status.BackgroundTasks)
	}
	if tasks >= int(r.MaxPerNamespace) {
		return background.TooMany(r.MaxPerNamespace)
	}
	return nil
}

// Changed implements background.Host: it shows the tasks in the status of the Session, which also keeps them from being
// forgotten, and wakes the Session.
func (r *Reconciler) Changed(ctx context.Context, of background.Session) error {
	if err := r.show(ctx, of); err != nil {
		return err
	}
	r.Wakes.Wake(types.NamespacedName{Namespace: of.Namespace, Name: of.Name})
	return nil
}

// errSessionGone reports a Session that does not exist any more, or is being deleted.
var errSessionGone = errors.New("the Session is gone")

// show writes the active tasks of a Session to its status. The Session is read before the records: a status that
// follows from older records loses against one that follows from newer ones.
func (r *Reconciler) show(ctx context.Context, of background.Session) error {
	for range maxConflicts {
		session := &v1alpha1.Session{}
		err := r.Live.Get(ctx, types.NamespacedName{Namespace: of.Namespace, Name: of.Name}, session)
		if apierrors.IsNotFound(err) || err == nil && (session.UID != of.UID || !session.DeletionTimestamp.IsZero()) {
			return errSessionGone
		}
		if err != nil {
			return fmt.Errorf("reading the Session past the cache: %w", err)
		}
		active, err := r.tasks(of).List(ctx, true)
		if err != nil {
			return err
		}
		var shown []v1alpha1.BackgroundTask
		for i := range active {
			shown = append(shown, active[i].Shown())
		}
		if equality.Semantic.DeepEqual(shown, slices.Clone(session.Status.BackgroundTasks)) {
			return nil
		}
		next := session.DeepCopy()
		next.Status.BackgroundTasks = shown
		_, err = status.Patch(ctx, r.Client, session, next)
		if !apierrors.IsConflict(err) {
			return err
		}
	}
	return fmt.Errorf("writing the background tasks of Session %s: its status changes all the time", of.Name)
}

func (r *Reconciler) tasks(of background.Session) *background.Tasks {
	return background.Of(r.Records, of, r.Clock)
}
