package inprocess

import (
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/journal/memory"
)

// The journal of Sessions, which decides what has happened.
type (
	// Store keeps the entries of logs: it creates an entry at an ordinal that is free, and reads it. See NewMemoryStore
	// for one.
	Store = journal.Store
	// LogSession names a log. Its UID follows from the namespace and the name of the Session, so that another Runtime
	// on the same Store finds it.
	LogSession = journal.Session
)

// Errors of a Store.
var (
	// ErrNotFound is the error of a Store for a free ordinal.
	ErrNotFound = journal.ErrNotFound
	// ErrExists is the error of a Store if the ordinal is taken.
	ErrExists = journal.ErrExists
	// ErrRefused is part of a Store's error when it is certain that nothing was written and that trying again is of no
	// use. After any other error of a create, the entry is looked for, and written again.
	ErrRefused = journal.ErrRefused
)

// NewMemoryStore is an empty Store that is lost with the process. Several Runtimes may share it, one after another or
// at once.
func NewMemoryStore() Store {
	return memory.New()
}
