package history

import (
	"context"
	"errors"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
)

// ErrInPostgres reports a journal that is in PostgreSQL, which users have no access to.
var ErrInPostgres = errors.New("it is in PostgreSQL, which only the manager reads")

// located is a store of journals in Kubernetes that reports those of Sessions which are elsewhere: there, a missing
// entry is not the end. It asks for each Session once, and only if an entry is missing.
type located struct {
	journal.Store
	client rest.Interface

	mu    sync.Mutex
	known map[types.UID]bool // whether it is in PostgreSQL
}

// Get implements journal.Store.
func (l *located) Get(ctx context.Context, s journal.Session, ordinal int64) (*v1alpha1.JournalEntrySpec, error) {
	spec, err := l.Store.Get(ctx, s, ordinal)
	if !errors.Is(err, journal.ErrNotFound) {
		return spec, err
	}
	elsewhere, locateErr := l.elsewhere(ctx, s)
	if locateErr != nil {
		return nil, locateErr
	}
	if elsewhere {
		return nil, fmt.Errorf(
			"%w: print it from its beginning with kubectl capstan watch %s, which uses the event stream of "+
				"the manager. If that cannot be reached, check --manager-namespace, the Service capstan-stream there, and your "+
				"permission to get sessions/events",
			ErrInPostgres,
			s.Name,
		)
	}
	return nil, err
}

// elsewhere reports whether the journal of a Session is in PostgreSQL. That of a Session which is gone is not: its rows
// are deleted with it.
func (l *located) elsewhere(ctx context.Context, s journal.Session) (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if is, found := l.known[s.UID]; found {
		return is, nil
	}
	session := &v1alpha1.Session{}
	err := l.client.Get().Namespace(s.Namespace).Resource("sessions").Name(s.Name).Do(ctx).Into(session)
	if err != nil && !apierrors.IsNotFound(err) {
		return false, fmt.Errorf("reading the store of Session %s: %w", s.Name, err)
	}
	if err == nil && session.Status.Phase == "" {
		return false, nil // its store may not be decided yet
	}
	if l.known == nil {
		l.known = map[types.UID]bool{}
	}
	is := err == nil && session.UID == s.UID && session.Status.Store == v1alpha1.SessionStorePostgres
	l.known[s.UID] = is
	return is, nil
}
