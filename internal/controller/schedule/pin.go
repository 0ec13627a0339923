package schedule

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/schedule"
)

// absence is why the Session of a sessionRef is sent nothing.
type absence struct{ reason, message string }

// shown reports whether the condition shows the absence rather than what follows from the time: a Session that was
// replaced also while the Schedule is suspended, and of one that has completed while its Turn is still to be created.
func (a *absence) shown(s *v1alpha1.Schedule, reason string) bool {
	switch reason {
	case v1alpha1.ReasonReady:
		return true
	case v1alpha1.ReasonSuspended:
		return a.reason == v1alpha1.ReasonSessionReplaced
	case v1alpha1.ReasonCompleted:
		return schedule.Pending(s)
	default:
		return false
	}
}

// pin keeps the UID of the Session that a sessionRef names in the status, for a Schedule that sends messages in the
// name of a user: who may create a Session could otherwise delete that one, and have the messages sent to another. It
// returns why the Session is sent nothing; nil if it is.
func (r *Reconciler) pin(ctx context.Context, s *scope) (*absence, error) {
	next, status := s.next, &s.next.Status
	switch {
	case next.Spec.SubmittedBy == "" || next.Spec.SessionRef == nil:
		status.SessionUID, status.SessionSpec = "", ""
	case status.SessionSpec == "" || status.ObservedGeneration != next.Generation:
		whole, err := r.whole(ctx, s)
		if err != nil {
			return nil, err
		}
		digest, err := authored(whole)
		if err != nil {
			return nil, err
		}
		if digest != status.SessionSpec {
			status.SessionUID, status.SessionSpec = "", digest
		}
	}
	if next.Spec.SessionRef == nil {
		return nil, nil
	}
	uid, err := existing(ctx, r.Client, next)
	if err != nil {
		return nil, err
	}
	if uid != "" && status.SessionUID == "" && next.Spec.SubmittedBy != "" {
		status.SessionUID = uid
		if owner := metav1.GetControllerOf(next); owner != nil && owner.Kind == "Session" {
			status.SessionUID = owner.UID // A model has created it for this Session.
		}
	}
	return absent(next, uid), nil
}

// authored returns a digest of what the user in submittedBy has written: the spec without suspend, which any author may
// set.
func authored(s *v1alpha1.Schedule) (string, error) {
	spec := s.Spec.DeepCopy()
	spec.Suspend = nil
	text, err := json.Marshal(spec)
	if err != nil {
		return "", fmt.Errorf("encoding the spec of Schedule %s: %w", s.Name, err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), nil
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
				"Ticks wait. Change the spec of the Schedule, other than suspend, or create it again, as the user whose messages "+
				"they are to be.",
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
