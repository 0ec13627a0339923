package journal

import (
	"container/list"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// cache keeps entries, which never change, and one state per Session, which grows, within a bound of bytes. The least
// recently used are evicted first; an item that alone is larger than the bound is not kept.
type cache struct {
	mu       sync.Mutex
	limit    int64
	used     int64
	recent   *list.List // of *cached, the newest first
	sessions map[types.UID]map[int64]*list.Element
}

// stateKey is where a Session's state is, as ordinals start at 1.
const stateKey = 0

type cached struct {
	session types.UID
	ordinal int64
	entry   *entry
	state   *state
	cost    int64
}

func newCache(limit int64) *cache {
	return &cache{limit: limit, recent: list.New(), sessions: map[types.UID]map[int64]*list.Element{}}
}

func (c *cache) bytes() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.used
}

func (c *cache) entry(session types.UID, ordinal int64) *entry {
	if item := c.get(session, ordinal); item != nil {
		return item.entry
	}
	return nil
}

func (c *cache) state(session types.UID) *state {
	if item := c.get(session, stateKey); item != nil {
		return item.state
	}
	return nil
}

func (c *cache) get(session types.UID, ordinal int64) *cached {
	c.mu.Lock()
	defer c.mu.Unlock()
	element, ok := c.sessions[session][ordinal]
	if !ok {
		return nil
	}
	c.recent.MoveToFront(element)
	return element.Value.(*cached)
}

func (c *cache) putEntry(session types.UID, e *entry) {
	c.put(&cached{session: session, ordinal: e.spec.Ordinal, entry: e, cost: e.cost()})
}

// putState keeps the state, or records that it has grown. A more advanced state stays.
func (c *cache) putState(session types.UID, st *state) {
	if old := c.state(session); old != nil && old != st && old.at() >= st.at() {
		return
	}
	c.put(&cached{session: session, ordinal: stateKey, state: st, cost: st.weight()})
}

func (c *cache) put(item *cached) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if old, ok := c.sessions[item.session][item.ordinal]; ok {
		c.remove(old)
	}
	if item.cost > c.limit {
		return
	}
	for c.used+item.cost > c.limit {
		c.remove(c.recent.Back())
	}
	entries := c.sessions[item.session]
	if entries == nil {
		entries = map[int64]*list.Element{}
		c.sessions[item.session] = entries
	}
	entries[item.ordinal] = c.recent.PushFront(item)
	c.used += item.cost
}

func (c *cache) forget(session types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, element := range c.sessions[session] {
		c.remove(element)
	}
}

func (c *cache) remove(element *list.Element) {
	item := c.recent.Remove(element).(*cached)
	c.used -= item.cost
	entries := c.sessions[item.session]
	delete(entries, item.ordinal)
	if len(entries) == 0 {
		delete(c.sessions, item.session)
	}
}
