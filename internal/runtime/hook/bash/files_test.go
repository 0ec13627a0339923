package bash

import (
	"context"
	"errors"
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

// refusing are Records whose API server does not respond to some requests.
type refusing struct {
	record.Objects
	read, write error
}

func (r *refusing) ReadIndex(ctx context.Context, scope record.Scope) (record.Stored, error) {
	if r.read != nil {
		return record.Stored{}, r.read
	}
	return r.Objects.ReadIndex(ctx, scope)
}

func (r *refusing) WriteIndex(ctx context.Context, scope record.Scope, index record.Stored) error {
	if r.write != nil {
		return r.write
	}
	return r.Objects.WriteIndex(ctx, scope, index)
}

// Rules: HOOK-12, TOOL-05.
func TestErrorsOfTheAPIServerAreNotShownToAuthorsOfHooks(t *testing.T) {
	api := errors.New(`Get "https://10.96.0.1:443/apis": etcdserver: leader changed`)
	for name, c := range map[string]struct {
		store   refusing
		command string
		want    string
		broken  bool
	}{
		"a read":  {refusing{read: api}, `cat notes.md`, "the files of the Session could not be read", true},
		"a write": {refusing{write: api}, `echo a > a`, "the files of the script could not be written", true},
		// A guard that finds nothing because it cannot read decides nothing.
		"a search":           {refusing{read: api}, `grep -q bad notes.md && exit 1; exit 0`, "could not be read", true},
		"an error of a file": {refusing{}, `printf "%0600000d" 1 > large`, "/large would have 600000 bytes", false},
	} {
		t.Run(name, func(t *testing.T) {
			c.store.Objects = memory.New()
			files := sessionfs.New(record.New(&c.store, record.Options{}),
				sessionfs.Session{Namespace: "ns", Name: "s", UID: "s1"}, nil)
			outcome := newExecutor(t).Run(t.Context(), with(files, "key", c.command))
			if outcome.Decision != hook.Failed || !strings.Contains(outcome.Reason, c.want) ||
				strings.Contains(outcome.Reason, "etcd") || strings.Contains(outcome.Reason, "10.96") {
				t.Errorf("it yields %s: %s", outcome.Decision, outcome.Reason)
			}
			if errors.Is(outcome.Cause, api) != c.broken {
				t.Errorf("the cause is %v", outcome.Cause)
			}
		})
	}
}

// Rules: FS-03.
func TestAScriptThatLooksAtNoFilesReadsNone(t *testing.T) {
	seeded := 0
	files := sessionfs.New(record.New(memory.New(), record.Options{}),
		sessionfs.Session{Namespace: "ns", Name: "s", UID: "s1"},
		func(context.Context) ([]sessionfs.Initial, error) {
			seeded++
			return []sessionfs.Initial{{Path: "/notes.md", Content: "one\n"}}, nil
		})
	e := newExecutor(t)
	for _, command := range []string{
		`:`, `jq -r .event "$CAPSTAN_HOOK_PAYLOAD_PATH"; exit 1`, `[[ -d /workspace && -w . ]] && pwd`,
		`cd /tmp && echo a > a && cat a && ls`, `mkdir ~/d; cd; ls -a; cat < "$CAPSTAN_HOOK_PAYLOAD_PATH" > /dev/null`,
	} {
		if outcome := e.Run(t.Context(), with(files, command, command)); outcome.Cause != nil || seeded != 0 {
			t.Errorf("%s yields %q, and seeds %d times", command, outcome, seeded)
		}
	}
	for _, command := range []string{
		`ls`, `cat notes.md`, `echo *`, `[[ -e notes.md ]]`, `echo a >> notes.md`, `rm -f x`, `mkdir d`, `touch t`,
		`cd /workspace/d`, `cat .hooks/other`, `grep one *`,
	} {
		seeded = 0
		files := sessionfs.New(record.New(memory.New(), record.Options{}),
			sessionfs.Session{Namespace: "ns", Name: "s", UID: "s1"},
			func(context.Context) ([]sessionfs.Initial, error) {
				seeded++
				return []sessionfs.Initial{{Path: "/notes.md", Content: "one\n"}}, nil
			})
		if outcome := e.Run(t.Context(), with(files, command, command)); outcome.Cause != nil || seeded != 1 {
			t.Errorf("%s yields %q, and seeds %d times", command, outcome, seeded)
		}
	}
}
