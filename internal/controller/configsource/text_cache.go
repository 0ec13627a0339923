package configsource

import (
	"container/list"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// perNamespace is the part of the memory that one namespace may use.
const perNamespace = 8

// textCache holds the most recently used texts. A namespace has at most its part of the memory; when all is used, the
// namespace with the most bytes loses its oldest text.
type textCache struct {
	limit int64

	mu         sync.Mutex
	bytes      int64
	byUID      map[types.UID]*list.Element
	namespaces map[string]*namespace
}

// namespace has the texts of one namespace, the one that was used last in front.
type namespace struct {
	bytes int64
	texts *list.List
}

// text holds the texts of one object in one generation.
type text struct {
	namespace  string
	uid        types.UID
	generation int64
	value      any
	bytes      int64
}

func newTextCache(limit int64) *textCache {
	return &textCache{limit: limit, byUID: map[types.UID]*list.Element{}, namespaces: map[string]*namespace{}}
}

// get returns the texts of one generation of an object.
func (k *textCache) get(uid types.UID, generation int64) (any, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	element := k.byUID[uid]
	if element == nil {
		return nil, false
	}
	found := element.Value.(*text)
	if found.generation != generation {
		return nil, false
	}
	k.namespaces[found.namespace].texts.MoveToFront(element)
	return found.value, true
}

// add keeps the texts of an object in place of those of another generation. They must not change any more.
func (k *textCache) add(in string, uid types.UID, generation int64, value any, bytes int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if element := k.byUID[uid]; element != nil {
		k.drop(element)
	}
	own := k.limit / perNamespace
	if bytes > own {
		return
	}
	for k.namespaces[in] != nil && k.namespaces[in].bytes+bytes > own {
		k.drop(k.namespaces[in].texts.Back())
	}
	for k.bytes+bytes > k.limit {
		k.drop(k.largest().texts.Back())
	}
	if k.namespaces[in] == nil {
		k.namespaces[in] = &namespace{texts: list.New()}
	}
	k.byUID[uid] = k.namespaces[in].texts.PushFront(&text{
		namespace: in, uid: uid, generation: generation, value: value, bytes: bytes,
	})
	k.namespaces[in].bytes += bytes
	k.bytes += bytes
}

// largest returns the namespace with the most bytes.
func (k *textCache) largest() *namespace {
	var most *namespace
	for _, n := range k.namespaces {
		if most == nil || n.bytes > most.bytes {
			most = n
		}
	}
	return most
}

func (k *textCache) drop(element *list.Element) {
	dropped := element.Value.(*text)
	n := k.namespaces[dropped.namespace]
	n.texts.Remove(element)
	n.bytes -= dropped.bytes
	k.bytes -= dropped.bytes
	delete(k.byUID, dropped.uid)
	if n.texts.Len() == 0 {
		delete(k.namespaces, dropped.namespace)
	}
}
