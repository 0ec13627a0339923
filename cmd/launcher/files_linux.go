package main

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/capstan-dev/capstan/internal/runtime/tool/result"
)

const (
	// maxEntries bounds how many entries of directories are looked at, and maxDepth how deep they are.
	maxEntries = 10_000
	maxDepth   = 32
)

// workspace is the directory of the files that the tool shares with its Session.
type workspace struct {
	root string
	// outputs are the paths of the files and directories that the tool returns.
	outputs []string
	// revision is that of the files of the Session, and given are the digests of the files that the tool got.
	revision int64
	given    map[string][sha256.Size]byte
}

// openWorkspace puts the files that the tool gets into their directory. It returns nil for a tool that shares none.
func openWorkspace(c config) (*workspace, error) {
	if c.filesRoot == "" {
		return nil, nil
	}
	text, err := os.ReadFile(c.filesFile)
	if err != nil {
		return nil, fmt.Errorf("reading the files of the call: %w", err)
	}
	files, err := result.DecodeInputs(string(text))
	if err != nil {
		return nil, err
	}
	w := &workspace{
		root: c.filesRoot, outputs: c.outputs, revision: files.Revision, given: map[string][sha256.Size]byte{},
	}
	root, err := os.OpenRoot(w.root)
	if err != nil {
		return nil, fmt.Errorf("opening the directory for files: %w", err)
	}
	defer func() { _ = root.Close() }()
	for _, file := range files.Files {
		if err := place(root, file); err != nil {
			return nil, fmt.Errorf("writing file %q: %w", file.Path, err)
		}
		w.given[file.Path] = sha256.Sum256(file.Content)
	}
	return w, nil
}

// place writes one file, which must not exist, below the root.
func place(root *os.Root, file result.File) error {
	name := strings.TrimPrefix(file.Path, "/")
	if err := root.MkdirAll(path.Dir(name), 0o777); err != nil {
		return err
	}
	to, err := root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o666)
	if err != nil {
		return err
	}
	_, err = to.Write(file.Content)
	return errors.Join(err, to.Close())
}

// collect returns the files that the tool has created or changed. No process of the tool is left, and nothing outside
// of the directory is read whatever the tool has left in it: each name is opened relative to the directory that it is
// in, and links are not followed.
func (w *workspace) collect() *result.Files {
	c := &collection{workspace: w, files: &result.Files{Revision: w.revision}, seen: map[string]bool{}}
	for _, output := range slices.Sorted(slices.Values(w.outputs)) {
		c.output(output)
	}
	slices.SortFunc(c.files.Files, func(a, b result.File) int { return strings.Compare(a.Path, b.Path) })
	return c.files
}

// collection is the files that are collected.
type collection struct {
	*workspace
	files   *result.Files
	seen    map[string]bool
	bytes   int
	entries int
}

// output collects a file, or all files in a directory.
func (c *collection) output(output string) {
	names := strings.FieldsFunc(output, func(r rune) bool { return r == '/' })
	at, err := unix.Open(c.root, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		c.leaveOut(output, result.ProblemRead)
		return
	}
	if len(names) == 0 {
		c.directory(at, "/", 0)
		return
	}
	for i, name := range names[:len(names)-1] {
		next, err := openDirectory(at, name)
		_ = unix.Close(at)
		if err != nil {
			c.failed("/"+strings.Join(names[:i+1], "/"), err)
			return
		}
		at = next
	}
	defer func() { _ = unix.Close(at) }()
	c.entry(at, "/"+strings.Join(names[:len(names)-1], "/"), names[len(names)-1], len(names))
}

func openDirectory(at int, name string) (int, error) {
	return unix.Openat(at, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
}

// entry collects the entry of a directory.
func (c *collection) entry(at int, directory, name string, depth int) {
	c.entries++
	if c.entries > maxEntries {
		c.files.More++
		return
	}
	full := path.Join(directory, name)
	var about unix.Stat_t
	if err := unix.Fstatat(at, name, &about, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		c.failed(full, err)
		return
	}
	switch about.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		below, err := openDirectory(at, name)
		if err != nil {
			c.failed(full, err)
			return
		}
		c.directory(below, full, depth)
	case unix.S_IFREG:
		c.regular(at, full, name)
	default:
		c.leaveOut(full, result.ProblemType)
	}
}

// directory collects all files in an open directory, and closes it.
func (c *collection) directory(at int, full string, depth int) {
	opened := os.NewFile(uintptr(at), full)
	defer opened.Close()
	if depth >= maxDepth {
		c.leaveOut(full, result.ProblemCount)
		return
	}
	names, err := opened.Readdirnames(maxEntries)
	if err != nil && !errors.Is(err, io.EOF) {
		c.failed(full, err)
		return
	}
	slices.Sort(names)
	for _, name := range names {
		c.entry(at, full, name, depth+1)
	}
}

// regular collects a file. It is looked at once more after it was opened: a pipe in its place would block.
func (c *collection) regular(at int, full, name string) {
	if c.seen[full] {
		return
	}
	fd, err := unix.Openat(at, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		c.failed(full, err)
		return
	}
	opened := os.NewFile(uintptr(fd), full)
	defer opened.Close()
	var about unix.Stat_t
	if err := unix.Fstat(fd, &about); err != nil {
		c.failed(full, err)
		return
	}
	switch {
	case about.Mode&unix.S_IFMT != unix.S_IFREG || about.Nlink > 1:
		c.leaveOut(full, result.ProblemType)
		return
	case about.Size > result.MaxFileBytes:
		c.leaveOut(full, result.ProblemSize)
		return
	}
	content, err := io.ReadAll(io.LimitReader(opened, result.MaxFileBytes+1))
	switch {
	case err != nil:
		c.failed(full, err)
	case len(content) > result.MaxFileBytes:
		c.leaveOut(full, result.ProblemSize)
	default:
		c.add(full, content)
	}
}

// add adds a file that the tool has created or changed, if there is room for it.
func (c *collection) add(full string, content []byte) {
	before, given := c.given[full]
	switch {
	case given && before == sha256.Sum256(content):
	case c.bytes+len(content) > result.MaxOutputFileBytes:
		c.leaveOut(full, result.ProblemSize)
	case c.list(result.File{Path: full, Content: content, Given: given}):
		c.bytes += len(content)
	}
}

// failed notes a file that cannot be read. One that does not exist is not returned.
func (c *collection) failed(full string, err error) {
	switch {
	case errors.Is(err, os.ErrNotExist):
	case errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ENXIO):
		c.leaveOut(full, result.ProblemType)
	default:
		c.leaveOut(full, result.ProblemRead)
	}
}

// leaveOut notes a file that is not returned.
func (c *collection) leaveOut(full string, why result.Problem) {
	c.list(result.File{Path: full, Problem: why})
}

// list adds a file to those that are named, if there is room for its name, and reports whether there was.
func (c *collection) list(file result.File) bool {
	if c.seen[file.Path] {
		return false
	}
	if len(c.files.Files) == result.MaxFiles || len(file.Path) > result.MaxPathBytes || !utf8.ValidString(file.Path) {
		c.files.More++
		return false
	}
	c.seen[file.Path] = true
	c.files.Files = append(c.files.Files, file)
	return true
}
