package journal

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// createAttempts bounds how often a create whose outcome is not known is tried, always at the same ordinal.
const createAttempts = 3

// entry is an entry of the journal with its size as JSON. It never changes.
type entry struct {
	spec *v1alpha1.JournalEntrySpec
	size int64
}

func newEntry(spec *v1alpha1.JournalEntrySpec) (*entry, error) {
	raw, err := json.Marshal(spec)
	if err != nil {
		return nil, fmt.Errorf("encoding the entry at ordinal %d: %w", spec.Ordinal, err)
	}
	return &entry{spec: spec, size: int64(len(raw))}, nil
}

// cost estimates the memory of the entry: its text, and Go's overhead.
func (e *entry) cost() int64 {
	size := e.size
	if c := e.spec.Checkpoint; c != nil {
		size = int64(len(c.Transcript))
	}
	return size + 512 + 512*int64(len(e.spec.Events)) + 128*int64(len(e.spec.Calls))
}

// light returns the entry without the fields that only a reader without a cache needs, so that checkpoints do not fill
// the cache.
func (e *entry) light() *entry {
	if e.spec.Checkpoint == nil {
		return e
	}
	spec := *e.spec
	spec.Checkpoint = &v1alpha1.JournalCheckpoint{
		From: e.spec.Checkpoint.From, Events: e.spec.Checkpoint.Events, Bytes: e.spec.Checkpoint.Bytes,
	}
	return &entry{spec: &spec, size: e.size}
}

// get reads the entry at an ordinal, from the cache if it is there. ErrNotFound always comes from the store.
func (l *Log) get(ctx context.Context, s Session, ordinal int64) (*entry, error) {
	if e := l.cache.entry(s.UID, ordinal); e != nil {
		return e, nil
	}
	e, err := l.fetch(ctx, s, ordinal)
	if err != nil {
		return nil, err
	}
	e = e.light()
	l.cache.putEntry(s.UID, e)
	return e, nil
}

// fetch reads the entry at an ordinal from the store.
func (l *Log) fetch(ctx context.Context, s Session, ordinal int64) (*entry, error) {
	spec, err := l.store.Get(ctx, s, ordinal)
	if errors.Is(err, ErrNotFound) {
		return nil, ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("reading the entry at ordinal %d of Session %s/%s: %w", ordinal, s.Namespace, s.Name, err)
	}
	if spec.Ordinal != ordinal {
		return nil, fmt.Errorf(
			"%w: the entry at ordinal %d of Session %s/%s says that it is at %d",
			ErrCorrupt,
			ordinal,
			s.Namespace,
			s.Name,
			spec.Ordinal,
		)
	}
	if !known(spec) {
		return nil, fmt.Errorf("%w %d, at ordinal %d of Session %s/%s", ErrFormat, spec.Format, ordinal, s.Namespace, s.Name)
	}
	if reserved(ordinal) != (spec.Checkpoint != nil) {
		return nil, fmt.Errorf(
			"%w: a checkpoint of Session %s/%s is missing or out of place at ordinal %d",
			ErrCorrupt,
			s.Namespace,
			s.Name,
			ordinal,
		)
	}
	return newEntry(spec)
}

// known reports whether this build can read the entry. A part with nothing in it is of a kind that this build, or the
// API server's schema, does not have.
func known(spec *v1alpha1.JournalEntrySpec) bool {
	content := spec.Final || spec.Checkpoint != nil || spec.Claimed != nil || spec.Settled != nil || spec.Partial != nil ||
		len(spec.Outcomes) > 0 || len(spec.Events) > 0 || len(spec.Calls) > 0
	return spec.Format <= Format && content
}

// must reads an entry that other entries promise.
func (l *Log) must(ctx context.Context, s Session, ordinal int64) (*entry, error) {
	e, err := l.get(ctx, s, ordinal)
	return e, promised(s, ordinal, err)
}

// mustFetch reads the whole content of an entry that other entries refer to.
func (l *Log) mustFetch(ctx context.Context, s Session, ordinal int64) (*entry, error) {
	e, err := l.fetch(ctx, s, ordinal)
	return e, promised(s, ordinal, err)
}

func promised(s Session, ordinal int64, err error) error {
	if errors.Is(err, ErrNotFound) {
		return fmt.Errorf("%w: the entry at ordinal %d of Session %s/%s is missing", ErrCorrupt, ordinal, s.Namespace, s.Name)
	}
	return err
}

// put creates an entry at its ordinal and returns the entry that is there afterwards, and whether it is the given one.
//
// After an error the create may still happen at any later time. Two rules keep that harmless: the create is only ever
// retried at the same ordinal with the same content, and the writer moves on to another ordinal only when another
// writer's entry has this one, after which the create can no longer succeed.
func (l *Log) put(ctx context.Context, s Session, e *entry) (*entry, bool, error) {
	var last error
	for range createAttempts {
		createErr := l.store.Create(ctx, s, e.spec)
		if createErr == nil {
			l.stored.Store(true)
			l.cache.putEntry(s.UID, e.light())
			return e, true, nil
		}
		last = createErr
		if ctx.Err() != nil {
			break
		}
		// After a refusal as well: this very entry may have used up the quota, if its first create only seemed to fail.
		there, err := l.get(ctx, s, e.spec.Ordinal)
		if err == nil {
			return there, same(there, e), nil
		}
		if !errors.Is(err, ErrNotFound) {
			last = errors.Join(createErr, err)
		}
		if errors.Is(createErr, ErrRefused) {
			break
		}
	}
	return nil, false, fmt.Errorf(
		"writing the entry at ordinal %d of Session %s/%s: %w",
		e.spec.Ordinal,
		s.Namespace,
		s.Name,
		last,
	)
}

// same reports whether two entries have the same content. The store may have encoded the JSON in another way.
func same(a, b *entry) bool {
	x, errX := json.Marshal(a.light().spec)
	y, errY := json.Marshal(b.light().spec)
	if errX != nil || errY != nil {
		return false
	}
	if bytes.Equal(x, y) {
		return true
	}
	var left, right any
	return json.Unmarshal(x, &left) == nil && json.Unmarshal(y, &right) == nil && reflect.DeepEqual(left, right)
}

// reserved reports whether an ordinal is kept for a checkpoint.
func reserved(ordinal int64) bool {
	return ordinal%CheckpointInterval == 0
}
