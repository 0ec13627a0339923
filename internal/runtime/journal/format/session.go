package format

import "k8s.io/apimachinery/pkg/types"

// Session names a journal.
type Session struct {
	// Namespace and Name of the Session.
	Namespace, Name string
	// UID of the Session. The journal belongs to it alone: a Session that is created again under the name has another
	// journal.
	UID types.UID
	// Limit is the maximum size of the journal in bytes; 0 means no limit.
	Limit int64
}
