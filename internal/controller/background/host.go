package background

import (
	"context"
	"errors"
	"fmt"
	"slices"

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

// Announce implements background.Host: it shows the task in the status of the Session before it is recorded.
func (r *Reconciler) Announce(ctx context.Context, of background.Session, t *background.Task) error {
	return r.show(ctx, of, t)
}

// Changed implements background.Host. The status shows every task, so that the next manager looks at them, too.
func (r *Reconciler) Changed(of background.Session) {
	r.Wakes.Wake(types.NamespacedName{Namespace: of.Namespace, Name: of.Name})
}

// admit bounds the tasks of a namespace. Calls that are admitted at the same time may exceed the bound by their number.
func (r *Reconciler) admit(ctx context.Context, namespace string) error {
	var sessions v1alpha1.SessionList
	err := r.Client.List(ctx, &sessions, client.InNamespace(namespace),
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

// errSessionGone reports a Session that does not exist any more, or is being deleted.
var errSessionGone = errors.New("the Session is gone")

// show adds a task to those that the status of the Session shows.
func (r *Reconciler) show(ctx context.Context, of background.Session, t *background.Task) error {
	for range maxConflicts {
		session := &v1alpha1.Session{}
		err := r.Live.Get(ctx, types.NamespacedName{Namespace: of.Namespace, Name: of.Name}, session)
		if apierrors.IsNotFound(err) || err == nil && (session.UID != of.UID || !session.DeletionTimestamp.IsZero()) {
			return errSessionGone
		}
		if err != nil {
			return fmt.Errorf("reading the Session past the cache: %w", err)
		}
		shown := session.Status.BackgroundTasks
		if slices.ContainsFunc(shown, func(s v1alpha1.BackgroundTask) bool { return s.ID == t.ID }) {
			return nil
		}
		if err := r.admit(ctx, of.Namespace); err != nil {
			return err
		}
		if len(shown) >= background.MaxActive {
			if shown, err = r.tasks(of).Left(ctx, shown); err != nil {
				return err
			}
		}
		next := session.DeepCopy()
		if next.Status.BackgroundTasks, err = background.Announce(shown, t); err != nil {
			return err
		}
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
