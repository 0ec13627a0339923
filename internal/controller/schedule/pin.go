package schedule

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// absence is why the Session of a sessionRef is sent nothing.
type absence struct{ reason, message string }

// pin keeps the UID of the Session that a sessionRef names in the status, for a Schedule that sends messages in the
// name of a user: who may create a Session could otherwise delete that one, and have the messages sent to another. It
// returns why the Session is sent nothing; nil if it is.
func (r *Reconciler) pin(ctx context.Context, s *v1alpha1.Schedule) (*absence, error) {
	of, status := s.Spec.SessionRef, &s.Status
	if s.Spec.SubmittedBy == "" || of == nil || status.ObservedGeneration != s.Generation {
		status.SessionUID = ""
	}
	if of == nil {
		return nil, nil
	}
	uid, err := existing(ctx, r.Client, s)
	if err != nil {
		return nil, err
	}
	if uid != "" && status.SessionUID == "" && s.Spec.SubmittedBy != "" {
		status.SessionUID = uid
		if owner := metav1.GetControllerOf(s); owner != nil && owner.Kind == "Session" {
			status.SessionUID = owner.UID // A model has created it for this Session.
		}
	}
	return absent(s, uid), nil
}

// absent returns why a Session with the name of the sessionRef is sent nothing; nil if it is. Its UID is empty if it
// does not exist.
func absent(s *v1alpha1.Schedule, uid types.UID) *absence {
	name := s.Spec.SessionRef.Name
	switch pinned := s.Status.SessionUID; {
	case uid == "":
		return &absence{
			v1alpha1.ReasonSessionNotFound, "Session " + name + " does not exist. Ticks wait until it is created.",
		}
	case pinned != "" && pinned != uid:
		return &absence{v1alpha1.ReasonSessionReplaced, fmt.Sprintf(
			"Session %s was created again since %s has written the Schedule, whose messages are in the name of this user. "+
				"Ticks wait. Change the spec of the Schedule, or create it again, as the user whose messages they are to be.",
			name, s.Spec.SubmittedBy)}
	default:
		return nil
	}
}

// existing returns the UID of the Session that a sessionRef names; empty for none.
func existing(ctx context.Context, from client.Reader, s *v1alpha1.Schedule) (types.UID, error) {
	found := &v1alpha1.Session{}
	err := from.Get(ctx, types.NamespacedName{Namespace: s.Namespace, Name: s.Spec.SessionRef.Name}, found)
	if client.IgnoreNotFound(err) != nil {
		return "", fmt.Errorf("reading the Session of Schedule %s: %w", s.Name, err)
	}
	if err != nil || !found.DeletionTimestamp.IsZero() {
		return "", nil
	}
	return found.UID, nil
}

// replaced returns why no Turn is created, by the Session as it is past the cache; nil if one is.
func (r *Reconciler) replaced(ctx context.Context, s *v1alpha1.Schedule) (*absence, error) {
	if s.Status.SessionUID == "" || s.Spec.SessionRef == nil {
		return nil, nil
	}
	uid, err := existing(ctx, r.Live, s)
	if err != nil {
		return nil, err
	}
	return absent(s, uid), nil
}
