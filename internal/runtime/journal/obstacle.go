package journal

import (
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/backoff"
)

// Obstacle is why nothing can be appended to the journal of a Session. No model is called and no tool is started until
// it is gone.
type Obstacle struct {
	// Reason of the condition that reports it.
	Reason string
	// Message returns the problem and its remedy.
	Message string
}

const (
	// firstCheck and lastCheck bound the pauses between two checks of a journal that cannot be appended to.
	firstCheck = 10 * time.Second
	lastCheck  = 5 * time.Minute
)

// ObstacleOf returns the meaning of a Log's error for its Session; nil for an error that may be transient.
func ObstacleOf(err error, session string) *Obstacle {
	switch {
	case errors.Is(err, ErrNoStore):
		return &Obstacle{v1alpha1.ReasonStoreUnavailable, fmt.Sprintf(
			"The journal of Session %q is in a store that this manager is not configured for (%s). Configure the manager "+
				"for it, or continue in a new Session.", session, causeText(err, ErrNoStore))}
	case errors.Is(err, ErrFormat):
		return &Obstacle{v1alpha1.ReasonJournalFormatUnsupported, fmt.Sprintf(
			"A later version of the manager has written to the journal of Session %q (%s). Upgrade the manager, or "+
				"continue in a new Session.",
			session, causeText(err, ErrFormat))}
	case errors.Is(err, ErrCorrupt):
		return &Obstacle{v1alpha1.ReasonJournalDamaged, fmt.Sprintf(
			"The journal of Session %q cannot be appended to (%s). Restore it from a backup of its store, etcd or "+
				"PostgreSQL, or continue in a new Session.",
			session, causeText(err, ErrCorrupt))}
	case errors.Is(err, ErrRefused):
		return &Obstacle{v1alpha1.ReasonJournalRefused, fmt.Sprintf(
			"%s rejects journal entries for Session %q: %s. Remove the cause, such as %s.",
			storeOf(err).name, session, causeText(err, ErrRefused), storeOf(err).refusals)}
	default:
		return nil
	}
}

// NotStored is the obstacle of a Session whose entries the store has accepted and not stored, or could not accept,
// several times. Only a successful append shows that it is gone.
func NotStored(err error, session string) *Obstacle {
	return &Obstacle{
		v1alpha1.ReasonJournalRefused,
		fmt.Sprintf(
			"%s does not store journal entries for Session %q: %s. Check %s.",
			storeOf(err).name, session, causeText(err, ErrRefused), storeOf(err).health,
		),
	}
}

// Pause returns the time until the next check, after a number of consecutive checks that have found the obstacle.
func (o *Obstacle) Pause(looks int) time.Duration {
	if o.Reason != v1alpha1.ReasonJournalRefused {
		return lastCheck
	}
	return backoff.Exponential{First: firstCheck, Factor: 2, Longest: lastCheck}.After(looks)
}

// causeText returns the cause of an error without its context: the API server's own text if there is one.
func causeText(err, kind error) string {
	var status apierrors.APIStatus
	text := err.Error()
	if errors.As(err, &status) {
		text = status.Status().Message
	} else if at := strings.LastIndex(text, kind.Error()); at > 0 && !errors.Is(kind, ErrRefused) {
		text = text[at:]
	}
	return strings.TrimSuffix(strings.ReplaceAll(text, "\n", ": "), ".")
}

// wording is how messages name a store, what may make it refuse entries, and what is to be checked if it stores none.
type wording struct{ name, refusals, health string }

// storeOf returns the wording for the store that an error is from.
func storeOf(err error) wording {
	if errors.Is(err, ErrPostgres) {
		return wording{
			"PostgreSQL", "a missing permission or a full disk",
			"the connections, the space and the health of the PostgreSQL server",
		}
	}
	return wording{
		"The API server", "a ResourceQuota, a policy or a missing permission",
		"the load of the API server, and the space and health of etcd",
	}
}
