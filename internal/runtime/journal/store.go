package journal

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/journal/format"
)

// createAttempts bounds how often a create whose outcome is not known is tried, always at the same ordinal.
const createAttempts = 3

// entry is an entry of the journal with its size before compression, as JSON. It never changes.
type entry struct {
	spec *Entry
	size int64
	// stored is the entry as the store gets it; nil for one that was read.
	stored *v1alpha1.JournalEntrySpec
}

// newEntry returns an entry that is to be written.
func newEntry(spec *Entry) (*entry, error) {
	plain, err := format.Plain(spec)
	if err != nil {
		return nil, err
	}
	size, err := sizeOf(plain)
	if err != nil {
		return nil, err
	}
	stored, err := format.Pack(plain)
	return &entry{spec: spec, size: size, stored: stored}, err
}

// readEntry returns an entry that was read.
func readEntry(stored *v1alpha1.JournalEntrySpec) (*entry, error) {
	plain, err := format.Unpack(stored)
	if err != nil {
		return nil, err
	}
	spec, err := format.Decode(plain)
	if err != nil {
		return nil, err
	}
	size, err := sizeOf(plain)
	return &entry{spec: spec, size: size}, err
}

// sizeOf is the size of an entry without compression, as JSON. The payload of an entry of format 1 is the whole entry.
func sizeOf(plain *v1alpha1.JournalEntrySpec) (int64, error) {
	if plain.Format <= 1 && plain.Payload != nil {
		return int64(len(plain.Payload.Raw)), nil
	}
	raw, err := json.Marshal(plain)
	if err != nil {
		return 0, fmt.Errorf("encoding the entry at ordinal %d: %w", plain.Ordinal, err)
	}
	return int64(len(raw)), nil
}

// cost estimates the memory of the entry: its text, and Go's overhead.
func (e *entry) cost() int64 {
	size := e.size
	if c := e.spec.Checkpoint; c != nil {
		size = int64(len(c.Transcript))
	}
	for _, v := range e.spec.Events {
		if size += 1024; v.Data != nil {
			size += int64(len(v.Data.Raw))
		}
	}
	return size + 512 + 128*int64(len(e.spec.Calls))
}

// light returns the entry without the fields that only a reader without a cache needs, so that checkpoints do not fill
// the cache.
func (e *entry) light() *entry {
	if e.spec.Checkpoint == nil {
		return &entry{spec: e.spec, size: e.size}
	}
	spec := *e.spec
	spec.Checkpoint = &Checkpoint{
		From: e.spec.Checkpoint.From, Events: e.spec.Checkpoint.Events, Bytes: e.spec.Checkpoint.Bytes,
		Context: e.spec.Checkpoint.Context,
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
	l.known(s.UID, e)
	return e, nil
}

// fetch reads the entry at an ordinal from the store.
func (l *Log) fetch(ctx context.Context, s Session, ordinal int64) (*entry, error) {
	return read(ctx, l.store, s, ordinal)
}

// read reads the entry at an ordinal.
func read(ctx context.Context, from Reader, s Session, ordinal int64) (*entry, error) {
	spec, err := from.Get(ctx, s, ordinal)
	if errors.Is(err, ErrNotFound) {
		return nil, ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("reading the entry at ordinal %d of Session %s/%s: %w", ordinal, s.Namespace, s.Name, err)
	}
	if spec.Ordinal != ordinal {
		return nil, fmt.Errorf(
			"%w: the entry at ordinal %d of Session %s/%s has the ordinal %d",
			ErrCorrupt,
			ordinal,
			s.Namespace,
			s.Name,
			spec.Ordinal,
		)
	}
	e, err := readEntry(spec)
	if err != nil {
		return nil, fmt.Errorf("reading the entry of Session %s/%s: %w, at ordinal %d", s.Namespace, s.Name, err, ordinal)
	}
	if reserved(ordinal) != (e.spec.Checkpoint != nil) {
		return nil, fmt.Errorf(
			"%w: a checkpoint of Session %s/%s is missing or out of place at ordinal %d",
			ErrCorrupt,
			s.Namespace,
			s.Name,
			ordinal,
		)
	}
	return e, nil
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
		createErr := l.store.Create(ctx, s, e.stored)
		if createErr == nil {
			l.stored.Store(true)
			l.known(s.UID, e.light())
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
