package memory

import "github.com/capstan-dev/capstan/internal/runtime/record"

// Scope is whose memories are used.
type Scope string

// The scopes of memories.
const (
	// ScopeSession is the Session alone.
	ScopeSession Scope = "session"
)

// Of is a scope in the descriptions of tools.
func (s Scope) Of() string {
	return "of this session"
}

// Host has the memories that the calls of a Session may use.
type Host struct {
	// Records has the stores.
	Records record.Store
	// Session of the calls.
	Session record.Session
}

// Of returns the memories of a scope.
func (h *Host) Of(Scope) (*Memories, error) {
	return Of(h.Records, h.Session), nil
}
