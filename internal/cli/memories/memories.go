// Package memories lists, reads and forgets what models remember, at the manager or, if that cannot be reached and
// nothing is changed, in Records.
package memories

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	stream "github.com/capstan-dev/capstan/api/stream/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/memory"
	"github.com/capstan-dev/capstan/internal/streamclient"
)

// maxBytes bounds an answer: a page of memories of the largest size.
const maxBytes = 16 << 20

// Manager sends requests to the manager.
type Manager interface {
	Do(ctx context.Context, r streamclient.Request) (*streamclient.Answer, error)
}

// Memories are those of a Session.
type Memories struct {
	// Manager serves them. Records has them too, for those who may read Records.
	Manager Manager
	Records *memory.Memories
	Session stream.Session
	// Note is called with a sentence for the user when the manager cannot be reached.
	Note func(string)
}

// NotFoundError reports a memory that does not exist, or is forgotten.
type NotFoundError struct{ ID string }

// Error implements error.
func (e *NotFoundError) Error() string {
	return fmt.Sprintf("there is no memory %q that is not forgotten", e.ID)
}

// List returns all active memories, or all with those that are forgotten, newest first.
func (m *Memories) List(ctx context.Context, withForgotten bool) ([]stream.Memory, error) {
	all := []stream.Memory{}
	for after := ""; ; {
		query := url.Values{"after": {after}}
		if withForgotten {
			query.Set("forgotten", "true")
		}
		page := &stream.MemoryList{}
		recorded, err := m.ask(ctx, http.MethodGet, nil, query, page)
		if recorded {
			page, err = m.Records.Page(ctx, withForgotten, after)
		}
		if err != nil {
			return nil, err
		}
		all = append(all, page.Items...)
		if !page.More || len(page.Items) == 0 {
			return all, nil
		}
		after = page.Items[len(page.Items)-1].ID
	}
}

// Get returns a memory. The error is a *NotFoundError if it does not exist.
func (m *Memories) Get(ctx context.Context, id string) (*stream.Memory, error) {
	found := &stream.Memory{}
	recorded, err := m.ask(ctx, http.MethodGet, []string{id}, url.Values{}, found)
	if recorded {
		var kept *memory.Memory
		if kept, err = m.Records.Get(ctx, id); kept != nil {
			*found = kept.Public()
		}
		if err == nil && kept == nil {
			err = &NotFoundError{ID: id}
		}
	}
	if err != nil {
		return nil, err
	}
	return found, nil
}

// Forget forgets a memory. The error is a *NotFoundError if it does not exist.
func (m *Memories) Forget(ctx context.Context, id string) error {
	recorded, err := m.ask(ctx, http.MethodDelete, []string{id}, url.Values{}, nil)
	if recorded {
		return errors.New("forgetting a memory: the manager cannot be reached")
	}
	return err
}

// ask asks the manager, and decodes its answer. It reports whether the Records have to be read instead.
func (m *Memories) ask(
	ctx context.Context, method string, path []string, query url.Values, into any,
) (recorded bool, err error) {
	answer, err := m.Manager.Do(ctx, streamclient.Request{
		Method: method, Session: m.Session, Path: append([]string{"memory"}, path...), Query: query, Most: maxBytes,
	})
	var unreachable *streamclient.UnreachableError
	switch {
	case errors.As(err, &unreachable):
		m.Note("The manager cannot be asked. (" + unreachable.Error() + ")")
		return true, nil
	case apierrors.IsNotFound(err) && len(path) > 0:
		return false, &NotFoundError{ID: path[0]}
	case err != nil:
		return false, fmt.Errorf("using the memory: %w", err)
	case into == nil:
		return false, nil
	}
	if err := json.Unmarshal(answer.Body, into); err != nil {
		return false, fmt.Errorf("reading the answer of the manager: %w", err)
	}
	return false, nil
}
