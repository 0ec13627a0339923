package sessionfs

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/capstan-dev/capstan/internal/runtime/record"
)

// Content is a file that a tool gets, or returns.
type Content struct {
	// Path of the file.
	Path string
	// Content of the file.
	Content []byte
	// Given reports whether the tool got the file, and returns it changed.
	Given bool
}

// Selection is files of a Session at one moment.
type Selection struct {
	// Revision of the files.
	Revision int64
	// Files in the order of their paths.
	Files []Content
}

// ErrTooLarge reports files that are larger than a caller accepts.
var ErrTooLarge = errors.New("the files are too large")

// maxSelections bounds how often files are selected that are changed meanwhile.
const maxSelections = 10

// Select returns the files with paths, and those in directories with paths. A path that does not exist is left out. The
// error has ErrTooLarge, and nothing was read, if there are more files than most or if they have more bytes.
func (fs *FS) Select(ctx context.Context, paths []string, most int, bytes int64) (*Selection, error) {
	for i, path := range paths {
		clean, err := Clean(path)
		if err != nil {
			return nil, err
		}
		paths[i] = clean
	}
	for range maxSelections {
		x, err := fs.Seed(ctx)
		if err != nil {
			return nil, err
		}
		selected, err := fs.load(ctx, x, paths, most, bytes)
		if !errors.Is(err, record.ErrNotFound) {
			return selected, err
		}
	}
	return nil, errors.New("selecting files: they were changed meanwhile each time")
}

// load reads files of an index. The error has ErrNotFound if one was changed since.
func (fs *FS) load(ctx context.Context, x *record.Index, paths []string, most int, bytes int64) (*Selection, error) {
	var items []record.Item
	for _, item := range x.Items {
		if item.Kind != kindDirectory && slices.ContainsFunc(paths, func(path string) bool {
			return item.Key == path || strings.HasPrefix(item.Key, within(path))
		}) {
			items = append(items, item)
			bytes -= item.Size
		}
	}
	if len(items) > most || bytes < 0 {
		return nil, ErrTooLarge
	}
	selected := &Selection{Revision: x.Revision}
	for _, item := range items {
		content, err := fs.store.Load(ctx, fs.scope, item)
		if err != nil {
			return nil, err
		}
		selected.Files = append(selected.Files, Content{Path: item.Key, Content: content})
	}
	return selected, nil
}

// Refusal is a file that was not written, and why.
type Refusal struct {
	Path, Why string
}

// Return writes the files that a tool returns, which were selected at a revision, in one operation. A file is refused
// that cannot be written, or was changed since. note turns the refusals into the result of the operation, which has at
// most record.MaxResultBytes; it is returned again if the operation is repeated.
func (fs *FS) Return(
	ctx context.Context, cause record.Cause, revision int64, files []Content, note func([]Refusal) string,
) (string, error) {
	var result string
	return result, fs.change(
		ctx,
		cause,
		&result,
		func(_ context.Context, x *record.Index) (*record.Operation, any, error) {
			o, refused := returned(x, revision, files)
			if len(o.Put) == 0 {
				return nil, note(refused), nil
			}
			return o, note(refused), nil
		},
	)
}

// returned is the operation that writes files, and what it does not write. It is a pure function.
func returned(x *record.Index, revision int64, files []Content) (*record.Operation, []Refusal) {
	c := &commit{index: x, puts: map[string]record.Put{}, deleted: map[string]bool{}}
	var refused []Refusal
	for _, file := range files {
		if why := c.take(revision, file); why != "" {
			refused = append(refused, Refusal{Path: file.Path, Why: why})
		}
	}
	return c.operation(), refused
}

// take adds a file to an operation. It returns why not; empty if it is added.
func (c *commit) take(revision int64, file Content) string {
	path, err := Clean(file.Path)
	if err != nil {
		return "invalid path"
	}
	item, found := c.index.Find(path)
	switch {
	case path == root || c.kind(path) == kindDirectory:
		return "a directory has its path"
	case item.Kind == kindReadOnly:
		return "read-only"
	case item.Revision > revision:
		return "changed meanwhile"
	case file.Given && !found:
		return "deleted meanwhile"
	case len(file.Content) > record.MaxValueBytes:
		return "too large"
	}
	before := maps.Clone(c.puts)
	if err := c.write(path, file.Content); err != nil {
		c.puts = before
		return "a file is in the place of its directory"
	}
	return ""
}
