package turnstate

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// Admission is the beginning of a Turn that became the active one of its Session.
type Admission struct {
	// OpenedAtOrdinal is the first ordinal at which the entry that closes the first step may be.
	OpenedAtOrdinal int64
	// At is when the first step began; zero if it was not recorded.
	At metav1.MicroTime
	// Continues is the W3C trace context that the Turn continues; empty for a trace of its own.
	Continues string
}

// AdmissionOf returns the admission of the active Turn of a Session. Recorded values count only if they
// belong to it: the merge patch of a manager of an earlier version, which does not know them, keeps those of the Turn
// before.
func AdmissionOf(session *v1alpha1.Session) Admission {
	active := session.Status.ActiveTurn
	if active == nil || active.AdmittedUID != active.UID || active.AdmittedAt == nil || active.OpenedAtOrdinal == 0 {
		return Admission{OpenedAtOrdinal: session.Status.Journal.Head + 1}
	}
	return Admission{OpenedAtOrdinal: active.OpenedAtOrdinal, At: *active.AdmittedAt, Continues: active.TraceParent}
}
