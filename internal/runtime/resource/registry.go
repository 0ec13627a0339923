package resource

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/capstan-dev/capstan/internal/runtime/record"
)

const (
	// StoreName is the name of the store that has the resources of a Session.
	StoreName = "resources"

	// prefix of the records of resources.
	prefix = "resource/"
	// maxReads is how often a list begins again when an entry is changed meanwhile.
	maxReads = 20
)

// Registry has the resources of a Session. It is safe for concurrent use.
type Registry struct {
	store record.Store
	scope record.Scope
}

// Of returns the registry of a Session.
func Of(store record.Store, of record.Session) *Registry {
	return &Registry{store: store, scope: ScopeOf(of)}
}

// ScopeOf returns the store of a Session.
func ScopeOf(of record.Session) record.Scope {
	return of.Scope(StoreName)
}

// Changed is the result of a change of an entry.
type Changed struct {
	ID     string `json:"id"`
	Status Status `json:"status"`
	// Created reports whether the entry did not exist before.
	Created bool `json:"created,omitempty"`
}

// full is the text of the error of a registry that has no room.
var full = fmt.Sprintf(
	"The registry is full: a session has at most %d resources, and all of them are active. Update or deregister some.",
	MaxResources)

// Register adds a resource, or replaces the one of its id (RES-01). A full registry forgets the resource whose entry is
// the oldest of those that are not active. The error has a *record.ExplainedError for a resource that cannot be
// registered.
func (r *Registry) Register(ctx context.Context, cause record.Cause, draft Draft) (*Changed, error) {
	if err := cmp.Or(checkOwn(draft.ID), draft.check()); err != nil {
		return nil, err
	}
	changed := &Changed{}
	err := r.change(ctx, cause, changed, func(_ context.Context, x *record.Index) (*record.Operation, any, error) {
		o, created, err := register(x, draft)
		if err != nil {
			return nil, nil, err
		}
		return o, Changed{ID: draft.ID, Status: ParseStatus(string(draft.Status)), Created: created}, nil
	})
	if err != nil {
		return nil, err
	}
	return changed, nil
}

// RegisterLease registers the resource of a lease, or updates it. It writes nothing if nothing has changed. A registry
// that is full of active resources has no entry for it.
func (r *Registry) RegisterLease(ctx context.Context, draft Draft) error {
	if err := draft.check(); err != nil {
		return err
	}
	_, err := r.store.Update(ctx, r.scope, record.Cause{},
		func(ctx context.Context, x *record.Index) (*record.Operation, error) {
			o, created, err := register(x, draft)
			var full *record.ExplainedError
			if errors.As(err, &full) {
				return nil, nil
			}
			if err != nil || created {
				return o, err
			}
			item, _ := x.Find(prefix + draft.ID)
			value, err := r.store.Load(ctx, r.scope, item)
			if err != nil || bytes.Equal(value, o.Put[0].Value) {
				return nil, err
			}
			return o, nil
		})
	if err != nil {
		return fmt.Errorf("registering resource %s: %w", draft.ID, err)
	}
	return nil
}

// register returns the operation that registers a resource, and whether it is a new one.
func register(x *record.Index, draft Draft) (o *record.Operation, created bool, err error) {
	put, err := entry{Kind: draft.Kind, Status: string(draft.Status), Metadata: draft.Metadata}.put(draft.ID)
	if err != nil {
		return nil, false, err
	}
	o = &record.Operation{Put: []record.Put{put}}
	if _, known := x.Find(put.Key); known {
		return o, false, nil
	}
	number, oldest := 0, record.Item{}
	for _, item := range x.Items {
		if !strings.HasPrefix(item.Key, prefix) {
			continue
		}
		number++
		if ParseStatus(item.Kind) != Active && (oldest.Key == "" || item.Revision < oldest.Revision) {
			oldest = item
		}
	}
	if number >= MaxResources {
		if oldest.Key == "" {
			return nil, false, record.Explainf("%s", full)
		}
		o.Delete = []string{oldest.Key}
	}
	return o, true, nil
}

// UpdateStatus sets the status of a resource; nil for an unknown id.
func (r *Registry) UpdateStatus(
	ctx context.Context, cause record.Cause, id string, status Status,
) (*Changed, error) {
	if err := checkOwn(id); err != nil {
		return nil, err
	}
	changed := &Changed{}
	err := r.change(ctx, cause, changed, func(ctx context.Context, x *record.Index) (*record.Operation, any, error) {
		item, known := x.Find(prefix + id)
		if !known {
			return nil, Changed{}, nil
		}
		value, err := r.store.Load(ctx, r.scope, item)
		if err != nil {
			return nil, nil, err
		}
		var e entry
		if err := json.Unmarshal(value, &e); err != nil {
			return nil, nil, fmt.Errorf("decoding resource %q: %w", id, err)
		}
		e.Status = string(status)
		put, err := e.put(id)
		o := &record.Operation{Expect: map[string]int64{item.Key: item.Revision}, Put: []record.Put{put}}
		return o, Changed{ID: id, Status: ParseStatus(string(status))}, err
	})
	if err != nil || changed.ID == "" {
		return nil, err
	}
	return changed, nil
}

// Get returns a resource; nil for an unknown id.
func (r *Registry) Get(ctx context.Context, id string) (*Resource, error) {
	if err := checkText("id", id, MaxIDBytes); err != nil {
		return nil, err
	}
	item, value, err := r.store.Get(ctx, r.scope, prefix+id)
	if errors.Is(err, record.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading resource %q: %w", id, err)
	}
	return resourceOf(item, value)
}

// List returns the resources that a filter selects, in the order in which they were registered first.
func (r *Registry) List(ctx context.Context, filter Filter) ([]Resource, error) {
	var err error
	for range maxReads {
		var listed []Resource
		if listed, err = r.list(ctx, filter); !errors.Is(err, record.ErrNotFound) || ctx.Err() != nil {
			return listed, err
		}
	}
	return nil, fmt.Errorf("listing the resources: they were changed at each of %d reads: %w", maxReads, err)
}

// list is List, with ErrNotFound for an entry that was changed since the index was read.
func (r *Registry) list(ctx context.Context, filter Filter) ([]Resource, error) {
	x, err := r.store.List(ctx, r.scope)
	if err != nil {
		return nil, err
	}
	listed := []Resource{}
	for _, item := range x.Items {
		if !strings.HasPrefix(item.Key, prefix) {
			continue
		}
		if filter.Status != "" && ParseStatus(item.Kind) != ParseStatus(string(filter.Status)) {
			continue
		}
		value, err := r.store.Load(ctx, r.scope, item)
		if err != nil {
			return nil, fmt.Errorf("reading resource %q: %w", idOf(item), err)
		}
		found, err := resourceOf(item, value)
		if err != nil {
			return nil, err
		}
		if filter.Selects(found) {
			listed = append(listed, *found)
		}
	}
	slices.SortStableFunc(listed, func(a, b Resource) int {
		return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.ID, b.ID))
	})
	return listed, nil
}

// deregistered is the result of removing an entry.
type deregistered struct {
	Existed bool `json:"existed"`
}

// Deregister removes a resource from the registry, and reports whether it was there.
func (r *Registry) Deregister(ctx context.Context, cause record.Cause, id string) (bool, error) {
	if err := checkOwn(id); err != nil {
		return false, err
	}
	result := &deregistered{}
	err := r.change(ctx, cause, result, func(_ context.Context, x *record.Index) (*record.Operation, any, error) {
		if _, known := x.Find(prefix + id); !known {
			return nil, deregistered{}, nil
		}
		return &record.Operation{Delete: []string{prefix + id}}, deregistered{Existed: true}, nil
	})
	return result.Existed, err
}

// change carries out a change.
func (r *Registry) change(ctx context.Context, cause record.Cause, into any, decide record.DecideWith) error {
	return record.Explain(record.Change(ctx, r.store, r.scope, cause, into, decide), full,
		"The stores of the namespace are full together. Delete values or files, or ask for sessions to be deleted.")
}

func idOf(item record.Item) string { return strings.TrimPrefix(item.Key, prefix) }
