// Package stored reads what the services of a Session store, at the manager or, if that cannot be reached, in Records.
package stored

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	stream "github.com/capstan-dev/capstan/api/stream/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/record"
	runtimestored "github.com/capstan-dev/capstan/internal/runtime/stored"
	"github.com/capstan-dev/capstan/internal/streamclient"
)

// maxBytes bounds an answer: the items of all services, or one value in JSON.
const maxBytes = 8 << 20

// Manager sends requests to the manager.
type Manager interface {
	Do(ctx context.Context, r streamclient.Request) (*streamclient.Answer, error)
}

// Services are those of a Session.
type Services struct {
	// Manager serves them. Records has them too, for those who may read Records.
	Manager Manager
	Records record.Store
	Session stream.Session
	// Note is called with a sentence for the user when the manager cannot be reached.
	Note func(string)
}

// NotFoundError reports a service or a key that does not exist.
type NotFoundError struct{ Service, Key string }

// Error implements error.
func (e *NotFoundError) Error() string {
	if e.Key == "" {
		return fmt.Sprintf("the service %q does not exist", e.Service)
	}
	return fmt.Sprintf("the Session has no %q in %s", e.Key, e.Service)
}

// List describes what a service stores, or all services for an empty name. The error is a *NotFoundError for an unknown
// service.
func (s *Services) List(ctx context.Context, service string) ([]stream.StoredItem, error) {
	path := []string{"storage"}
	if service != "" {
		path = append(path, service)
	}
	var list stream.StoredList
	recorded, err := s.ask(ctx, path, &list)
	if recorded != nil {
		list.Items, err = recorded.List(ctx, service)
		if err == nil && list.Items == nil {
			err = &NotFoundError{Service: service}
		}
	}
	if apierrors.IsNotFound(err) {
		err = &NotFoundError{Service: service}
	}
	return list.Items, err
}

// Read returns what a service stores under a key. The error is a *NotFoundError if it does not exist.
func (s *Services) Read(ctx context.Context, service, key string) (*stream.StoredItem, error) {
	item := &stream.StoredItem{}
	recorded, err := s.ask(ctx, []string{"storage", service, key}, item)
	if recorded != nil {
		item, err = recorded.Read(ctx, service, key)
	}
	if apierrors.IsNotFound(err) || err == nil && item == nil {
		return nil, &NotFoundError{Service: service, Key: key}
	}
	return item, err
}

// ask asks the manager, and decodes its answer. If it cannot be reached, it returns the services in the Records.
func (s *Services) ask(ctx context.Context, path []string, into any) (*runtimestored.Services, error) {
	answer, err := s.Manager.Do(ctx, streamclient.Request{
		Method: http.MethodGet, Session: s.Session, Path: path, Most: maxBytes,
	})
	var unreachable *streamclient.UnreachableError
	if errors.As(err, &unreachable) {
		s.Note("The manager cannot be asked, so that the Records are read. (" + unreachable.Error() + ")")
		return runtimestored.Of(s.Records, record.Session{
			Namespace: s.Session.Namespace, Name: s.Session.Name, UID: s.Session.UID,
		}), nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the storage of the Session: %w", err)
	}
	if err := json.Unmarshal(answer.Body, into); err != nil {
		return nil, fmt.Errorf("reading the answer of the manager: %w", err)
	}
	return nil, nil
}
