package crash_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// streamFault is what happens to the events of one namespace.
type streamFault struct {
	// late is how long the events of a resource are kept back.
	late map[string]time.Duration
	// twice repeats every event.
	twice bool
	// gap is a resource whose events are dropped, from the nth on, until the watch fails because its version is too old
	// (410).
	gap string
	nth int
	// merged is a resource of which an object that is deleted and created again comes as one change, as after a gap.
	merged string
}

// outage is how long the events of a gap are dropped.
const outage = 300 * time.Millisecond

// frame is one event of a watch.
type frame struct {
	kind, namespace, key string
	revision             string
	initialEnd           bool
	raw                  []byte
}

// feed are the watches that a kit opens of one resource, one after the other.
type feed struct {
	resource string
	// kept are the newest events of the objects of namespaces that are not shown.
	kept map[string][]frame
	// queue has the events that are not read yet, and wake is notified of new ones.
	queue [][]byte
	wake  chan struct{}
	// late are events that are kept back for a while, in their order.
	late []frame
	// seen counts the events of a namespace.
	seen map[string]int
	// deleted are the keys of objects whose deletion is not shown.
	deleted map[string]bool
	// dropping is the namespace whose events are dropped.
	dropping string
	// body is the watch that is open.
	body *streamBody
}

// streamBody is the body of one watch.
type streamBody struct {
	wire     *wire
	feed     *feed
	upstream io.ReadCloser
	rest     []byte
	// ended reports whether nothing more comes; initial, that the first list is still coming.
	ended, initial bool
	done           chan struct{}
	once           sync.Once
}

// watch opens a watch that shows the namespaces which the kit leads.
func (w *wire) watch(next http.RoundTripper, r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set(
		"Accept",
		strings.ReplaceAll(r.Header.Get("Accept"), "application/vnd.kubernetes.protobuf", "application/json"),
	)
	response, err := next.RoundTrip(r)
	if err != nil || response.StatusCode != http.StatusOK {
		return response, err
	}
	parts := strings.Split(r.URL.Path, "/")
	key := r.URL.Path + " " + r.Header.Get(
		"Accept",
	) + " " + r.URL.Query().
		Get("labelSelector") +
		r.URL.Query().
			Get("fieldSelector")
	w.mu.Lock()
	defer w.mu.Unlock()
	f := w.feeds[key]
	if f == nil {
		f = &feed{
			resource: parts[len(parts)-1],
			kept:     map[string][]frame{},
			seen:     map[string]int{},
			deleted:  map[string]bool{},
		}
		w.feeds[key] = f
	}
	f.wake = make(chan struct{}, 1)
	body := &streamBody{
		wire:     w,
		feed:     f,
		upstream: response.Body,
		done:     make(chan struct{}),
		initial:  r.URL.Query().Get("sendInitialEvents") == "true",
	}
	f.body = body
	go body.receive()
	response.Body = body
	return response, nil
}

// receive reads the events of the API server.
func (b *streamBody) receive() {
	reader := bufio.NewReaderSize(b.upstream, 64<<10)
	for {
		raw, err := reader.ReadBytes('\n')
		b.wire.mu.Lock()
		if err != nil || b.ended {
			b.ended = true
			b.feed.notify()
			b.wire.mu.Unlock()
			return
		}
		b.wire.route(b, parse(raw))
		b.wire.mu.Unlock()
	}
}

func parse(raw []byte) frame {
	var event struct {
		Type   string `json:"type"`
		Object struct {
			Metadata struct {
				Namespace       string            `json:"namespace"`
				Name            string            `json:"name"`
				ResourceVersion string            `json:"resourceVersion"`
				Annotations     map[string]string `json:"annotations"`
			} `json:"metadata"`
		} `json:"object"`
	}
	f := frame{raw: raw}
	if json.Unmarshal(raw, &event) != nil {
		return f
	}
	m := event.Object.Metadata
	f.kind, f.namespace, f.key, f.revision = event.Type, m.Namespace, m.Namespace+"/"+m.Name, m.ResourceVersion
	f.initialEnd = event.Type == "BOOKMARK" && m.Annotations["k8s.io/initial-events-end"] != ""
	return f
}

// route shows an event, or keeps it back. The caller holds the lock.
func (w *wire) route(b *streamBody, e frame) {
	f := b.feed
	if e.initialEnd {
		b.initial = false
	}
	if !isRun(e.namespace) || e.kind == "BOOKMARK" {
		f.push(e.raw)
		return
	}
	l := w.of(e.namespace)
	if f.isHidden(l) {
		f.keep(e)
		return
	}
	f.seen[e.namespace]++
	switch faults := l.streams; {
	case b.initial:
		f.push(e.raw)
	case f.dropping == e.namespace:
		l.disturbed++
	case faults.gap == f.resource && f.dropping == "" && f.seen[e.namespace] == faults.nth:
		f.dropping = e.namespace
		l.disturbed++
		time.AfterFunc(outage, func() { w.expire(b) })
	case faults.merged == f.resource && e.kind == "DELETED":
		f.deleted[e.key] = true
	case faults.merged == f.resource && e.kind == "ADDED" && f.deleted[e.key]:
		l.disturbed++
		delete(f.deleted, e.key)
		f.push(bytes.Replace(e.raw, []byte(`"ADDED"`), []byte(`"MODIFIED"`), 1))
	case faults.late[f.resource] > 0:
		l.disturbed++
		f.late = append(f.late, e)
		time.AfterFunc(faults.late[f.resource], func() { w.deliver(f, e.namespace) })
	case faults.twice:
		l.disturbed++
		f.push(e.raw)
		f.push(e.raw)
	default:
		f.push(e.raw)
	}
}

// deliver shows the oldest event of a namespace that was late, unless the namespace is not shown any more.
func (w *wire) deliver(f *feed, namespace string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	i := slices.IndexFunc(f.late, func(e frame) bool { return e.namespace == namespace })
	e := f.late[i]
	f.late = slices.Delete(f.late, i, i+1)
	if f.isHidden(w.of(namespace)) {
		f.keep(e)
		return
	}
	f.push(e.raw)
}

// isHidden reports whether the kit must not see events of a namespace. All kits see configuration, as a process does
// that has just filled its caches.
func (f *feed) isHidden(l *line) bool {
	switch f.resource {
	case "turns":
		return !l.open || l.opening
	case "sessions", "jobs", "pods", "toolresults":
		return !l.open
	default:
		return false
	}
}

// expire ends a watch as an API server does whose history does not go back far enough.
func (w *wire) expire(b *streamBody) {
	w.mu.Lock()
	defer w.mu.Unlock()
	b.feed.dropping = ""
	if b.ended {
		return
	}
	b.feed.queue = nil
	b.feed.push([]byte(`{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",` +
		`"message":"too old resource version","reason":"Expired","code":410}}` + "\n"))
	b.ended = true
}

// keep remembers the newest event of an object.
func (f *feed) keep(e frame) {
	kept := slices.DeleteFunc(f.kept[e.namespace], func(other frame) bool { return other.key == e.key })
	f.kept[e.namespace] = append(kept, e)
}

// push hands an event to the reader.
func (f *feed) push(raw []byte) {
	f.queue = append(f.queue, raw)
	f.notify()
}

func (f *feed) notify() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// show opens a namespace to the watches: they get what was kept back. A process that has just begun fills its caches
// before it works, so that the Turns come last. The caller holds the lock.
func (w *wire) show(namespace string) {
	l := w.of(namespace)
	if l.open {
		return
	}
	l.open, l.opening = true, true
	w.flush(namespace)
	time.AfterFunc(fillingCaches, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		l.opening = false
		if l.open {
			w.flush(namespace)
		}
	})
}

// fillingCaches is how long a process has for all objects but the Turns.
const fillingCaches = 100 * time.Millisecond

// flush hands on what was kept back and is not hidden any more. The caller holds the lock.
func (w *wire) flush(namespace string) {
	for _, key := range slices.Sorted(maps.Keys(w.feeds)) {
		f := w.feeds[key]
		if f.isHidden(w.of(namespace)) {
			continue
		}
		for _, e := range f.kept[namespace] {
			f.push(e.raw)
		}
		delete(f.kept, namespace)
	}
}

// lead makes the kit lead a namespace.
func (w *wire) lead(namespace string, faults streamFault) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.of(namespace).streams = faults
	w.show(namespace)
}

// disturb makes the events of a namespace come in another way from now on.
func (w *wire) disturb(namespace string, faults streamFault) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.of(namespace).streams = faults
	for _, f := range w.feeds {
		f.seen[namespace] = 0
	}
}

// events counts the events of a namespace since it was disturbed, by resource.
func (w *wire) events(namespace string) map[string]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	found := map[string]int{}
	for _, f := range w.feeds {
		found[f.resource] = max(found[f.resource], f.seen[namespace])
	}
	return found
}

// Read implements io.Reader.
func (b *streamBody) Read(p []byte) (int, error) {
	for len(b.rest) == 0 {
		b.wire.mu.Lock()
		if b.feed.body == b && len(b.feed.queue) > 0 {
			b.rest, b.feed.queue = b.feed.queue[0], b.feed.queue[1:]
		}
		ended := b.ended || b.feed.body != b
		wake := b.feed.wake
		b.wire.mu.Unlock()
		if len(b.rest) > 0 {
			break
		}
		if ended {
			return 0, io.EOF
		}
		select {
		case <-wake:
		case <-b.done:
			return 0, io.ErrUnexpectedEOF
		}
	}
	n := copy(p, b.rest)
	b.rest = b.rest[n:]
	return n, nil
}

// Close implements io.Closer.
func (b *streamBody) Close() error {
	b.once.Do(func() { close(b.done) })
	return b.upstream.Close()
}
