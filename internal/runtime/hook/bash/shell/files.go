package shell

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	// Workspace is where a script finds the files of its Session.
	Workspace = "/workspace"
	// Home is its home directory, and scratch another one for files of its own. What it writes there is lost.
	Home    = "/home/agent"
	scratch = "/tmp"
	devNull = "/dev/null"
	// Payloads has the payload of the hook, and nothing in it is kept.
	Payloads = Workspace + "/.hooks"
	// maxEntries is the most files and directories.
	maxEntries = 4096
)

var (
	errReadOnly = errors.New("read-only file system")
	errNoSpace  = errors.New("no space left on device")
)

// node is a file or a directory.
type node struct {
	dir, readOnly bool
	content       []byte
	// remote is a file whose content has not been read yet, and size its size.
	remote bool
	size   int64
	// changed is a file that the script has written.
	changed bool
}

// fileSystem is the files that a script sees: those of its Session, and what it writes over them. Nothing of the host
// is in it. There are no symbolic links and no devices but /dev/null.
type fileSystem struct {
	mu      sync.Mutex
	nodes   map[string]*node
	deleted map[string]bool
	written int64
	// session has the files of the Session, and listed reports whether they are in nodes, or why they are not. They are
	// listed when the script needs one: most scripts look at their payload only.
	session  Source
	listed   bool
	unlisted error
	// running ends with the script.
	running context.Context //nolint:containedctx // The interfaces of files have none.
	began   time.Time
}

// newFileSystem returns the files of a script, and those of a Session; nil for none.
func newFileSystem(ctx context.Context, files []File, session Source) *fileSystem {
	f := &fileSystem{
		nodes: map[string]*node{}, deleted: map[string]bool{}, running: ctx, session: session, listed: session == nil,
		began: time.Now(),
	}
	for _, dir := range []string{Workspace, Home, scratch, path.Dir(devNull)} {
		f.addDir(dir)
	}
	f.add(files)
	return f
}

// add adds files that are not there yet.
func (f *fileSystem) add(files []File) {
	for _, file := range files {
		name := path.Clean("/" + file.Path)
		if file.Dir {
			f.addDir(name)
			continue
		}
		f.addDir(path.Dir(name))
		if f.nodes[name] != nil {
			continue
		}
		n := &node{readOnly: file.ReadOnly, content: file.Content, remote: !file.Here, size: file.Size}
		if file.Here {
			n.size = int64(len(file.Content))
		}
		f.nodes[name] = n
	}
}

// need lists the files of the Session before a path is looked at that may be one of them.
func (f *fileSystem) need(op, name string) error {
	if name != Workspace && !strings.HasPrefix(name, Workspace+"/") {
		return nil
	}
	if n := f.nodes[name]; n != nil && !n.dir {
		return nil
	}
	if !f.listed {
		var files []File
		if files, f.unlisted = f.session.List(f.running); f.unlisted == nil {
			f.add(files)
		}
		f.listed = true
	}
	if f.unlisted != nil {
		return failed(op, name, f.unlisted)
	}
	return nil
}

func (f *fileSystem) addDir(name string) {
	for ; f.nodes[name] == nil; name = path.Dir(name) {
		f.nodes[name] = &node{dir: true}
	}
}

func failed(op, name string, err error) error {
	return &os.PathError{Op: op, Path: name, Err: err}
}

// kept reports whether a file at a path is one of the Session.
func kept(name string) bool {
	return strings.HasPrefix(name, Workspace+"/") && !strings.HasPrefix(name+"/", Payloads+"/")
}

// writable reports whether a script may write at a path.
func writable(name string) bool {
	for _, dir := range []string{Workspace, Home, scratch} {
		if strings.HasPrefix(name, dir+"/") {
			return true
		}
	}
	return false
}

// stat describes a file.
func (f *fileSystem) stat(name string) (fs.FileInfo, error) {
	name = path.Clean(name)
	f.mu.Lock()
	defer f.mu.Unlock()
	if name != Workspace {
		if err := f.need("stat", name); err != nil {
			return nil, err
		}
	}
	return f.info("stat", name)
}

func (f *fileSystem) info(op, name string) (info, error) {
	if name == devNull {
		return info{name: path.Base(name), mode: fs.ModeDevice | fs.ModeCharDevice | 0o666, at: f.began}, nil
	}
	n := f.nodes[name]
	if n == nil {
		if parent := f.nodes[path.Dir(name)]; parent != nil && !parent.dir {
			return info{}, failed(op, name, syscall.ENOTDIR)
		}
		return info{}, failed(op, name, fs.ErrNotExist)
	}
	i := info{name: path.Base(name), size: n.size, mode: 0o644, at: f.began}
	if n.readOnly {
		i.mode = 0o444
	}
	if n.dir {
		i.mode = fs.ModeDir | 0o755
	}
	return i, nil
}

// list returns the members of a directory by name.
func (f *fileSystem) list(name string) ([]fs.DirEntry, error) {
	name = path.Clean(name)
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.need("open", name); err != nil {
		return nil, err
	}
	at, err := f.info("open", name)
	switch {
	case err != nil:
		return nil, err
	case !at.IsDir():
		return nil, failed("open", name, syscall.ENOTDIR)
	}
	var entries []fs.DirEntry
	for member := range f.nodes {
		if member != name && path.Dir(member) == name {
			i, err := f.info("open", member)
			if err != nil {
				return nil, err
			}
			entries = append(entries, fs.FileInfoToDirEntry(i))
		}
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return cmp.Compare(a.Name(), b.Name()) })
	return entries, nil
}

// read returns the content of a file.
func (f *fileSystem) read(name string) ([]byte, error) {
	name = path.Clean(name)
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.contentOf(name)
}

func (f *fileSystem) contentOf(name string) ([]byte, error) {
	if name == devNull {
		return nil, nil
	}
	if err := f.need("open", name); err != nil {
		return nil, err
	}
	at, err := f.info("open", name)
	switch {
	case err != nil:
		return nil, err
	case at.IsDir():
		return nil, failed("read", name, syscall.EISDIR)
	}
	n := f.nodes[name]
	if n.remote {
		if n.size > MaxFileBytes {
			return nil, failed("read", name, fmt.Errorf("the file has more than %d bytes", MaxFileBytes))
		}
		if n.content, err = f.session.Read(f.running, name); err != nil {
			return nil, failed("read", name, err)
		}
		n.remote, n.size = false, int64(len(n.content))
	}
	return n.content, nil
}

// open opens a file. What is written to it is there at once.
func (f *fileSystem) open(name string, flag int) (*handle, error) {
	name = path.Clean(name)
	f.mu.Lock()
	defer f.mu.Unlock()
	if name == devNull {
		return &handle{files: f, name: name}, nil
	}
	write := flag&(os.O_WRONLY|os.O_RDWR) != 0
	if write {
		if err := f.prepare(name, flag&os.O_CREATE != 0); err != nil {
			return nil, err
		}
	}
	if write && flag&os.O_TRUNC != 0 {
		return &handle{files: f, name: name, write: true}, f.set(name, nil)
	}
	content, err := f.contentOf(name)
	if err != nil {
		return nil, err
	}
	h := &handle{files: f, name: name, write: write, content: content}
	if write && flag&os.O_APPEND != 0 {
		h.at = len(content)
	}
	return h, nil
}

// prepare checks that a file can be written, and creates it if it may.
func (f *fileSystem) prepare(name string, create bool) error {
	if err := f.need("open", name); err != nil {
		return err
	}
	n := f.nodes[name]
	parent := f.nodes[path.Dir(name)]
	switch {
	case n != nil && n.dir:
		return failed("open", name, syscall.EISDIR)
	case !writable(name), n != nil && n.readOnly:
		return failed("open", name, errReadOnly)
	case n != nil:
		return nil
	case !create, parent == nil:
		return failed("open", name, fs.ErrNotExist)
	case !parent.dir:
		return failed("open", name, syscall.ENOTDIR)
	}
	return f.set(name, nil)
}

// set replaces the content of a file that can be written.
func (f *fileSystem) set(name string, content []byte) error {
	n := f.nodes[name]
	if n == nil {
		if len(f.nodes) >= maxEntries || len(name) > 1024 {
			return failed("open", name, errNoSpace)
		}
		n = &node{}
	}
	before := int64(0)
	if n.changed {
		before = n.size
	}
	if f.written+int64(len(content))-before > MaxWrittenBytes {
		return failed("write", name, errNoSpace)
	}
	f.written += int64(len(content)) - before
	n.content, n.size, n.remote, n.changed = content, int64(len(content)), false, true
	f.nodes[name] = n
	delete(f.deleted, name)
	return nil
}

// write replaces a file.
func (f *fileSystem) write(name string, content []byte) error {
	name = path.Clean(name)
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.prepare(name, true); err != nil {
		return err
	}
	return f.set(name, content)
}

// mkdir creates a directory, and with parents those above it.
func (f *fileSystem) mkdir(name string, parents bool) error {
	name = path.Clean(name)
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.need("mkdir", name); err != nil {
		return err
	}
	above := f.nodes[path.Dir(name)]
	switch n := f.nodes[name]; {
	case n != nil && n.dir && parents:
		return nil
	case n != nil:
		return failed("mkdir", name, fs.ErrExist)
	case !writable(name):
		return failed("mkdir", name, errReadOnly)
	case above == nil && !parents:
		return failed("mkdir", name, fs.ErrNotExist)
	case above != nil && !above.dir:
		return failed("mkdir", name, syscall.ENOTDIR)
	case len(f.nodes)+strings.Count(name, "/") > maxEntries || len(name) > 1024:
		return failed("mkdir", name, errNoSpace)
	}
	for dir := name; f.nodes[dir] == nil; dir = path.Dir(dir) {
		f.nodes[dir] = &node{dir: true, changed: true}
		delete(f.deleted, dir)
	}
	return nil
}

// remove deletes a file or an empty directory, and with all a directory with its members.
func (f *fileSystem) remove(name string, all bool) error {
	name = path.Clean(name)
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.need("remove", name); err != nil {
		return err
	}
	if _, err := f.info("remove", name); err != nil {
		return err
	}
	var below []string
	for member, n := range f.nodes {
		if member != name && !strings.HasPrefix(member, name+"/") {
			continue
		}
		if !writable(member) || n.readOnly {
			return failed("remove", member, errReadOnly)
		}
		below = append(below, member)
	}
	if len(below) > 1 && !all {
		return failed("remove", name, syscall.ENOTEMPTY)
	}
	for _, member := range below {
		if n := f.nodes[member]; n.changed {
			f.written -= n.size
		}
		delete(f.nodes, member)
		f.deleted[member] = true
	}
	return nil
}

// changes are what the script has done to the files of the Session, in the order of their paths.
func (f *fileSystem) changes() []Change {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []Change
	for _, name := range slices.Sorted(maps.Keys(f.deleted)) {
		if kept(name) {
			all = append(all, Change{Path: name, Deleted: true})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(f.nodes)) {
		if n := f.nodes[name]; n.changed && kept(name) {
			all = append(all, Change{Path: name, Dir: n.dir, Content: n.content})
		}
	}
	return all
}

// handle is an open file.
type handle struct {
	files *fileSystem
	name  string
	write bool
	// content is what a reader reads: the file as it was opened.
	content []byte
	at      int
}

// Read implements io.Reader.
func (h *handle) Read(p []byte) (int, error) {
	if h.at >= len(h.content) {
		return 0, io.EOF
	}
	n := copy(p, h.content[h.at:])
	h.at += n
	return n, nil
}

// Write implements io.Writer.
func (h *handle) Write(p []byte) (int, error) {
	if h.name == devNull {
		return len(p), nil
	}
	if !h.write {
		return 0, failed("write", h.name, fs.ErrPermission)
	}
	h.files.mu.Lock()
	defer h.files.mu.Unlock()
	n := h.files.nodes[h.name]
	if n == nil {
		// It was deleted while it was open.
		return len(p), nil
	}
	if err := h.files.reserve(n, int64(max(h.at+len(p), len(n.content)))); err != nil {
		return 0, failed("write", h.name, err)
	}
	// The content may be what a reader reads.
	content := append(slices.Clip(n.content[:min(h.at, len(n.content))]), p...)
	if rest := h.at + len(p); rest < len(n.content) {
		content = append(content, n.content[rest:]...)
	}
	h.at += len(p)
	return len(p), h.files.set(h.name, content)
}

// reserve reports whether a file may grow to a size.
func (f *fileSystem) reserve(n *node, size int64) error {
	before := int64(0)
	if n.changed {
		before = n.size
	}
	if f.written+size-before > MaxWrittenBytes {
		return errNoSpace
	}
	return nil
}

// Close implements io.Closer.
func (h *handle) Close() error { return nil }

// info describes a file. It implements fs.FileInfo.
type info struct {
	name string
	size int64
	mode fs.FileMode
	at   time.Time
}

// Name implements fs.FileInfo.
func (i info) Name() string { return i.name }

// Size implements fs.FileInfo.
func (i info) Size() int64 { return i.size }

// Mode implements fs.FileInfo.
func (i info) Mode() fs.FileMode { return i.mode }

// ModTime implements fs.FileInfo. All files are as old as the script.
func (i info) ModTime() time.Time { return i.at }

// IsDir implements fs.FileInfo.
func (i info) IsDir() bool { return i.mode.IsDir() }

// Sys implements fs.FileInfo.
func (i info) Sys() any { return nil }
