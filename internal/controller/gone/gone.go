// Package gone remembers objects that are known to be gone, so that the objects that refer to them need no further read
// past the cache.
package gone

import (
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

const (
	// Kept is how long an object is remembered. A UID is not used again, but etcd may be restored.
	Kept = time.Minute
	// most bounds the number of remembered objects.
	most = 4096
)

// Objects are objects that are gone according to a watch or a live read, by UID. The zero value is usable.
type Objects struct {
	mu    sync.Mutex
	since map[types.UID]time.Time
}

// Since returns when an object was noted, and whether it still counts as gone.
func (o *Objects) Since(uid types.UID, now time.Time) (time.Time, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	since, found := o.since[uid]
	return since, found && now.Before(since.Add(Kept))
}

// Note records that an object is gone, unless that is known. An empty UID identifies no object.
func (o *Objects) Note(uid types.UID, now time.Time) {
	if _, known := o.Since(uid, now); known || uid == "" {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.since) >= most {
		maps.DeleteFunc(o.since, func(_ types.UID, since time.Time) bool { return !now.Before(since.Add(Kept)) })
	}
	if o.since == nil || len(o.since) >= most {
		o.since = map[types.UID]time.Time{}
	}
	o.since[uid] = now
}
