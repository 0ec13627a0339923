package record

import "k8s.io/apimachinery/pkg/types"

// Session names the Session that stores belong to.
type Session struct {
	// Namespace, Name and UID of the Session.
	Namespace, Name string
	UID             types.UID
}

// Scope returns a store of the Session.
func (s Session) Scope(store string) Scope {
	return Scope{Namespace: s.Namespace, Session: s.Name, UID: s.UID, Store: store}
}
