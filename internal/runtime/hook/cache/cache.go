// Package cache keeps values that are made of the texts of tenants: compiled expressions, checked scripts. It bounds
// them by bytes, and divides both the bytes and the work between namespaces.
package cache

import (
	"container/list"
	"context"
	"fmt"
	"sync"

	"github.com/capstan-dev/capstan/internal/runtime/fairshare"
)

const (
	// places is how many texts are worked on at a time, of which a namespace has one.
	places = 2
	// entryBytes is what an entry takes besides its text and its value.
	entryBytes = 512
)

// Values are values by text, of each namespace its own. They are safe for concurrent use.
type Values[V any] struct {
	bytes     int64
	producing *fairshare.Pool

	mu      sync.Mutex
	used    int64
	tenants map[string]*tenant
}

// tenant is the entries of one namespace.
type tenant struct {
	used    int64
	entries map[string]*list.Element
	// order is from the entry that was used last to that which was not used for the longest time.
	order *list.List
}

// entry is what order has.
type entry[V any] struct {
	text  string
	value V
	bytes int64
}

// New returns values that take at most a number of bytes together.
func New[V any](bytes int64) *Values[V] {
	return &Values[V]{
		bytes: bytes, tenants: map[string]*tenant{},
		producing: fairshare.NewPool(fairshare.Options{
			Total: fairshare.Amount{Places: places}, PerNamespace: fairshare.Amount{Places: 1},
		}),
	}
}

// Of returns the value of a text, and produces it if it is not kept. A namespace produces one after the other. The
// error is that of a context which ends before it is the text's turn.
func (v *Values[V]) Of(
	ctx context.Context, namespace, text string, produce func(text string) (value V, bytes int64),
) (V, error) {
	if value, ok := v.get(namespace, text); ok {
		return value, nil
	}
	var none V
	share, err := v.producing.Request(fairshare.Request{Namespace: namespace, Amount: fairshare.Amount{Places: 1}})
	if err != nil {
		return none, err
	}
	defer share.Release()
	if err := share.Wait(ctx); err != nil {
		return none, fmt.Errorf("waiting for other expressions and scripts of the namespace: %w", err)
	}
	if value, ok := v.get(namespace, text); ok {
		return value, nil
	}
	value, bytes := produce(text)
	v.keep(namespace, &entry[V]{text, value, bytes + int64(len(text)) + entryBytes})
	return value, nil
}

func (v *Values[V]) get(namespace, text string) (V, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	var none V
	t := v.tenants[namespace]
	if t == nil {
		return none, false
	}
	at := t.entries[text]
	if at == nil {
		return none, false
	}
	t.order.MoveToFront(at)
	return valueOf[V](at).value, true
}

// keep adds an entry, and drops others until there is room: those of the namespace that has the most bytes.
func (v *Values[V]) keep(namespace string, e *entry[V]) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if e.bytes > v.bytes {
		return
	}
	t := v.tenants[namespace]
	if t == nil {
		t = &tenant{entries: map[string]*list.Element{}, order: list.New()}
		v.tenants[namespace] = t
	}
	t.entries[e.text] = t.order.PushFront(e)
	t.used += e.bytes
	v.used += e.bytes
	for v.used > v.bytes {
		v.drop()
	}
}

// drop drops the entry that was not used for the longest time, of the namespace that has the most bytes.
func (v *Values[V]) drop() {
	largest := ""
	for name, t := range v.tenants {
		if most := v.tenants[largest]; most == nil || t.used > most.used || (t.used == most.used && name < largest) {
			largest = name
		}
	}
	t := v.tenants[largest]
	last := t.order.Back()
	e := valueOf[V](last)
	t.order.Remove(last)
	delete(t.entries, e.text)
	t.used -= e.bytes
	v.used -= e.bytes
	if t.order.Len() == 0 {
		delete(v.tenants, largest)
	}
}

func valueOf[V any](at *list.Element) *entry[V] {
	return at.Value.(*entry[V]) //nolint:forcetypeassert // Only keep adds entries.
}
