package record

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/capstan-dev/capstan/internal/runtime/fairshare"
)

const (
	// Format is the version of the form that blobs, and indexes without pages, are written in.
	Format = 1
	// FormatPages is that of an index with pages. A manager that does not know it does not use the store.
	FormatPages = 2
)

const (
	// maxLost bounds how often an operation is tried whose outcome is unknown, and maxChanged how often one whose index
	// another process has changed meanwhile, or a value that is replaced while it is read.
	maxLost    = 3
	maxChanged = 100
	// writeTimeout bounds the writes of one operation. They are not cancelled with the call, so that cancelled calls
	// leave no blobs behind.
	writeTimeout = 15 * time.Second
)

// Stored is an index as it is stored.
type Stored struct {
	// Payload is the content, Revision its revision; both are empty where there is no index yet.
	Payload  []byte
	Revision int64
	// Format is Format or FormatPages.
	Format int32
	// Version is the server's name of this version of the index.
	Version string
}

// Objects stores indexes and blobs. A Store is built on it where nothing but a single object can be changed
// atomically.
type Objects interface {
	// ReadIndex reads the index of a store. The error is ErrNotFound if it does not exist.
	ReadIndex(ctx context.Context, scope Scope) (Stored, error)
	// WriteIndex creates the index of a store, or replaces the Version that was read. The error is ErrChanged if there is
	// another one, has ErrRefused if a retry is useless, or leaves the outcome open.
	WriteIndex(ctx context.Context, scope Scope, index Stored) error
	// ReadBlob reads a blob. The error is ErrNotFound if it does not exist.
	ReadBlob(ctx context.Context, scope Scope, name string) ([]byte, error)
	// CreateBlob creates a blob. It is no error if it exists: no other content has its name. The error has ErrRefused if
	// a retry is useless.
	CreateBlob(ctx context.Context, scope Scope, name string, payload []byte) error
	// DeleteBlob deletes a blob. A blob that does not exist is no error.
	DeleteBlob(ctx context.Context, scope Scope, name string) error
}

// Limiter divides the bytes that are written per second between namespaces.
type Limiter interface {
	// Spend waits until a namespace may write so many bytes. When the context ends first, it may not.
	Spend(ctx context.Context, namespace string, bytes int64) error
}

// Options of a Store.
type Options struct {
	// MaxBytes bounds the values of one store. Default: MaxStoreBytes.
	MaxBytes int64
	// Places bound the concurrent operations and reads, and with them the memory that these take: about 4 MiB
	// each, or 12 MiB for the largest index. Nil
	// bounds nothing.
	Places *fairshare.Pool
	// Limiter of the bytes that are written; nil for none.
	Limiter Limiter
	// Ceiling of the values of a namespace; nil for none.
	Ceiling *Ceiling
	// KeptBytes is the memory for indexes and values that were read before, shared by namespaces. 0 keeps none.
	KeptBytes int64
	// Clock returns the current time. Default: time.Now.
	Clock func() time.Time
}

// objectStore is a Store on Objects.
type objectStore struct {
	objects Objects
	o       Options
	locks   locks
	memory  *memory
}

// New returns a Store on Objects.
func New(objects Objects, o Options) Store {
	o.MaxBytes = cmp.Or(o.MaxBytes, MaxStoreBytes)
	if o.Clock == nil {
		o.Clock = time.Now
	}
	return &objectStore{objects: objects, o: o, memory: newMemory(o.KeptBytes)}
}

// Get implements Store.
func (s *objectStore) Get(ctx context.Context, scope Scope, key string) (Item, []byte, error) {
	ctx, leave, err := s.enter(ctx, scope)
	if err != nil {
		return Item{}, nil, err
	}
	defer leave()
	for range maxChanged {
		x, err := s.List(ctx, scope)
		if err != nil {
			return Item{}, nil, err
		}
		item, found := x.Find(key)
		if !found {
			return Item{}, nil, fmt.Errorf("reading %q: %w", key, ErrNotFound)
		}
		value, err := s.Load(ctx, scope, item)
		if !errors.Is(err, ErrNotFound) {
			return item, value, err
		}
	}
	return Item{}, nil, fmt.Errorf("reading %q: its value changed %d times meanwhile", key, maxChanged)
}

// List implements Store.
func (s *objectStore) List(ctx context.Context, scope Scope) (*Index, error) {
	ctx, leave, err := s.enter(ctx, scope)
	if err != nil {
		return nil, err
	}
	defer leave()
	x, _, err := s.read(ctx, scope)
	return x, err
}

// read reads an index, which is empty where it does not exist, and what the server calls its version.
func (s *objectStore) read(ctx context.Context, scope Scope) (*Index, string, error) {
	fail := func(err error) (*Index, string, error) {
		return nil, "", fmt.Errorf("reading the index of store %s of %s: %w", scope.Store, scope.Owner(), err)
	}
	last := ""
	for range maxChanged {
		stored, err := s.objects.ReadIndex(ctx, scope)
		switch {
		case errors.Is(err, ErrNotFound):
			return &Index{}, "", nil
		case err != nil:
			return fail(err)
		}
		if x, ok := s.memory.index(scope, stored); ok {
			return x, stored.Version, nil
		}
		x, err := decodeIndex(stored)
		if err == nil {
			err = s.readPages(ctx, scope, x)
		}
		switch {
		case err == nil:
			s.memory.keepIndex(scope, stored.Payload, x)
			return x, stored.Version, nil
		case !errors.Is(err, ErrNotFound):
			return fail(err)
		case stored.Version == last:
			return fail(fmt.Errorf("%w (a page of it is missing)", ErrFormat))
		}
		// An operation has replaced a page since the index was read.
		last = stored.Version
	}
	return fail(fmt.Errorf("%w %d times meanwhile", ErrChanged, maxChanged))
}

// readPages reads the items of an index with pages. The error is ErrNotFound if the index was changed since.
func (s *objectStore) readPages(ctx context.Context, scope Scope, x *Index) error {
	parts := make([][]Item, len(x.pages))
	for n, p := range x.pages {
		items, ok := s.memory.page(scope, p.Blob)
		if !ok {
			packed, err := s.objects.ReadBlob(ctx, scope, p.Blob)
			if err != nil {
				return err
			}
			if items, err = decodePage(packed, p, n, len(x.pages)); err != nil {
				return err
			}
			s.memory.keepPage(scope, p.Blob, items)
		}
		parts[n] = items
	}
	if len(parts) > 0 {
		x.join(parts)
	}
	return nil
}

// Load implements Store.
func (s *objectStore) Load(ctx context.Context, scope Scope, item Item) ([]byte, error) {
	if item.blob == "" {
		return slices.Clone(item.inline), nil
	}
	if item.Size > MaxValueBytes {
		return nil, fmt.Errorf("reading %q: %w (it has %d bytes)", item.Key, ErrFormat, item.Size)
	}
	ctx, leave, err := s.enter(ctx, scope)
	if err != nil {
		return nil, err
	}
	defer leave()
	if value, ok := s.memory.value(scope, item.blob); ok && int64(len(value)) == item.Size {
		return value, nil
	}
	packed, err := s.objects.ReadBlob(ctx, scope, item.blob)
	if err != nil {
		return nil, fmt.Errorf("reading %q: %w", item.Key, err)
	}
	value, err := unpack(packed, item.Size)
	if err == nil && int64(len(value)) != item.Size {
		err = fmt.Errorf("%w (it has %d bytes, not %d)", ErrFormat, len(value), item.Size)
	}
	if err != nil {
		return nil, fmt.Errorf("reading %q: %w", item.Key, err)
	}
	s.memory.keepValue(scope, item.blob, value)
	return value, nil
}

// Apply implements Store.
func (s *objectStore) Apply(ctx context.Context, scope Scope, o Operation) (Outcome, error) {
	if o.Cause.none() {
		return Outcome{}, fmt.Errorf("%w: it has no cause", ErrInvalid)
	}
	if err := o.check(); err != nil {
		return Outcome{}, err
	}
	return s.Update(ctx, scope, o.Cause, func(context.Context, *Index) (*Operation, error) { return &o, nil })
}

// Update implements Store.
func (s *objectStore) Update(ctx context.Context, scope Scope, cause Cause, decide Decide) (Outcome, error) {
	fail := func(err error) (Outcome, error) {
		return Outcome{}, fmt.Errorf("changing store %s of %s: %w", scope.Store, scope.Owner(), err)
	}
	// Operations of this process on one store take turns: all but one of concurrent ones would have to be tried again.
	unlock, err := s.locks.lock(ctx, scope)
	if err != nil {
		return fail(err)
	}
	defer unlock()
	ctx, leave, err := s.enter(ctx, scope)
	if err != nil {
		return fail(err)
	}
	defer leave()
	left := &leftovers{}
	defer s.abandon(ctx, scope, left)
	for lost, changed := 0, 0; ; {
		outcome, err := s.try(ctx, scope, cause, decide, left)
		switch {
		case err == nil:
			return outcome, nil
		case final(err) || ctx.Err() != nil:
			return fail(err)
		case errors.Is(err, ErrChanged):
			changed++
		default:
			lost++
		}
		if lost == maxLost || changed == maxChanged {
			return fail(err)
		}
	}
}

// final reports whether an operation that has failed must not be tried again.
func final(err error) bool {
	var conflict *ConflictError
	var undecided *decideError
	return errors.As(err, &conflict) || errors.As(err, &undecided) || errors.Is(err, ErrRefused) ||
		errors.Is(err, ErrFull) || errors.Is(err, ErrInvalid) || errors.Is(err, ErrStale) || errors.Is(err, ErrFormat)
}

// decideError is an error of the function that decides about an operation.
type decideError struct{ error }

// Unwrap returns the error.
func (e *decideError) Unwrap() error { return e.error }

// try carries an operation out once. After an error the next try finds out whether this one has succeeded.
func (s *objectStore) try(
	ctx context.Context, scope Scope, cause Cause, decide Decide, left *leftovers,
) (Outcome, error) {
	before, version, err := s.read(ctx, scope)
	if err != nil {
		return Outcome{}, err
	}
	s.collect(ctx, scope, left, before, version)
	if known, found := before.Outcome(cause); found {
		return known, nil
	}
	decided, err := decide(ctx, before)
	switch {
	case errors.Is(err, ErrNotFound):
		return Outcome{}, ErrChanged
	case err != nil:
		return Outcome{}, &decideError{err}
	case decided == nil:
		return Outcome{Revision: before.Revision}, nil
	}
	o := *decided
	o.Cause = cause
	if err := o.check(); err != nil {
		return Outcome{}, err
	}
	c, err := before.apply(o, s.o.Clock(), s.o.MaxBytes)
	if err != nil {
		return Outcome{}, err
	}
	blobs, index, err := c.packed()
	if err != nil {
		return Outcome{}, err
	}
	index.Version = version
	counted, err := s.o.Ceiling.admit(ctx, scope, before.weight(), c.index.weight(), s.size)
	if err != nil {
		return Outcome{}, err
	}
	written := false
	defer func() { counted(written) }()
	if err := s.spend(ctx, scope, blobs, index.Payload); err != nil {
		return Outcome{}, err
	}
	if err := s.write(ctx, scope, c, blobs, index, left); err != nil {
		return Outcome{}, err
	}
	written = true
	return Outcome{Revision: c.index.Revision, Result: o.Result}, nil
}

// write writes the blobs of a change, then the index, and then deletes the blobs that are not needed any more.
func (s *objectStore) write(
	ctx context.Context, scope Scope, c *change, blobs map[string][]byte, index Stored, left *leftovers,
) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	for _, name := range slices.Sorted(maps.Keys(blobs)) {
		if c.pages[name] != nil {
			left.add(index.Version, name)
		}
		if err := s.objects.CreateBlob(ctx, scope, name, blobs[name]); err != nil {
			return err
		}
	}
	if err := s.objects.WriteIndex(ctx, scope, index); err != nil {
		left.open = left.open || !errors.Is(err, ErrRefused)
		return err
	}
	s.discard(ctx, scope, left, c.index)
	for _, name := range c.dropped {
		s.memory.forget(scope, name)
		// One that stays takes room until its owner is deleted, and harms nothing else.
		_ = s.objects.DeleteBlob(ctx, scope, name)
	}
	c.index.collected = true
	for _, name := range c.index.replaced {
		s.memory.forget(scope, name)
		// The next operation deletes one that stays.
		c.index.collected = s.objects.DeleteBlob(ctx, scope, name) == nil && c.index.collected
	}
	s.memory.keepIndex(scope, index.Payload, c.index)
	return nil
}

// leftovers are the pages that tries of one operation have written before an index that they could not write.
type leftovers struct {
	// version is that of the index that the tries were to replace.
	version string
	pages   []string
	// open reports whether one of these tries may still take effect.
	open bool
}

func (l *leftovers) add(version, name string) {
	l.version, l.pages = version, append(l.pages, name)
}

// collect deletes the pages that earlier tries have left, once the index is another one than they were to replace: none
// of their writes can take effect any more.
func (s *objectStore) collect(ctx context.Context, scope Scope, left *leftovers, now *Index, version string) {
	if len(left.pages) == 0 || version == left.version {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	s.discard(ctx, scope, left, now)
}

// abandon deletes the pages that the tries of an operation have left when the operation has ended. Those of a try that
// may still take effect, as far as can be read now, stay until the owner of the store is deleted.
func (s *objectStore) abandon(ctx context.Context, scope Scope, left *leftovers) {
	if len(left.pages) == 0 {
		return
	}
	if left.open {
		if now, version, err := s.read(ctx, scope); err == nil {
			s.collect(ctx, scope, left, now, version)
		}
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
	defer cancel()
	s.discard(ctx, scope, left, &Index{})
}

// discard deletes those of the pages that tries have left that an index does not name.
func (s *objectStore) discard(ctx context.Context, scope Scope, left *leftovers, now *Index) {
	for _, name := range left.pages {
		if !now.names(name) {
			_ = s.objects.DeleteBlob(ctx, scope, name)
		}
	}
	*left = leftovers{}
}

// packed returns the blobs and the index of a change as they are stored.
func (c *change) packed() (blobs map[string][]byte, index Stored, err error) {
	if index, err = c.encode(); err != nil {
		return nil, Stored{}, err
	}
	blobs = maps.Clone(c.pages)
	for name, value := range c.written {
		if blobs[name], err = pack(value); err != nil {
			return nil, Stored{}, err
		}
	}
	return blobs, index, nil
}

// spend waits until the namespace may write blobs and an index.
func (s *objectStore) spend(ctx context.Context, scope Scope, blobs map[string][]byte, index []byte) error {
	if s.o.Limiter == nil {
		return ctx.Err()
	}
	sum := int64(len(index))
	for _, payload := range blobs {
		sum += int64(len(payload))
	}
	return s.o.Limiter.Spend(ctx, scope.Namespace, sum)
}
