package sessionfs

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/capstan-dev/capstan/internal/runtime/record"
)

// Snapshot is the files of a Session at one moment. Programs outside of this process read it, and commit what they have
// changed in one operation.
type Snapshot struct {
	fs    *FS
	index *record.Index
}

// Change is a file that was written or deleted, or a directory that was created.
type Change struct {
	// Path of the file.
	Path string
	// Deleted reports whether the file, or the directory with all that is in it, is deleted. Dir reports whether it is a
	// directory.
	Deleted, Dir bool
	// Content of a file that was written.
	Content []byte
}

// Snapshot returns the files as they are now. The initial files are written before.
func (fs *FS) Snapshot(ctx context.Context) (*Snapshot, error) {
	x, err := fs.Seed(ctx)
	return &Snapshot{fs: fs, index: x}, err
}

// Infos describes all files and directories, by path, without the root.
func (s *Snapshot) Infos() []Info {
	infos := make([]Info, len(s.index.Items))
	for i, item := range s.index.Items {
		infos[i] = infoOf(item)
	}
	return infos
}

// Read returns the bytes of a file of the snapshot.
func (s *Snapshot) Read(ctx context.Context, path string) ([]byte, error) {
	path, err := Clean(path)
	if err != nil {
		return nil, err
	}
	item, found := s.index.Find(path)
	switch {
	case !found && path != root:
		return nil, Errorf("%s does not exist.", path)
	case path == root || item.Kind == kindDirectory:
		return nil, Errorf("%s is a directory.", path)
	}
	content, err := s.fs.store.Load(ctx, s.fs.scope, item)
	if errors.Is(err, record.ErrNotFound) {
		return nil, Errorf("%s was changed meanwhile.", path)
	}
	return content, err
}

// Commit makes changes in one operation: all of them, or none with an error. It changes nothing if another
// writer has changed one of the files since the snapshot. A cause that was committed before changes nothing either.
func (s *Snapshot) Commit(ctx context.Context, cause record.Cause, changes []Change) error {
	if len(changes) == 0 {
		return nil
	}
	_, err := s.fs.store.Update(ctx, s.fs.scope, cause,
		func(_ context.Context, x *record.Index) (*record.Operation, error) {
			return s.operation(x, changes)
		})
	return shown(err)
}

// operation is the operation that makes changes to the files as they are now. It is a pure function.
func (s *Snapshot) operation(now *record.Index, changes []Change) (*record.Operation, error) {
	c := &commit{index: now, puts: map[string]record.Put{}, deleted: map[string]bool{}}
	for _, change := range changes {
		path, err := Clean(change.Path)
		if err != nil {
			return nil, err
		}
		switch {
		case path == root:
			err = Errorf("The root directory cannot be changed.")
		case change.Deleted:
			err = c.delete(path)
		case change.Dir:
			err = c.mkdir(path)
		default:
			err = c.write(path, change.Content)
		}
		if err != nil {
			return nil, err
		}
	}
	o := c.operation()
	for _, path := range slices.Concat(slices.Collect(maps.Keys(c.puts)), o.Delete) {
		before, _ := s.index.Find(path)
		if item, _ := now.Find(path); item.Revision != before.Revision {
			return nil, Errorf("%s was changed meanwhile.", path)
		}
	}
	return o, nil
}

// commit is an operation to be.
type commit struct {
	index   *record.Index
	puts    map[string]record.Put
	deleted map[string]bool
}

// kind is that of a path after the changes so far; empty if it does not exist.
func (c *commit) kind(path string) string {
	if put, found := c.puts[path]; found {
		return put.Kind
	}
	if c.deleted[path] {
		return ""
	}
	item, _ := c.index.Find(path)
	return item.Kind
}

func (c *commit) delete(path string) error {
	for _, item := range c.index.Items {
		if item.Key != path && !strings.HasPrefix(item.Key, within(path)) {
			continue
		}
		if item.Kind == kindReadOnly {
			return Errorf("%s is read-only.", item.Key)
		}
		c.deleted[item.Key] = true
	}
	maps.DeleteFunc(c.puts, func(key string, _ record.Put) bool {
		return key == path || strings.HasPrefix(key, within(path))
	})
	return nil
}

func (c *commit) mkdir(path string) error {
	for _, dir := range append(Parents(path), path) {
		switch c.kind(dir) {
		case kindDirectory:
		case "":
			c.puts[dir] = directory(dir)
		default:
			return Errorf("%s is a file, not a directory.", dir)
		}
	}
	return nil
}

// write keeps the encoding of a file that is replaced, if the content has it.
func (c *commit) write(path string, content []byte) error {
	switch c.kind(path) {
	case kindDirectory:
		return Errorf("%s is a directory.", path)
	case kindReadOnly:
		return Errorf("%s is read-only.", path)
	}
	if len(content) > record.MaxValueBytes {
		return tooLarge(path, int64(len(content)))
	}
	if parents := Parents(path); len(parents) > 0 {
		if err := c.mkdir(parents[len(parents)-1]); err != nil {
			return err
		}
	}
	item, _ := c.index.Find(path)
	encoding := Base64
	if IsText(content) && Encoding(item.Encoding) != Base64 {
		encoding = Text
	}
	c.puts[path] = record.Put{Key: path, Value: content, Encoding: string(encoding), Kind: kindFile}
	return nil
}

func (c *commit) operation() *record.Operation {
	o := &record.Operation{}
	for _, path := range slices.Sorted(maps.Keys(c.puts)) {
		o.Put = append(o.Put, c.puts[path])
	}
	for _, path := range slices.Sorted(maps.Keys(c.deleted)) {
		if _, written := c.puts[path]; !written {
			o.Delete = append(o.Delete, path)
		}
	}
	return o
}
