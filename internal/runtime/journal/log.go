package journal

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/event"
)

const (
	// MaxEntryBytes is the maximum size of an entry, as JSON of its spec.
	MaxEntryBytes = 512 * 1024
	// CheckpointInterval is the distance between ordinals that are kept for checkpoints.
	CheckpointInterval = 64
	// DefaultCacheBytes is the bound of the cache of a Log without Options.CacheBytes.
	DefaultCacheBytes = 64 * 1024 * 1024
)

var (
	// ErrNotFound is the error of a Store for a free ordinal.
	ErrNotFound = errors.New("the entry does not exist")
	// ErrExists is the error of a Store if the ordinal is taken.
	ErrExists = errors.New("the entry already exists")
	// ErrRefused is part of a Store's error if it is certain that nothing was written and that a retry is useless: no
	// permission, the namespace is being deleted, the entry violates the schema. After any other error of a create the
	// outcome is unknown.
	ErrRefused = errors.New("the store rejected the entry")
	// ErrInvalid is part of a Store's error, beside ErrRefused, when the entry itself is the reason: another entry may
	// be accepted.
	ErrInvalid = errors.New("the entry is invalid")
	// ErrNoStore is part of a Store's error, beside ErrRefused, when this process has no access to the backend of the
	// Session.
	ErrNoStore = errors.New("this manager has no access to the store of the Session")
	// ErrPostgres is part of the error of a Store in PostgreSQL, beside the cause.
	ErrPostgres = errors.New("in PostgreSQL")
	// ErrFull means that the journal has no room for the record within the Session's limit. A record marked Closing
	// never gets it.
	ErrFull = errors.New("the journal of the Session is full")
	// ErrStale means that a record does not name a settled part that was in the journal before the record could be
	// written: a result was appended that the record does not include. Read Settled again and compose the record again.
	// A record marked Closing gets it only for approvals, and for a call that it reports as not claimed although it
	// was: read Claims again.
	ErrStale = errors.New("the record lacks a tool result that was appended meanwhile")
	// ErrSteered reports a record of a Turn whose message was steered into another Turn: it has no entries of its own.
	ErrSteered = errors.New("the message of the Turn was steered into another Turn")
	// ErrTooLarge means that an indivisible part is larger than an entry.
	ErrTooLarge = errors.New("too large for a journal entry")
	// ErrCorrupt means that the journal is inconsistent: an entry is missing, or does not fit its position.
	ErrCorrupt = errors.New("the journal is damaged")
)

// Store stores entries. Both operations may be ambiguous: after any error, except for those named here, the outcome is
// unknown. Neither side changes entries after they were passed or returned.
type Store interface {
	Reader
	// Create writes an entry at its ordinal. ErrExists when there is one already, an error with ErrRefused when it can
	// never be written.
	Create(ctx context.Context, s Session, e *v1alpha1.JournalEntrySpec) error
}

// Reader reads entries.
type Reader interface {
	// Get reads the current entry at an ordinal: an entry whose create has returned is found. It returns ErrNotFound if
	// there is none.
	Get(ctx context.Context, s Session, ordinal int64) (*v1alpha1.JournalEntrySpec, error)
}

// A DryRunner is a Store that can report the result of a create without writing. The errors are those of Create.
type DryRunner interface {
	DryRun(ctx context.Context, s Session, e *v1alpha1.JournalEntrySpec) error
}

// Options are settings of a Log.
type Options struct {
	// CacheBytes bounds the memory of cached views and entries. Default 64 MiB.
	CacheBytes int64
	// MaxBytes bounds every journal, whatever the limit of its Session; 0 for no bound.
	MaxBytes int64
	// MaxNamespaceBytes bounds the journals of each namespace together; 0 for no bound.
	MaxNamespaceBytes int64
	// Clock returns the times of entries. Default time.Now.
	Clock func() time.Time
	// OnEntry is called with each entry that the Log has written, or has found for a Turn. It returns at once. It may be
	// nil.
	OnEntry func(session types.UID, ordinal int64)
	// Follow is what those who follow a journal read from: the same entries, as soon as the Log has written them. Default:
	// the store of the Log.
	Follow Reader
	// BeforeFollow waits until one who follows a journal may read an entry from the store. It may be nil.
	BeforeFollow func(ctx context.Context, namespace string) error
}

// Turn names the Turn that an entry belongs to.
type Turn = v1alpha1.JournalTurn

// Record is the content that closes a step.
type Record struct {
	// Turn and Step that are closed.
	Turn Turn
	Step int32
	// OpenedAt is the first ordinal at which the final entry of the step may be, as the Turn's plan has it.
	OpenedAt int64
	// Digest of the Turn's message, in the record of its first step.
	Digest string
	// Events in order. Those without an id get the one that follows from the step.
	Events []event.Event
	// Calls that the step planned. Their ids are unique.
	Calls []PlannedCall
	// Context is the part of the prompts of the Turn's later steps beside the messages; nil for the last step.
	Context *PinnedContext
	// Compaction shortens the conversation before the events of the record; nil for none.
	Compaction *Compaction
	// Steered are the Turns whose messages, which are among the events, go into this one behind the step.
	Steered []RecordedTurn
	// Parts are the ordinals of the settled parts that the record includes.
	Parts []int64
	// Unclaimed are the calls that the record reports as never started because no process has claimed them.
	Unclaimed []string
	// Transition is the new progress of the Turn.
	Transition v1alpha1.TurnProgress
	// Closing exempts the record from the Session's limit and from taking in every settled part but approvals: for
	// cancel and failure, which must always fit.
	Closing bool
}

// Closed is a step that was closed. It is shared: callers may change Transition, and nothing else.
type Closed struct {
	// Ordinal of the final entry.
	Ordinal int64
	// Adopted reports whether another writer closed the step.
	Adopted bool
	// Time at which the final entry was written.
	Time metav1.MicroTime
	// Turn and Step that were closed.
	Turn Turn
	Step int32
	// Events of all parts, in order.
	Events []event.Event
	// Calls that the step planned.
	Calls []PlannedCall
	// Steered are the Turns whose messages are steered into this one after the step.
	Steered []RecordedTurn
	// Context is the part of the prompts of the Turn's later steps beside the messages; nil for none.
	Context *PinnedContext
	// Compaction shortens the conversation before the events; nil for none.
	Compaction *Compaction
	// Settled are the settled parts that the record took in.
	Settled []SettledRef
	// Transition is the new progress of the Turn. If its plan has no openedAt, it is the ordinal after this entry.
	Transition v1alpha1.TurnProgress
	// Digest of the Turn's message, if this was the Turn's first step.
	Digest string
}

// View is the journal folded up to its head. It is shared and must not be changed.
type View struct {
	// Head is the ordinal of the newest entry, 0 for an empty journal.
	Head int64
	// Bytes is the size of all entries.
	Bytes int64
	// NextSequence is the sequence number that the next event will have, from 1 (EVT-02). Events of parts that do not
	// count have none.
	NextSequence int64
	// Messages are the conversation: the whole transcript, or what the newest compaction has left of it, and what came
	// after that.
	Messages []event.Message
	// Turns are the Turns whose first step is closed or whose message was steered into another one, by name. Of several
	// of one name the first counts.
	Turns map[string]RecordedTurn
	// Context is where the journal has the context that it had last; nil for none.
	Context *ContextRef
	// Conversation is the size of what prompts are made of, in bytes: stored images, and all entries, or what the newest
	// compaction has kept and the entries since then.
	Conversation int64
	// Tokens is the number of tokens that the newest model call took, with its response, and Measured the number of
	// messages up to that. Both are 0 if they are not known, or the conversation was compacted since.
	Tokens   int64
	Measured int
}

// Log gives access to the journals of any number of Sessions on one Store. It is safe for concurrent use.
type Log struct {
	store  Store
	follow Reader
	clock  func() time.Time
	cache  *cache

	onEntry      func(session types.UID, ordinal int64)
	beforeFollow func(ctx context.Context, namespace string) error

	maxBytes, maxNamespaceBytes int64
	ledger                      ledger
	stored                      atomic.Bool
}

// New is a Log on a store.
func New(store Store, opts Options) *Log {
	if opts.CacheBytes <= 0 {
		opts.CacheBytes = DefaultCacheBytes
	}
	if opts.Clock == nil {
		opts.Clock = time.Now
	}
	if opts.Follow == nil {
		opts.Follow = store
	}
	return &Log{
		store: store, follow: opts.Follow, clock: opts.Clock, cache: newCache(opts.CacheBytes), maxBytes: opts.MaxBytes,
		maxNamespaceBytes: opts.MaxNamespaceBytes, onEntry: opts.OnEntry, beforeFollow: opts.BeforeFollow,
	}
}

// Stored reports whether the store has accepted an entry of this Log. A dry run does not prove that: a full database or
// an overloaded server loses entries too.
func (l *Log) Stored() bool { return l.stored.Load() }

// Forget drops the state of a Session that is gone.
func (l *Log) Forget(s Session) {
	l.ledger.forget(s)
	l.cache.forget(s.UID)
}

// KnownBytes is the size of all entries of a Session as far as they are in the cache; 0 for a Session that is not.
func (l *Log) KnownBytes(session types.UID) int64 {
	if st := l.cache.state(session); st != nil {
		return st.bytes()
	}
	return 0
}

// CachedBytes estimates the memory that the cache takes. It is never more than Options.CacheBytes.
func (l *Log) CachedBytes() int64 {
	return l.cache.bytes()
}
