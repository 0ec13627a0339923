// Package stores finds the backend that has the journal and the records of a Session, and deletes what a database has
// of Sessions that are gone.
package stores

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/record"
)

// errUndecided reports a write for a Session that no manager has taken up. Its store is in the first status.
var errUndecided = errors.New("the store of the Session is not decided yet")

// Backend is one store of journals and records.
type Backend struct {
	Journal journal.Store
	Records record.Objects
	// Follow is what those who follow journals read from; nil for Journal.
	Follow journal.Reader
}

// Router passes the calls for a Session on to the backend that its status names, which never changes. It is safe for
// concurrent use.
type Router struct {
	// Sessions reads Sessions from the cache.
	Sessions client.Reader
	// Backends are those that this manager has.
	Backends map[v1alpha1.SessionStore]Backend
	// Owned reports whether the database has rows of an object, for Sessions that are gone; nil without a database.
	Owned func(ctx context.Context, namespace string, uid types.UID) (bool, error)

	mu    sync.Mutex
	known map[types.UID]v1alpha1.SessionStore
	// decided is closed, and replaced, when a store is decided. It is nil while nothing waits.
	decided chan struct{}
	// gone are the UIDs of Sessions that are gone and still known, oldest first: late calls for them ask no database.
	gone []types.UID
}

// maxGone bounds the Sessions that are gone and still known.
const maxGone = 1024

// Of returns the store of a Session; empty for one that no manager has taken up. A Session whose status an earlier
// version has written is in Kubernetes.
func Of(session *v1alpha1.Session) v1alpha1.SessionStore {
	status := &session.Status
	if status.Store != "" {
		return status.Store
	}
	if status.Phase != "" || status.ActiveTurn != nil || status.Journal.Head > 0 || status.Hooks != nil {
		return v1alpha1.SessionStoreKubernetes
	}
	return ""
}

// Has reports whether this manager has a store.
func (r *Router) Has(store v1alpha1.SessionStore) bool {
	_, found := r.Backends[store]
	return found
}

// Observe remembers the store of a Session, if it is decided.
func (r *Router) Observe(session *v1alpha1.Session) {
	store := Of(session)
	if store == "" {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.known == nil {
		r.known = map[types.UID]v1alpha1.SessionStore{}
	}
	_, before := r.known[session.UID]
	r.known[session.UID] = store
	if !before && r.decided != nil {
		close(r.decided)
		r.decided = nil
	}
}

// Await waits until the store of a Session is decided, which its reconciler does with the first status. The error is
// that of the context, or of reading the Session.
func (r *Router) Await(ctx context.Context, key types.NamespacedName, uid types.UID) error {
	for {
		decided := r.next()
		store, err := r.storeOf(ctx, key, uid)
		if err != nil || store != "" {
			return err
		}
		select {
		case <-decided:
		case <-ctx.Done():
			return fmt.Errorf("waiting for the first status of Session %s: %w", key, ctx.Err())
		}
	}
}

// next returns a channel that is closed when a store is decided.
func (r *Router) next() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.decided == nil {
		r.decided = make(chan struct{})
	}
	return r.decided
}

// Forget lets go of a Session that is gone. It returns its store; empty if that is not known.
func (r *Router) Forget(uid types.UID) v1alpha1.SessionStore {
	r.mu.Lock()
	defer r.mu.Unlock()
	store, found := r.known[uid]
	if !found {
		return ""
	}
	r.gone = append(r.gone, uid)
	if len(r.gone) > maxGone {
		delete(r.known, r.gone[0])
		r.gone = append(r.gone[:0], r.gone[1:]...)
	}
	return store
}

// storeOf returns the store of a Session; empty if it is not decided.
func (r *Router) storeOf(ctx context.Context, key types.NamespacedName, uid types.UID) (v1alpha1.SessionStore, error) {
	r.mu.Lock()
	store, found := r.known[uid]
	r.mu.Unlock()
	if found {
		return store, nil
	}
	session := &v1alpha1.Session{}
	err := r.Sessions.Get(ctx, key, session)
	switch {
	case client.IgnoreNotFound(err) != nil:
		return "", fmt.Errorf("reading the store of Session %s: %w", key, err)
	case err != nil || session.UID != uid:
		return r.storeOfGone(ctx, key.Namespace, uid)
	}
	r.Observe(session)
	return Of(session), nil
}

// storeOfGone returns the store of a Session that is gone, or that the cache does not have yet.
func (r *Router) storeOfGone(ctx context.Context, namespace string, uid types.UID) (v1alpha1.SessionStore, error) {
	if r.Owned == nil {
		return v1alpha1.SessionStoreKubernetes, nil
	}
	owned, err := r.Owned(ctx, namespace, uid)
	if err != nil {
		return "", fmt.Errorf("looking for the store of a Session that is gone: %w", err)
	}
	if owned {
		return v1alpha1.SessionStorePostgres, nil
	}
	return v1alpha1.SessionStoreKubernetes, nil
}

// backend returns the backend of a Session; nil if its store is not decided.
func (r *Router) backend(ctx context.Context, key types.NamespacedName, uid types.UID) (*Backend, error) {
	store, err := r.storeOf(ctx, key, uid)
	if err != nil || store == "" {
		return nil, err
	}
	backend, found := r.Backends[store]
	if !found {
		return nil, errors.Join(journal.ErrRefused, record.ErrRefused, fmt.Errorf("%w: %s", journal.ErrNoStore, store))
	}
	return &backend, nil
}

// Journal is the journal.Store of all Sessions.
func (r *Router) Journal() journal.Store { return journals{r} }

// Follow is the journal.Reader of those who follow the journals of all Sessions.
func (r *Router) Follow() journal.Reader { return followed{r} }

// followed implements journal.Reader.
type followed struct{ router *Router }

// Get implements journal.Reader.
func (f followed) Get(ctx context.Context, s journal.Session, ordinal int64) (*v1alpha1.JournalEntrySpec, error) {
	b, err := f.router.backend(ctx, types.NamespacedName{Namespace: s.Namespace, Name: s.Name}, s.UID)
	switch {
	case err != nil:
		return nil, err
	case b == nil:
		return nil, journal.ErrNotFound
	case b.Follow == nil:
		return b.Journal.Get(ctx, s, ordinal)
	}
	return b.Follow.Get(ctx, s, ordinal)
}

// Records are the record.Objects of all Sessions. Those of MCPServers and of wallets are in Kubernetes: the API server
// deletes them with their owners.
func (r *Router) Records() record.Objects { return records{r} }

// journals implements journal.Store and journal.DryRunner.
type journals struct{ router *Router }

func (j journals) of(ctx context.Context, s journal.Session) (journal.Store, error) {
	b, err := j.router.backend(ctx, types.NamespacedName{Namespace: s.Namespace, Name: s.Name}, s.UID)
	if err != nil || b == nil {
		return nil, err
	}
	return b.Journal, nil
}

// Get implements journal.Store.
func (j journals) Get(ctx context.Context, s journal.Session, ordinal int64) (*v1alpha1.JournalEntrySpec, error) {
	store, err := j.of(ctx, s)
	if err != nil {
		return nil, err
	}
	if store == nil {
		return nil, journal.ErrNotFound
	}
	return store.Get(ctx, s, ordinal)
}

// Create implements journal.Store.
func (j journals) Create(ctx context.Context, s journal.Session, e *v1alpha1.JournalEntrySpec) error {
	store, err := j.of(ctx, s)
	if err == nil && store == nil {
		err = errUndecided
	}
	if err != nil {
		return err
	}
	return store.Create(ctx, s, e)
}

// DryRun implements journal.DryRunner.
func (j journals) DryRun(ctx context.Context, s journal.Session, e *v1alpha1.JournalEntrySpec) error {
	store, err := j.of(ctx, s)
	if err != nil {
		return err
	}
	if dry, ok := store.(journal.DryRunner); ok {
		return dry.DryRun(ctx, s, e)
	}
	return nil
}

// records implements record.Objects.
type records struct{ router *Router }

func (r records) of(ctx context.Context, scope record.Scope) (record.Objects, error) {
	if scope.MCPServer != "" || scope.Secret != "" {
		return r.router.Backends[v1alpha1.SessionStoreKubernetes].Records, nil
	}
	b, err := r.router.backend(ctx, types.NamespacedName{Namespace: scope.Namespace, Name: scope.Session}, scope.UID)
	if err != nil || b == nil {
		return nil, err
	}
	return b.Records, nil
}

// forChange returns the objects of a scope for a change.
func (r records) forChange(ctx context.Context, scope record.Scope) (record.Objects, error) {
	objects, err := r.of(ctx, scope)
	if err == nil && objects == nil {
		err = errUndecided
	}
	return objects, err
}

// ReadIndex implements record.Objects.
func (r records) ReadIndex(ctx context.Context, scope record.Scope) (record.Stored, error) {
	objects, err := r.of(ctx, scope)
	if err != nil {
		return record.Stored{}, err
	}
	if objects == nil {
		return record.Stored{}, record.ErrNotFound
	}
	return objects.ReadIndex(ctx, scope)
}

// ReadBlob implements record.Objects.
func (r records) ReadBlob(ctx context.Context, scope record.Scope, name string) ([]byte, error) {
	objects, err := r.of(ctx, scope)
	if err != nil {
		return nil, err
	}
	if objects == nil {
		return nil, record.ErrNotFound
	}
	return objects.ReadBlob(ctx, scope, name)
}

// WriteIndex implements record.Objects.
func (r records) WriteIndex(ctx context.Context, scope record.Scope, index record.Stored) error {
	objects, err := r.forChange(ctx, scope)
	if err != nil {
		return err
	}
	return objects.WriteIndex(ctx, scope, index)
}

// CreateBlob implements record.Objects.
func (r records) CreateBlob(ctx context.Context, scope record.Scope, name string, payload []byte) error {
	objects, err := r.forChange(ctx, scope)
	if err != nil {
		return err
	}
	return objects.CreateBlob(ctx, scope, name, payload)
}

// DeleteBlob implements record.Objects.
func (r records) DeleteBlob(ctx context.Context, scope record.Scope, name string) error {
	objects, err := r.forChange(ctx, scope)
	if err != nil {
		return err
	}
	return objects.DeleteBlob(ctx, scope, name)
}
