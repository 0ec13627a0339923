// Package tombstone remembers objects that are known to be deleted, so that the objects that refer to them need no
// further past the cache.
package tombstone

import (
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

const (
	// TTL is the time for which an object is remembered. A UID is not used again, but etcd may be restored.
	TTL = time.Minute
	// maxEntries bounds the number of remembered objects.
	maxEntries = 4096
)

// Set holds the UIDs of objects that are deleted according to a watch or a live read. The zero value is usable.
type Set struct {
	mu    sync.Mutex
	since map[types.UID]time.Time
}

// Since returns when an object was added, and whether it is still in the set.
func (o *Set) Since(uid types.UID, now time.Time) (time.Time, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	since, found := o.since[uid]
	return since, found && now.Before(since.Add(TTL))
}

// Add records that an object is deleted, unless that is known. An empty UID identifies no object.
func (o *Set) Add(uid types.UID, now time.Time) {
	if _, known := o.Since(uid, now); known || uid == "" {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.since) >= maxEntries {
		maps.DeleteFunc(o.since, func(_ types.UID, since time.Time) bool { return !now.Before(since.Add(TTL)) })
	}
	if o.since == nil || len(o.since) >= maxEntries {
		o.since = map[types.UID]time.Time{}
	}
	o.since[uid] = now
}
