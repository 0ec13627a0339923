package bash

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/internal/runtime/hook"
	"github.com/capstan-dev/capstan/internal/runtime/record"
	"github.com/capstan-dev/capstan/internal/runtime/record/memory"
	"github.com/capstan-dev/capstan/internal/runtime/sessionfs"
)

// newFiles returns the files of a Session with contents by path. Those whose path begins with /locked are read-only.
func newFiles(contents map[string]string) *sessionfs.FS {
	of := sessionfs.Session{Namespace: "ns", Name: "s", UID: "s1"}
	return sessionfs.New(record.New(memory.New(), record.Options{}), of,
		func(context.Context) ([]sessionfs.Initial, error) {
			var all []sessionfs.Initial
			for _, name := range slices.Sorted(maps.Keys(contents)) {
				all = append(all, sessionfs.Initial{
					Path: name, Content: contents[name], ReadOnly: strings.HasPrefix(name, "/locked"),
				})
			}
			return all, nil
		})
}

// stateOf is the paths and contents of all files.
func stateOf(t *testing.T, files *sessionfs.FS) string {
	t.Helper()
	snapshot, err := files.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, info := range snapshot.Infos() {
		content := []byte("directory")
		if !info.IsDirectory {
			if content, err = snapshot.Read(t.Context(), info.Path); err != nil {
				t.Fatal(err)
			}
		}
		all = append(all, fmt.Sprintf("%s=%s", info.Path, content))
	}
	return strings.Join(all, " ")
}

// with is a run of a script on files.
func with(files *sessionfs.FS, key, command string) hook.Call {
	c := call(command)
	c.Files, c.Key, c.Identity.OpenedAt = files, key, 7
	return c
}

// Rules: HOOK-12, FS-01.
func TestWhatAScriptWritesIsAppliedOnceOrNotAtAll(t *testing.T) {
	files := newFiles(map[string]string{"/notes.md": "one\n", "/old/x": "x", "/locked/a": "a"})
	e := newExecutor(t)
	const before = "/locked=directory /locked/a=a /notes.md=one\n /old=directory /old/x=x"
	for name, command := range map[string]string{
		"its output is invalid":    `echo two >> notes.md; echo no JSON`,
		"it exceeds its limits":    `echo two >> notes.md; while :; do :; done`,
		"it has nothing to keep":   `echo a > /tmp/a; echo b > ~/b; echo c > .hooks/c`,
		"it writes what is locked": `echo b > locked/a || exit 1`,
		"a file is too large":      `echo two >> notes.md; printf "%0600000d" 1 > large`,
		"a path is too long":       `echo two >> notes.md; mkdir -p "$(printf '%0300d' 1)"`,
	} {
		outcome := e.Run(t.Context(), with(files, name, command))
		if stateOf(t, files) != before {
			t.Errorf("%s: %q leaves %q", name, outcome, stateOf(t, files))
		}
	}
	for range 2 {
		write := with(files, "key", `echo two >> notes.md; mkdir d; echo new > d/n; rm -r old; exit 1`)
		if outcome := e.Run(t.Context(), write); outcome.Decision != hook.Block {
			t.Fatalf("it yields %q", outcome)
		}
		want := "/d=directory /d/n=new\n /locked=directory /locked/a=a /notes.md=one\ntwo\n"
		if got := stateOf(t, files); got != want {
			t.Errorf("it leaves %q, want %q", got, want)
		}
	}
	if outcome := e.Run(t.Context(), call(`echo a > a`)); outcome.Decision != hook.Failed {
		t.Errorf("without files it yields %q", outcome)
	}
}

// Rules: HOOK-12.
func TestAScriptThatWasOvertakenWritesNothing(t *testing.T) {
	files := newFiles(map[string]string{"/a": "x"})
	e := newExecutor(t)
	snapshot, err := files.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	later := record.Cause{Step: 8, Key: "later"}
	if err := snapshot.Commit(t.Context(), later, []sessionfs.Change{{Path: "/b", Content: []byte("y")}}); err != nil {
		t.Fatal(err)
	}
	if outcome := e.Run(t.Context(), with(files, "late", `echo late > a`)); outcome.Decision != hook.Failed {
		t.Errorf("it yields %q", outcome)
	}
	if got := stateOf(t, files); got != "/a=x /b=y" {
		t.Errorf("it leaves %q", got)
	}
}
