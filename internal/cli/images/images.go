// Package images lists, reads, stores and deletes the images of Sessions, at the manager or, if that cannot be reached
// and nothing is changed, in Records.
package images

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	stream "github.com/capstan-dev/capstan/api/stream/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/sessionimage"
	"github.com/capstan-dev/capstan/internal/streamclient"
)

// maxBytes bounds an answer: an image, or the list of all of them.
const maxBytes = stream.MaxImageBytes

// Manager sends requests to the manager.
type Manager interface {
	Do(ctx context.Context, r streamclient.Request) (*streamclient.Answer, error)
}

// Images are those of a Session.
type Images struct {
	// Manager serves them. Records has them too, for those who may read Records.
	Manager Manager
	Records *sessionimage.Images
	Session stream.Session
	// Note is called with a sentence for the user when the manager cannot be reached.
	Note func(string)
}

// NotFoundError reports an image that does not exist.
type NotFoundError struct{ ID string }

// Error implements error.
func (e *NotFoundError) Error() string { return fmt.Sprintf("the Session has no image %q", e.ID) }

// List describes all images, those that were stored last first.
func (s *Images) List(ctx context.Context) ([]stream.Image, error) {
	answer, recorded, err := s.ask(ctx, streamclient.Request{Method: http.MethodGet})
	switch {
	case recorded:
		return s.listRecords(ctx)
	case err != nil:
		return nil, err
	}
	var list stream.ImageList
	if err := json.Unmarshal(answer.Body, &list); err != nil {
		return nil, fmt.Errorf("reading the list of images: %w", err)
	}
	return list.Items, nil
}

func (s *Images) listRecords(ctx context.Context) ([]stream.Image, error) {
	found, err := s.Records.List(ctx)
	if err != nil {
		return nil, err
	}
	all := make([]stream.Image, len(found))
	for i := range found {
		all[i] = found[i].Public()
	}
	return all, nil
}

// Get returns the bytes of an image, and its type. The error is a *NotFoundError if it does not exist.
func (s *Images) Get(ctx context.Context, id string) (content []byte, mediaType string, err error) {
	answer, recorded, err := s.ask(ctx, streamclient.Request{Method: http.MethodGet, Path: []string{id}})
	if recorded {
		info, content, err := s.Records.Get(ctx, id)
		switch {
		case err != nil:
			return nil, "", err
		case info == nil:
			return nil, "", &NotFoundError{ID: id}
		}
		return content, info.ContentType, nil
	}
	if err != nil {
		return nil, "", err
	}
	return answer.Body, answer.Type, nil
}

// Put stores an image, and describes it.
func (s *Images) Put(
	ctx context.Context, filename string, metadata map[string]string, content []byte,
) (*stream.Image, error) {
	query := url.Values{"filename": {filename}}
	for _, key := range slices.Sorted(maps.Keys(metadata)) {
		query.Add("metadata", key+"="+metadata[key])
	}
	answer, recorded, err := s.ask(ctx, streamclient.Request{Method: http.MethodPost, Query: query, Body: content})
	switch {
	case recorded:
		return nil, errors.New("storing an image: the manager cannot be reached")
	case err != nil:
		return nil, err
	}
	image := &stream.Image{}
	if err := json.Unmarshal(answer.Body, image); err != nil {
		return nil, fmt.Errorf("reading the answer of the manager: %w", err)
	}
	return image, nil
}

// Delete deletes an image. The error is a *NotFoundError if it does not exist.
func (s *Images) Delete(ctx context.Context, id string) error {
	_, recorded, err := s.ask(ctx, streamclient.Request{Method: http.MethodDelete, Path: []string{id}})
	if recorded {
		return errors.New("deleting an image: the manager cannot be reached")
	}
	return err
}

// ask asks the manager. It reports whether the Records have to be read instead.
func (s *Images) ask(
	ctx context.Context, r streamclient.Request,
) (answer *streamclient.Answer, recorded bool, err error) {
	id := r.Path
	r.Session, r.Path, r.Most = s.Session, append([]string{"images"}, id...), maxBytes
	answer, err = s.Manager.Do(ctx, r)
	var unreachable *streamclient.UnreachableError
	switch {
	case errors.As(err, &unreachable):
		s.Note("The manager cannot be asked. (" + unreachable.Error() + ")")
		return nil, true, nil
	case apierrors.IsNotFound(err) && len(id) > 0:
		return nil, false, &NotFoundError{ID: id[0]}
	case err != nil:
		return nil, false, fmt.Errorf("using the images: %w", err)
	default:
		return answer, false, nil
	}
}
