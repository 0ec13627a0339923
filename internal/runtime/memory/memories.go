package memory

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/capstan-dev/capstan/internal/runtime/record"
)

// StoreName is the name of the store that has memories.
const StoreName = "memory"

// maxReads is how often a read begins again when the store is changed meanwhile.
const maxReads = 20

// Memories are those of a Session. They are safe for concurrent use.
type Memories struct {
	store record.Store
	scope record.Scope
	// shared reports whether the calls of several Sessions change the store. The steps of their causes have no order, so
	// that no outcomes are kept under them: a memory has the id of its call, and knows which one has forgotten it.
	shared bool
}

// Of returns the memories of a Session.
func Of(store record.Store, of record.Session) *Memories {
	return &Memories{store: store, scope: ScopeOf(of)}
}

// ScopeOf returns the store of a Session.
func ScopeOf(of record.Session) record.Scope {
	return of.Scope(StoreName)
}

// full is the text of the error of a store that has no room.
var full = fmt.Sprintf("The memory is full: it has room for %d memories, with %d bytes together. Forget some.",
	MaxActive, MaxBytes)

// Create stores a memory, and returns it without its texts (SVC-03). A repeated cause returns the memory that it has
// created first. The error has a *record.ExplainedError for a memory that cannot be stored.
func (m *Memories) Create(ctx context.Context, cause record.Cause, now time.Time, draft Draft) (*Memory, error) {
	draft, err := draft.check()
	if err != nil {
		return nil, err
	}
	if cause == (record.Cause{}) {
		return nil, errors.New("creating a memory: it has no cause")
	}
	id := idOf(cause)
	created := &Memory{}
	err = m.change(ctx, cause, created, func(ctx context.Context, x *record.Index) (*record.Operation, any, error) {
		p, key, err := m.part(ctx, x, id)
		if err != nil {
			return nil, nil, err
		}
		before, err := tallyOf(x)
		if err != nil {
			return nil, nil, err
		}
		if known := p.find(id); known != nil {
			return nil, short(known), nil
		}
		p.drop(now)
		made := stored{Sequence: x.Revision + 1, Memory: Memory{
			ID: id, Kind: draft.Kind, Content: draft.Content, Tags: draft.Tags,
			Created: now.UTC().Truncate(time.Millisecond),
		}}
		if before.active >= MaxActive || before.bytes+made.size() > MaxBytes {
			return nil, nil, record.Explainf("%s", full)
		}
		p.Memories = append(p.Memories, made)
		o, err := p.put(key)
		return o, short(&made), err
	})
	if err != nil {
		return nil, err
	}
	return created, nil
}

// short is a memory without its texts: the result of an operation is bounded.
func short(s *stored) Memory {
	return Memory{ID: s.ID, Kind: s.Kind, Created: s.Created}
}

// forgotten is the result of forgetting.
type forgotten struct {
	Was bool `json:"was"`
}

// Forget forgets a memory, and reports whether it was active. It stays, with the time, and is not recalled any more.
func (m *Memories) Forget(ctx context.Context, cause record.Cause, now time.Time, id string) (bool, error) {
	if !ids.MatchString(id) {
		return false, nil
	}
	result := &forgotten{}
	err := m.change(ctx, cause, result, func(ctx context.Context, x *record.Index) (*record.Operation, any, error) {
		p, key, err := m.part(ctx, x, id)
		if err != nil {
			return nil, nil, err
		}
		known, by := p.find(id), ""
		if cause != (record.Cause{}) { // A person has no cause, and forgets a memory once.
			by = idOf(cause)
		}
		if known == nil || known.Forgotten != nil {
			return nil, forgotten{Was: known != nil && by != "" && known.ForgottenBy == by}, nil
		}
		at := now.UTC().Truncate(time.Millisecond)
		known.Forgotten, known.ForgottenBy = &at, by
		p.drop(now)
		o, err := p.put(key)
		return o, forgotten{Was: true}, err
	})
	return result.Was, err
}

// Count returns the number of active memories.
func (m *Memories) Count(ctx context.Context) (int64, error) {
	x, err := m.store.List(ctx, m.scope)
	if err != nil {
		return 0, err
	}
	sum, err := tallyOf(x)
	return sum.active, err
}

// Get returns a memory, also one that is forgotten; nil if it does not exist.
func (m *Memories) Get(ctx context.Context, id string) (*Memory, error) {
	known, err := m.stored(ctx, id)
	if known == nil || err != nil {
		return nil, err
	}
	return &known.Memory, nil
}

// stored returns a memory as it is stored; nil if it does not exist.
func (m *Memories) stored(ctx context.Context, id string) (*stored, error) {
	if !ids.MatchString(id) {
		return nil, nil
	}
	_, value, err := m.store.Get(ctx, m.scope, partOf(id))
	if errors.Is(err, record.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading a memory: %w", err)
	}
	p, err := decodePart(value)
	if err != nil {
		return nil, err
	}
	return p.find(id), nil
}

// change carries out a change.
func (m *Memories) change(ctx context.Context, cause record.Cause, into any, decide record.DecideWith) error {
	if m.shared {
		cause = record.Cause{}
	}
	return record.Explain(record.Change(ctx, m.store, m.scope, cause, into, decide), full,
		"The stores of the namespace are full together. Forget memories, or delete values or files.")
}

// part reads the part of an id, which is empty if it does not exist, and returns its key.
func (m *Memories) part(ctx context.Context, x *record.Index, id string) (*part, string, error) {
	key := partOf(id)
	item, found := x.Find(key)
	if !found {
		return &part{}, key, nil
	}
	p, err := m.load(ctx, item)
	return p, key, err
}

func (m *Memories) load(ctx context.Context, item record.Item) (*part, error) {
	value, err := m.store.Load(ctx, m.scope, item)
	if err != nil {
		return nil, err
	}
	return decodePart(value)
}

// each calls see with each memory of the store at one moment. It has one part in memory at a time. begin is called
// before the first one, again when the store was changed meanwhile.
func (m *Memories) each(ctx context.Context, begin func(), see func(*stored)) error {
	var err error
	for range maxReads {
		var x *record.Index
		if x, err = m.store.List(ctx, m.scope); err != nil {
			return err
		}
		begin()
		if err = m.parts(ctx, x, see); !errors.Is(err, record.ErrNotFound) {
			return err
		}
	}
	return fmt.Errorf("reading memories: they changed %d times meanwhile: %w", maxReads, err)
}

func (m *Memories) parts(ctx context.Context, x *record.Index, see func(*stored)) error {
	for _, item := range x.Items {
		if !strings.HasPrefix(item.Key, prefix) {
			continue
		}
		p, err := m.load(ctx, item)
		if err != nil {
			return err
		}
		for i := range p.Memories {
			see(&p.Memories[i])
		}
	}
	return nil
}
