package fairshare

import (
	"container/list"
	"sync"
)

// Cache keeps values, each of one namespace, within a number of bytes. Those of the namespace that has the most bytes
// make room for others, so that no namespace drops what another one uses. It is safe for concurrent use.
type Cache[K comparable, V any] struct {
	bytes int64

	mu      sync.Mutex
	used    int64
	tenants map[string]*cached[K]
}

// cached are the values of one namespace.
type cached[K comparable] struct {
	used    int64
	entries map[K]*list.Element
	// order is from the entry that was used last to that which was not used for the longest time.
	order *list.List
}

// kept is what order has.
type kept[K comparable, V any] struct {
	key   K
	value V
	bytes int64
}

// NewCache returns a Cache of values that take at most a number of bytes together.
func NewCache[K comparable, V any](bytes int64) *Cache[K, V] {
	return &Cache[K, V]{bytes: bytes, tenants: map[string]*cached[K]{}}
}

// Get returns the value of a key, and whether it is kept.
func (c *Cache[K, V]) Get(namespace string, key K) (V, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var none V
	t := c.tenants[namespace]
	if t == nil {
		return none, false
	}
	at := t.entries[key]
	if at == nil {
		return none, false
	}
	t.order.MoveToFront(at)
	return keptOf[K, V](at).value, true
}

// Keep keeps a value of so many bytes, in place of that of its key, and drops others until there is room.
func (c *Cache[K, V]) Keep(namespace string, key K, value V, bytes int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.remove(namespace, key)
	if bytes > c.bytes {
		return
	}
	t := c.tenants[namespace]
	if t == nil {
		t = &cached[K]{entries: map[K]*list.Element{}, order: list.New()}
		c.tenants[namespace] = t
	}
	t.entries[key] = t.order.PushFront(&kept[K, V]{key, value, bytes})
	t.used += bytes
	c.used += bytes
	for c.used > c.bytes {
		c.drop()
	}
}

// Forget drops the value of a key, if it is kept.
func (c *Cache[K, V]) Forget(namespace string, key K) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.remove(namespace, key)
}

// Used is the number of bytes of all values, and Namespaces that of the namespaces that have some.
func (c *Cache[K, V]) Used() (bytes int64, namespaces int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.used, len(c.tenants)
}

// drop drops the value that was not used for the longest time, of the namespace that has the most bytes.
func (c *Cache[K, V]) drop() {
	largest := ""
	for name, t := range c.tenants {
		if most := c.tenants[largest]; most == nil || t.used > most.used || (t.used == most.used && name < largest) {
			largest = name
		}
	}
	c.remove(largest, keptOf[K, V](c.tenants[largest].order.Back()).key)
}

func (c *Cache[K, V]) remove(namespace string, key K) {
	t := c.tenants[namespace]
	if t == nil || t.entries[key] == nil {
		return
	}
	at := t.entries[key]
	bytes := keptOf[K, V](at).bytes
	t.order.Remove(at)
	delete(t.entries, key)
	t.used -= bytes
	c.used -= bytes
	if t.order.Len() == 0 {
		delete(c.tenants, namespace)
	}
}

func keptOf[K comparable, V any](at *list.Element) *kept[K, V] {
	return at.Value.(*kept[K, V]) //nolint:forcetypeassert // Only Keep adds entries.
}
