package files

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	stream "github.com/capstan-dev/capstan/api/stream/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/record"
	"github.com/capstan-dev/capstan/internal/runtime/sessionfs"
	"github.com/capstan-dev/capstan/internal/streamclient"
)

// maxListBytes bounds a list: 4096 paths of 512 bytes, and what is known of each.
const maxListBytes = 8 << 20

// Manager sends requests to the manager.
type Manager interface {
	Do(ctx context.Context, r streamclient.Request) (*streamclient.Answer, error)
}

// Files are those of a Session.
type Files struct {
	// Manager serves them. Records has them too, for those who may read Records.
	Manager Manager
	Records record.Store
	Session stream.Session
	// Note is called with a sentence for the user when the manager cannot be reached.
	Note func(string)
}

// NotFoundError reports a path that does not exist.
type NotFoundError struct{ Path string }

// Error implements error.
func (e *NotFoundError) Error() string { return fmt.Sprintf("the Session has no file %s", e.Path) }

// DirectoryError reports a directory where a file is wanted.
type DirectoryError struct{ Path string }

// Error implements error.
func (e *DirectoryError) Error() string { return fmt.Sprintf("%s is a directory", e.Path) }

// List returns the files and directories in a directory, or all that are below it.
func (f *Files) List(ctx context.Context, path string, recursive bool) ([]stream.File, error) {
	path, err := sessionfs.Clean(path)
	if err != nil {
		return nil, err
	}
	query := url.Values{"recursive": {strconv.FormatBool(recursive)}}
	answer, err := f.ask(ctx, http.MethodGet, path+"/", maxListBytes, nil, query)
	if f.useRecords(err) {
		return f.listRecords(ctx, path, recursive)
	}
	if err != nil {
		return nil, fmt.Errorf("listing %s: %w", path, err)
	}
	var list stream.FileList
	if err := json.Unmarshal(answer.Body, &list); err != nil {
		return nil, fmt.Errorf("reading the list of %s: %w", path, err)
	}
	return list.Files, nil
}

func (f *Files) listRecords(ctx context.Context, path string, recursive bool) ([]stream.File, error) {
	fs := f.recorded()
	info, err := fs.Stat(ctx, path)
	switch {
	case err != nil:
		return nil, fmt.Errorf("listing %s: %w", path, err)
	case info == nil || !info.IsDirectory:
		return nil, &NotFoundError{path + "/"}
	}
	list := fs.List
	if recursive {
		list = fs.Tree
	}
	found, err := list(ctx, path)
	if err != nil {
		return nil, fmt.Errorf("listing %s: %w", path, err)
	}
	all := make([]stream.File, len(found))
	for i := range found {
		all[i] = found[i].Public()
	}
	return all, nil
}

// Read returns the content of a file. The error is a *NotFoundError or a *DirectoryError, or another one.
func (f *Files) Read(ctx context.Context, path string) ([]byte, error) {
	path, err := sessionfs.Clean(path)
	if err != nil {
		return nil, err
	}
	answer, err := f.ask(ctx, http.MethodGet, path, maxListBytes, nil, nil)
	if f.useRecords(err) {
		info, content, err := f.recorded().ReadBytes(ctx, path)
		switch {
		case err != nil:
			return nil, fmt.Errorf("reading %s: %w", path, err)
		case info == nil:
			return nil, &NotFoundError{path}
		case info.IsDirectory:
			return nil, &DirectoryError{path}
		}
		return content, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	// The content of a file never has this type.
	if strings.HasPrefix(answer.Type, "application/json") {
		return nil, &DirectoryError{path}
	}
	return answer.Body, nil
}

// Write creates a file, with the directories above it, or replaces its content.
func (f *Files) Write(ctx context.Context, path string, content []byte) (*stream.FileWritten, error) {
	path, err := sessionfs.Clean(path)
	if err != nil {
		return nil, err
	}
	if len(content) > stream.MaxFileBytes {
		return nil, fmt.Errorf("writing %s: it has %d bytes, and a file at most %d", path, len(content), stream.MaxFileBytes)
	}
	answer, err := f.ask(ctx, http.MethodPut, path, maxListBytes, content, nil)
	if err != nil {
		return nil, fmt.Errorf("writing %s: %w", path, err)
	}
	written := &stream.FileWritten{}
	if err := json.Unmarshal(answer.Body, written); err != nil {
		return nil, fmt.Errorf("reading the answer about %s: %w", path, err)
	}
	return written, nil
}

func (f *Files) ask(
	ctx context.Context, method, path string, most int64, body []byte, query url.Values,
) (*streamclient.Answer, error) {
	parts := append([]string{"files"}, strings.Split(strings.TrimPrefix(path, "/"), "/")...)
	if body == nil && method == http.MethodPut {
		body = []byte{}
	}
	return f.Manager.Do(ctx, streamclient.Request{
		Method: method, Session: f.Session, Path: parts, Query: query, Body: body, Most: most,
	})
}

// useRecords reports whether the manager cannot be reached, and tells the user.
func (f *Files) useRecords(err error) bool {
	var unreachable *streamclient.UnreachableError
	if !errors.As(err, &unreachable) {
		return false
	}
	f.Note("The manager cannot be asked, so that the Records are read. (" + unreachable.Error() + ")")
	return true
}

// recorded are the files without those that a Session begins with and that were not written yet.
func (f *Files) recorded() *sessionfs.FS {
	return sessionfs.New(f.Records, sessionfs.Session{
		Namespace: f.Session.Namespace, Name: f.Session.Name, UID: f.Session.UID,
	}, nil)
}
