package bash

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/capstan-dev/capstan/internal/runtime/hook"
	"github.com/capstan-dev/capstan/internal/runtime/hook/bash/shell"
	"github.com/capstan-dev/capstan/internal/runtime/record"
	"github.com/capstan-dev/capstan/internal/runtime/sessionfs"
)

// workspace is the files of a Session as one script sees them: those of the moment at which it looks at the first one.
// A script that looks at none reads none, and writes no initial files.
type workspace struct {
	files    *sessionfs.FS
	snapshot *sessionfs.Snapshot
	// broken is why files could not be read, unless it is about the file.
	broken error
}

// source returns the files for the process of the script; nil for none.
func (w *workspace) source() shell.Source {
	if w.files == nil {
		return nil
	}
	return w
}

// List implements shell.Source.
func (w *workspace) List(ctx context.Context) ([]shell.File, error) {
	if w.snapshot == nil {
		snapshot, err := w.files.Snapshot(ctx)
		if err != nil {
			return nil, w.failed(err)
		}
		w.snapshot = snapshot
	}
	infos := w.snapshot.Infos()
	all := make([]shell.File, len(infos))
	for i, f := range infos {
		all[i] = shell.File{
			Path: shell.Workspace + f.Path, Dir: f.IsDirectory, ReadOnly: f.IsReadOnly, Size: f.Size,
		}
	}
	return all, nil
}

// Read implements shell.Source. The process that asks has run a script of a tenant.
func (w *workspace) Read(ctx context.Context, name string) ([]byte, error) {
	inside, ok := strings.CutPrefix(name, shell.Workspace)
	if w.snapshot == nil || !ok {
		return nil, fmt.Errorf("%s does not exist", name)
	}
	content, err := w.snapshot.Read(ctx, inside)
	if err != nil {
		return nil, w.failed(err)
	}
	return content, nil
}

// failed returns an error for the script, and keeps one that is not about its files.
func (w *workspace) failed(err error) error {
	err = shown("the files of the Session could not be read", err)
	if internal := (*hook.InternalError)(nil); errors.As(err, &internal) && w.broken == nil {
		w.broken = err
	}
	return err
}

// commit makes the changes of a script to the files of its Session.
func (w *workspace) commit(ctx context.Context, c hook.Call, changes []shell.Change) error {
	if len(changes) == 0 {
		return nil
	}
	if w.files == nil {
		return fmt.Errorf("the Session has no files: write to %s instead", shell.Home)
	}
	const problem = "the files of the script could not be written"
	all := make([]sessionfs.Change, len(changes))
	for i, change := range changes {
		inside, ok := strings.CutPrefix(path.Clean(change.Path), shell.Workspace+"/")
		if !ok || w.snapshot == nil {
			return fmt.Errorf("%s: %s is not a file of the Session", problem, change.Path)
		}
		all[i] = sessionfs.Change{Path: "/" + inside, Deleted: change.Deleted, Dir: change.Dir, Content: change.Content}
	}
	err := w.snapshot.Commit(ctx, record.Cause{Step: c.Identity.OpenedAt, Key: "hook/" + c.Key}, all)
	if err != nil {
		return shown(problem, err)
	}
	return nil
}

// shown is an error that the author of a hook may read: only the errors of files are for others.
func shown(problem string, err error) error {
	var about *sessionfs.Error
	if errors.As(err, &about) {
		return fmt.Errorf("%s: %s", problem, about.Error())
	}
	return hook.Internal(problem, err)
}
