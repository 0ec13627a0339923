package record

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

const (
	// MaxValueBytes is the maximum size of a value.
	MaxValueBytes = 512 << 10
	// MaxKeyBytes is the maximum length of a key.
	MaxKeyBytes = 512
	// MaxKeys is the maximum number of keys of a store. With the size of the index it bounds the memory of an operation.
	MaxKeys = 4096
	// MaxStoreBytes is the maximum size of all values of a store.
	MaxStoreBytes = 16 << 20
	// MaxResultBytes is the maximum size of the result of an operation.
	MaxResultBytes = 1 << 10
	// MaxChanges is the maximum number of keys that one operation writes.
	MaxChanges = 1024

	// maxLabelBytes is the maximum length of an encoding and of a kind, and maxCauseBytes that of the key of a cause.
	maxLabelBytes = 32
	maxCauseBytes = 256
)

// Scope names a store.
type Scope struct {
	// Namespace and UID are those of the object that the store belongs to.
	Namespace string
	UID       types.UID
	// Session is the name of the Session that the store belongs to, MCPServer that of the MCPServer, or Secret that of the
	// Secret. One is set.
	Session, MCPServer, Secret string
	// Store is the name of the store, such as files.
	Store string
}

// Owner is the object that the store belongs to, for messages.
func (s Scope) Owner() string {
	switch {
	case s.MCPServer != "":
		return "MCPServer " + s.Namespace + "/" + s.MCPServer
	case s.Secret != "":
		return "Secret " + s.Namespace + "/" + s.Secret
	default:
		return "Session " + s.Namespace + "/" + s.Session
	}
}

// Item is the entry of a key in an index.
type Item struct {
	// Key is unique in the store.
	Key string
	// Revision of the store that wrote the value.
	Revision int64
	// Size of the value in bytes.
	Size int64
	// Encoding and Kind are those that the value was written with.
	Encoding, Kind string
	// Created is when the key was written first, Modified when it was written last.
	Created, Modified time.Time

	inline []byte
	blob   string
}

// Put writes the value of a key.
type Put struct {
	// Key is unique in the store.
	Key string
	// Value to write.
	Value []byte
	// Encoding and Kind describe the value. The store only keeps them.
	Encoding, Kind string
}

// Cause identifies an operation. The zero Cause is for operations of Update that decide by the content of the store
// whether they were carried out already: no outcome of them is kept.
type Cause struct {
	// Step orders the causes: it is the ordinal in the journal at which the step of a Turn was opened. An operation
	// without a step happens once in the life of the store.
	Step int64
	// Key is unique in the step. The Turn's UID is a part of it.
	Key string
}

// none reports whether no outcome is kept under the cause.
func (c Cause) none() bool { return c == Cause{} }

// Operation is an atomic change of several keys.
type Operation struct {
	// Cause of the operation.
	Cause Cause
	// Expect are the revisions of keys that the operation depends on, 0 for a key that does not exist.
	Expect map[string]int64
	// Put are the values to write, Delete the keys to delete. A key occurs once in them.
	Put    []Put
	Delete []string
	// Result is kept with the outcome.
	Result []byte
}

// Outcome is the outcome of an operation.
type Outcome struct {
	// Revision of the store after the operation.
	Revision int64
	// Result that the operation was carried out with first.
	Result []byte
}

// Store has keys with values. It is safe for concurrent use.
type Store interface {
	// Get reads a key with its value. The error is ErrNotFound for a key that does not exist.
	Get(ctx context.Context, scope Scope, key string) (Item, []byte, error)
	// List reads the index of a store: its keys at one moment.
	List(ctx context.Context, scope Scope) (*Index, error)
	// Load reads the value of an item of an index. The error is ErrNotFound if the key was changed since.
	Load(ctx context.Context, scope Scope, item Item) ([]byte, error)
	// Apply carries out an operation, or returns its outcome if it was carried out before. The error is a
	// *ConflictError, an error with ErrFull, ErrInvalid, ErrStale or ErrRefused, or leaves open whether the operation was
	// carried out.
	Apply(ctx context.Context, scope Scope, operation Operation) (Outcome, error)
	// Update carries out the operation that decide returns for the index as it is, as Apply does, or nothing if it
	// returns nil. It calls decide again when the index was changed meanwhile, and not at all if an operation of the cause
	// was carried out before. An error of decide ends it; with ErrNotFound, for a value that was changed since, it is
	// tried again.
	Update(ctx context.Context, scope Scope, cause Cause, decide Decide) (Outcome, error)
}

// Decide returns the operation that is to change a store with an index; nil for none. The cause of it is not read.
type Decide func(ctx context.Context, index *Index) (*Operation, error)

var (
	// ErrNotFound reports a key, an index or a blob that does not exist.
	ErrNotFound = errors.New("the record does not exist")
	// ErrChanged reports an index that was changed since it was read.
	ErrChanged = errors.New("the index was changed")
	// ErrRefused reports a write that the server would refuse again. Nothing was written.
	ErrRefused = errors.New("the write was refused")
	// ErrFull reports an operation for which the store has no room.
	ErrFull = errors.New("the store is full")
	// ErrInvalid reports an operation that no store carries out.
	ErrInvalid = errors.New("the operation is invalid")
	// ErrStale reports an operation of a step after which another step has changed the store.
	ErrStale = errors.New("a later step has changed the store")
	// ErrFormat reports an index or a blob in a form that this build does not know. Nothing is concluded from it.
	ErrFormat = errors.New("a record has an unknown format")
)

// ConflictError reports a key that does not have the expected revision. Nothing was written.
type ConflictError struct {
	// Key has Revision, not the Expected one.
	Key                string
	Revision, Expected int64
}

// Error implements error.
func (e *ConflictError) Error() string {
	return fmt.Sprintf("the key %q has revision %d, not %d", e.Key, e.Revision, e.Expected)
}
