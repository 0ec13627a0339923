package inprocess

import (
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/journal/memory"
)

// The journal of Sessions, which decides what has happened.
type (
	// Store stores journal entries: it creates an entry at a free ordinal, and reads entries. NewMemoryStore returns
	// one.
	Store = journal.Store
	// LogSession identifies a journal. Its UID is derived from the namespace and the name of the Session, so that
	// another Runtime on the same Store finds it.
	LogSession = journal.Session
)

// Errors of a Store.
var (
	// ErrNotFound is the error of a Store for a free ordinal.
	ErrNotFound = journal.ErrNotFound
	// ErrExists is the error of a Store if the ordinal is taken.
	ErrExists = journal.ErrExists
	// ErrRefused is part of a Store's error if it is certain that nothing was written and that a retry is useless.
	// After any other error of a create, the entry is read, and written again if it is missing.
	ErrRefused = journal.ErrRefused
)

// NewMemoryStore is an empty Store that is lost with the process. Several Runtimes may share it, one after another or
// at once.
func NewMemoryStore() Store {
	return memory.New()
}
