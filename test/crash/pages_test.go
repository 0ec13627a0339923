package crash_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

// initialKeys is the number of files and directories that a Session begins with: as many as it may, and as many as its
// index has without pages.
const initialKeys = 1024

// paged are Sessions whose index becomes one with pages while a file is returned.
var paged = []scenario{
	{
		name:       "Jobs that return files to a Session with many",
		simulation: builder.Script("done", builder.Calls("work", "pay")),
		tools: given(
			sharing(builder.JobTool("work", v1alpha1.SideEffectPure).Obj()),
			sharing(builder.JobTool("pay", v1alpha1.SideEffectAtMostOnce).Obj()),
		),
		session: func(s *v1alpha1.SessionSpec) { s.InitialFiles = manyFiles() },
		tool:    returnFiles,
		drive: func(ctx context.Context, r *run) error {
			if err := holdToReturned("1-0", "1-1")(ctx, r); err != nil {
				return err
			}
			return r.keepsInitialFiles(ctx)
		},
		varies: true,
	},
}

// manyFiles are the files of a layer that make the most keys: nearly all of them are directories.
func manyFiles() []v1alpha1.InitialFile {
	files := []v1alpha1.InitialFile{{Path: "/in/a", Content: "given"}}
	keys := 2
	for i := 0; keys < initialKeys; i++ {
		depth := min(14+min(1, i%4%3), initialKeys-keys-2)
		path := fmt.Sprintf("/%d%s/f", i, strings.Repeat("/d", depth))
		files = append(files, v1alpha1.InitialFile{Path: path, Content: "x"})
		keys += depth + 2
	}
	return files
}

// keepsInitialFiles checks that the Session has all files that it began with, if it has any: a Turn that ends before
// its first call writes none.
func (r *run) keepsInitialFiles(ctx context.Context) error {
	files, err := r.filesOf()
	if err != nil {
		return err
	}
	snapshot, err := files.Snapshot(ctx)
	if err != nil {
		return err
	}
	begun := 0
	for _, info := range snapshot.Infos() {
		if !strings.HasPrefix(info.Path, "/out") {
			begun++
		}
	}
	if begun != 0 && begun != initialKeys {
		return hopeless{fmt.Errorf("the Session has %d of the %d files that it began with", begun, initialKeys)}
	}
	return nil
}
