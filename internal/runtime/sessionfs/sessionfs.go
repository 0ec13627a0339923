package sessionfs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/capstan-dev/capstan/internal/runtime/record"
)

// StoreName is the name of the store that has the files of a Session.
const StoreName = "files"

// The kinds of records in the store.
const (
	kindFile      = "file"
	kindReadOnly  = "readonly"
	kindDirectory = "directory"
	// kindOutput is a file with the output of a call, until it is written to.
	kindOutput = "output"
)

// Info describes a file or a directory (FS-07).
type Info struct {
	// Path is absolute; Name is the last part of it.
	Path string `json:"path"`
	Name string `json:"name"`
	// IsDirectory reports whether it is a directory, IsReadOnly whether it may be neither written nor deleted.
	IsDirectory bool `json:"is_directory"`
	IsReadOnly  bool `json:"is_readonly"`
	// Encoding of the content of a file, and its Size in bytes.
	Encoding Encoding `json:"encoding,omitempty"`
	Size     int64    `json:"size"`
	// Created and Updated are when it was written first and last; nil for the root.
	Created *time.Time `json:"created_at,omitempty"`
	Updated *time.Time `json:"updated_at,omitempty"`
}

// File is a file with its content, or a directory, which has none.
type File struct {
	Info
	// Content in the Encoding of the file.
	Content string `json:"content"`
}

// Session names the Session of a filesystem.
type Session = record.Session

// Initial is a file that a Session begins with.
type Initial struct {
	// Path of the file.
	Path string
	// Content in the Encoding.
	Content  string
	Encoding Encoding
	// ReadOnly reports whether it may be neither written nor deleted.
	ReadOnly bool
}

// FS is the filesystem of a Session. It is safe for concurrent use.
type FS struct {
	store   record.Store
	scope   record.Scope
	initial func(context.Context) ([]Initial, error)
}

// New returns the filesystem of a Session. initial returns the files that it begins with, in the order in which they
// are written; nil for none. It is called when the filesystem is used first.
func New(store record.Store, of Session, initial func(context.Context) ([]Initial, error)) *FS {
	return &FS{store: store, initial: initial, scope: ScopeOf(of)}
}

// ScopeOf returns the store of the files of a Session.
func ScopeOf(of Session) record.Scope {
	return of.Scope(StoreName)
}

// seeding is the cause of the operation that writes the initial files.
var seeding = record.Cause{Key: "seed"}

// Seed writes the initial files, once in the life of the Session (FS-03): before its files are used for the first time.
// A filesystem that was used without initial files never gets any. It returns the index.
func (fs *FS) Seed(ctx context.Context) (*record.Index, error) {
	x, err := fs.store.List(ctx, fs.scope)
	if err != nil || x.Revision > 0 || fs.initial == nil {
		return x, err
	}
	var files []Initial
	// They are read with the place of the operation, of which each namespace has its share.
	read := sync.OnceValue(func() error {
		var err error
		files, err = fs.initial(ctx)
		return err
	})
	_, err = fs.store.Update(ctx, fs.scope, seeding, func(_ context.Context, x *record.Index) (*record.Operation, error) {
		if x.Revision > 0 {
			return nil, nil
		}
		if err := read(); err != nil || len(files) == 0 {
			return nil, err
		}
		return seed(files)
	})
	if err != nil {
		return nil, shown(err)
	}
	return fs.store.List(ctx, fs.scope)
}

// seed is the operation that writes initial files.
func seed(files []Initial) (*record.Operation, error) {
	puts := map[string]record.Put{}
	for _, file := range files {
		path, err := Clean(file.Path)
		if err != nil {
			return nil, err
		}
		content, encoding, err := decode(path, file.Content, file.Encoding)
		if err != nil {
			return nil, err
		}
		kind := kindFile
		if file.ReadOnly {
			kind = kindReadOnly
		}
		if path == root || puts[path].Kind == kindDirectory {
			return nil, Errorf("The initial file %s is a directory.", path)
		}
		for _, parent := range Parents(path) {
			if above := puts[parent].Kind; above != "" && above != kindDirectory {
				return nil, Errorf("The initial file %s is below the file %s.", path, parent)
			}
			puts[parent] = directory(parent)
		}
		puts[path] = record.Put{Key: path, Value: content, Encoding: string(encoding), Kind: kind}
	}
	o := &record.Operation{}
	for _, put := range puts {
		o.Put = append(o.Put, put)
	}
	slices.SortFunc(o.Put, func(a, b record.Put) int { return strings.Compare(a.Key, b.Key) })
	return o, nil
}

func directory(path string) record.Put {
	return record.Put{Key: path, Kind: kindDirectory}
}

// Read returns a file, or a directory without content; nil if it does not exist.
func (fs *FS) Read(ctx context.Context, path string) (*File, error) {
	info, content, err := fs.ReadBytes(ctx, path)
	if err != nil || info == nil {
		return nil, err
	}
	return &File{Info: *info, Content: encode(content, info.Encoding)}, nil
}

// ReadBytes is Read with the bytes of the file.
func (fs *FS) ReadBytes(ctx context.Context, path string) (*Info, []byte, error) {
	path, err := Clean(path)
	if err != nil {
		return nil, nil, err
	}
	x, err := fs.Seed(ctx)
	if err != nil {
		return nil, nil, err
	}
	if path == root {
		info := rootInfo()
		return &info, nil, nil
	}
	item, found := x.Find(path)
	if !found {
		return nil, nil, nil
	}
	content, err := fs.store.Load(ctx, fs.scope, item)
	if errors.Is(err, record.ErrNotFound) {
		// It was changed or deleted since.
		item, content, err = fs.store.Get(ctx, fs.scope, path)
	}
	switch {
	case errors.Is(err, record.ErrNotFound):
		return nil, nil, nil
	case err != nil:
		return nil, nil, err
	}
	info := infoOf(item)
	return &info, content, nil
}

// Stat describes a file or a directory; nil if it does not exist. The root always exists (FS-05).
func (fs *FS) Stat(ctx context.Context, path string) (*Info, error) {
	path, err := Clean(path)
	if err != nil {
		return nil, err
	}
	x, err := fs.Seed(ctx)
	if err != nil {
		return nil, err
	}
	if path == root {
		info := rootInfo()
		return &info, nil
	}
	item, found := x.Find(path)
	if !found {
		return nil, nil
	}
	info := infoOf(item)
	return &info, nil
}

// List returns the files and directories in a directory, by name. It is empty for a path that does not exist (FS-05).
func (fs *FS) List(ctx context.Context, path string) ([]Info, error) {
	return fs.below(ctx, path, func(rest string) bool { return !strings.Contains(rest, "/") })
}

// Tree returns all files and directories below a directory, by path.
func (fs *FS) Tree(ctx context.Context, path string) ([]Info, error) {
	return fs.below(ctx, path, func(string) bool { return true })
}

// below returns what is below a directory and is wanted, by its path from there.
func (fs *FS) below(ctx context.Context, path string, wanted func(rest string) bool) ([]Info, error) {
	path, err := Clean(path)
	if err != nil {
		return nil, err
	}
	x, err := fs.Seed(ctx)
	if err != nil {
		return nil, err
	}
	var found []Info
	for _, item := range x.Items {
		if rest, below := strings.CutPrefix(item.Key, within(path)); below && wanted(rest) {
			found = append(found, infoOf(item))
		}
	}
	return found, nil
}

func rootInfo() Info {
	return Info{Path: root, IsDirectory: true}
}

func infoOf(item record.Item) Info {
	created, updated := item.Created.UTC(), item.Modified.UTC()
	info := Info{
		Path: item.Key, Name: nameOf(item.Key), IsDirectory: item.Kind == kindDirectory,
		IsReadOnly: item.Kind == kindReadOnly, Size: item.Size, Created: &created, Updated: &updated,
	}
	if !info.IsDirectory {
		info.Encoding = Encoding(item.Encoding)
	}
	return info
}

// errUnseeded ends a change that comes before the initial files.
var errUnseeded = errors.New("the initial files are not written yet")

// change carries out a change, once for its cause, and decodes its result into the given value. decide returns the
// operation and the result; a change without an operation is not remembered.
func (fs *FS) change(
	ctx context.Context,
	cause record.Cause,
	into any,
	decide record.DecideWith,
) error {
	seeded := fs.initial == nil
	update := func() error {
		return record.Change(ctx, fs.store, fs.scope, cause, into,
			func(ctx context.Context, x *record.Index) (*record.Operation, any, error) {
				if x.Revision == 0 && !seeded {
					return nil, nil, errUnseeded
				}
				return decide(ctx, x)
			})
	}
	err := update()
	if errors.Is(err, errUnseeded) {
		if _, err := fs.Seed(ctx); err != nil {
			return err
		}
		seeded = true
		err = update()
	}
	return shown(err)
}

// shown returns an error with an Error in its chain, if it has a text that may be shown to the caller.
func shown(err error) error {
	return record.Explain(err,
		fmt.Sprintf("The filesystem is full: a Session has at most %d files and directories, with %d bytes in all. "+
			"Delete some.", record.MaxKeys, record.MaxStoreBytes),
		"The filesystems of all sessions are full together. Delete files, or ask for sessions to be deleted.")
}
