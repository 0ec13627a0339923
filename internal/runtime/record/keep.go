package record

import (
	"bytes"
	"slices"

	"github.com/capstan-dev/capstan/internal/runtime/fairshare"
)

// itemBytes is what a key of a decoded index takes besides its texts.
const itemBytes = 256

// memory keeps what was decoded, so that a store that is used often is not decoded at each use. It decides nothing: an
// index is read anew each time, and what is kept stands in for it only where the server has sent the same bytes. A blob
// never changes, and is read only where an index that was read names it.
type memory struct {
	kept *fairshare.Cache[place, decoded]
}

// place is where something is stored: the index of a store, or one of its blobs.
type place struct {
	scope Scope
	blob  string
}

// decoded is an index, with the bytes that it was decoded from, or the value of a blob, or the items of a page.
type decoded struct {
	payload []byte
	index   *Index
	value   []byte
	items   []Item
}

// newMemory returns a memory of so many bytes, which keeps nothing for 0.
func newMemory(bytes int64) *memory {
	return &memory{kept: fairshare.NewCache[place, decoded](bytes)}
}

// index returns the index that was decoded from a payload before.
func (m *memory) index(scope Scope, stored Stored) (*Index, bool) {
	known, ok := m.kept.Get(scope.Namespace, place{scope: scope})
	if !ok || known.index.Revision != stored.Revision || !bytes.Equal(known.payload, stored.Payload) {
		return nil, false
	}
	return known.index, true
}

// keepIndex keeps an index with its payload. Both must not change any more.
func (m *memory) keepIndex(scope Scope, payload []byte, x *Index) {
	m.kept.Keep(scope.Namespace, place{scope: scope}, decoded{payload: payload, index: x}, x.memory()+int64(len(payload)))
}

// value returns a copy of the value of a blob.
func (m *memory) value(scope Scope, blob string) ([]byte, bool) {
	known, ok := m.kept.Get(scope.Namespace, place{scope: scope, blob: blob})
	return slices.Clone(known.value), ok
}

// keepValue keeps a copy of the value of a blob.
func (m *memory) keepValue(scope Scope, blob string, value []byte) {
	m.kept.Keep(scope.Namespace, place{scope: scope, blob: blob}, decoded{value: slices.Clone(value)},
		int64(len(value))+itemBytes)
}

// page returns the items of a page of an index.
func (m *memory) page(scope Scope, blob string) ([]Item, bool) {
	known, ok := m.kept.Get(scope.Namespace, place{scope: scope, blob: blob})
	return known.items, ok
}

// keepPage keeps the items of a page of an index. They must not change any more.
func (m *memory) keepPage(scope Scope, blob string, items []Item) {
	m.kept.Keep(scope.Namespace, place{scope: scope, blob: blob}, decoded{items: items}, itemBytes+sizeOf(items))
}

// forget drops the value of a blob that no index names any more.
func (m *memory) forget(scope Scope, blob string) {
	m.kept.Forget(scope.Namespace, place{scope: scope, blob: blob})
}

// memory is about what an index takes in memory.
func (x *Index) memory() int64 {
	sum := int64(itemBytes) + sizeOf(x.Items)
	for _, known := range [][]outcome{x.outcomes, x.kept} {
		for _, o := range known {
			sum += itemBytes + int64(len(o.Key)+len(o.Result))
		}
	}
	return sum
}

// sizeOf is about what items take in memory.
func sizeOf(items []Item) int64 {
	sum := int64(0)
	for _, item := range items {
		sum += itemBytes + int64(len(item.Key)+len(item.Encoding)+len(item.Kind)+len(item.inline)+len(item.blob))
	}
	return sum
}
