// Package stored shows people what the services of a Session store beside its files: one way for all services.
package stored

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"k8s.io/utils/ptr"

	stream "github.com/capstan-dev/capstan/api/stream/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/record"
	"github.com/capstan-dev/capstan/internal/runtime/resource"
	"github.com/capstan-dev/capstan/internal/runtime/storage"
)

const (
	// Resources is the name of the service with the registered resources of a Session. Their values are small: a list
	// has them.
	Resources = "resources"
	// Values is the name of the service with the values of a Session by key.
	Values = "values"
)

// service is what a person is shown of a service. Neither changes anything.
type service interface {
	// list describes all items, without values that are not small and without the name of the service.
	list(ctx context.Context) ([]stream.StoredItem, error)
	// read returns an item with its value; nil if it does not exist.
	read(ctx context.Context, key string) (*stream.StoredItem, error)
}

// Services are those of a Session. They are safe for concurrent use.
type Services struct{ byName map[string]service }

// Of returns the services of a Session.
func Of(store record.Store, of record.Session) *Services {
	return &Services{map[string]service{
		Resources: resources{resource.Of(store, of)},
		Values:    values{storage.Of(store, of)},
	}}
}

// Names are the names of all services, sorted.
func Names() []string { return slices.Sorted(maps.Keys(Of(nil, record.Session{}).byName)) }

// List describes what a service stores, or all services for an empty name. It returns nil for an unknown service.
func (s *Services) List(ctx context.Context, name string) ([]stream.StoredItem, error) {
	if name != "" && s.byName[name] == nil {
		return nil, nil
	}
	all := []stream.StoredItem{}
	for _, n := range slices.Sorted(maps.Keys(s.byName)) {
		if name != "" && n != name {
			continue
		}
		items, err := s.byName[n].list(ctx)
		if err != nil {
			return nil, fmt.Errorf("listing the %s: %w", n, err)
		}
		for _, item := range items {
			item.Service = n
			all = append(all, item)
		}
	}
	return all, nil
}

// Read returns what a service stores under a key; nil for an unknown service and for a key that does not exist.
func (s *Services) Read(ctx context.Context, name, key string) (*stream.StoredItem, error) {
	of := s.byName[name]
	if of == nil {
		return nil, nil
	}
	item, err := of.read(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("reading %q of the %s: %w", key, name, err)
	}
	if item != nil {
		item.Service = name
	}
	return item, nil
}

// values are those of a Session by key.
type values struct{ *storage.Storage }

func (v values) list(ctx context.Context) ([]stream.StoredItem, error) {
	infos, err := v.List(ctx, "")
	items := make([]stream.StoredItem, len(infos))
	for n, i := range infos {
		items[n] = itemOf(i)
	}
	return items, err
}

func (v values) read(ctx context.Context, key string) (*stream.StoredItem, error) {
	value, err := v.Get(ctx, key)
	if err != nil || value == nil {
		return nil, err
	}
	item := itemOf(value.Info)
	item.Value = &value.Value
	return &item, nil
}

func itemOf(i storage.Info) stream.StoredItem {
	return stream.StoredItem{Key: i.Key, Size: i.Size, CreatedAt: i.Created, UpdatedAt: i.Updated}
}

// resources are the registered resources of a Session, by their ids.
type resources struct{ *resource.Registry }

func (r resources) list(ctx context.Context) ([]stream.StoredItem, error) {
	found, err := r.List(ctx, resource.Filter{})
	if err != nil {
		return nil, err
	}
	items := make([]stream.StoredItem, len(found))
	for n := range found {
		if items[n], err = itemOfResource(&found[n]); err != nil {
			return nil, err
		}
	}
	return items, nil
}

func (r resources) read(ctx context.Context, id string) (*stream.StoredItem, error) {
	found, err := r.Get(ctx, id)
	if err != nil || found == nil {
		return nil, err
	}
	item, err := itemOfResource(found)
	return &item, err
}

// itemOfResource is a resource whose value is JSON.
func itemOfResource(r *resource.Resource) (stream.StoredItem, error) {
	value, err := json.Marshal(r)
	if err != nil {
		return stream.StoredItem{}, fmt.Errorf("encoding resource %q: %w", r.ID, err)
	}
	return stream.StoredItem{
		Key: r.ID, Size: int64(len(value)), CreatedAt: r.Created, UpdatedAt: r.Updated, Value: ptr.To(string(value)),
	}, nil
}
