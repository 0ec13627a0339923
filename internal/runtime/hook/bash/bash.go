// Package bash runs hooks that are scripts. Each runs in a process of its own (package shell), which is started before
// it is needed, runs one script and ends.
//
// A script sees the files of its Session and writes over them. What it has written is applied in one operation once it
// has ended and has yielded a decision, or not at all.
package bash

import (
	"context"
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/capstan-dev/capstan/internal/runtime/hook"
	"github.com/capstan-dev/capstan/internal/runtime/hook/bash/shell"
)

// Files are the files of a Session, by absolute paths within it. A nil Files has none, and scripts can keep none.
type Files interface {
	// List returns all files and directories, without content.
	List(ctx context.Context, of hook.Identity) ([]File, error)
	// Read returns the content of a file.
	Read(ctx context.Context, of hook.Identity, name string) ([]byte, error)
	// Apply makes changes, all of them or none. A key that was applied before changes nothing.
	Apply(ctx context.Context, of hook.Identity, key string, changes []Change) error
}

// File is a file or a directory of a Session.
type File struct {
	Path          string
	Dir, ReadOnly bool
	Size          int64
}

// Change is a file that a script has written or deleted, or a directory that it has created.
type Change struct {
	Path         string
	Deleted, Dir bool
	Content      []byte
}

// Processes run scripts: *Pool, and InProcess in tests.
type Processes interface {
	// Run runs a script of a namespace. The timeout begins when it has a process. read returns the content of a file of
	// the Session, by its path as the script sees it. The error is for the author of the hook.
	Run(
		ctx context.Context, namespace string, timeout time.Duration, r shell.Request,
		read func(ctx context.Context, name string) ([]byte, error),
	) (*shell.Result, error)
}

// Executor runs scripts. It is safe for concurrent use.
type Executor struct {
	// Processes run the scripts.
	Processes Processes
	// Files are those of the Sessions; nil for none.
	Files Files
}

// Check returns why a script is not valid; nil if it is.
func Check(b *hook.Bash) error {
	return shell.Check(b.Command)
}

// Run implements hook.Executor.
func (e *Executor) Run(ctx context.Context, c hook.Call) hook.Outcome {
	request, err := e.request(ctx, c)
	if err != nil {
		return hook.Fail("%v", err)
	}
	read := func(ctx context.Context, name string) ([]byte, error) {
		inside, ok := strings.CutPrefix(name, shell.Workspace)
		if e.Files == nil || !ok {
			return nil, fmt.Errorf("%s does not exist", name)
		}
		return e.Files.Read(ctx, c.Identity, inside)
	}
	result, err := e.Processes.Run(ctx, c.Identity.Namespace, c.Spec.TimeoutOrDefault(), request, read)
	if err != nil {
		return hook.Fail("%v", err)
	}
	outcome := hook.Parse(hook.Output{Stdout: result.Stdout, Stderr: result.Stderr, Exit: result.Exit})
	if outcome.Decision == hook.Failed {
		return outcome
	}
	if err := e.apply(ctx, c, result.Changes); err != nil {
		return hook.Fail("writing the files of the script: %v", err)
	}
	return outcome
}

// request is what the process needs to run the script.
func (e *Executor) request(ctx context.Context, c hook.Call) (shell.Request, error) {
	name := payloadPath(c.Spec.ID)
	r := shell.Request{
		Command: c.Spec.Bash.Command, Env: environment(c, name), TimeoutMillis: c.Spec.TimeoutOrDefault().Milliseconds(),
		Files: []shell.File{{Path: name, Content: c.Payload, Here: true}},
	}
	if e.Files == nil {
		return r, nil
	}
	files, err := e.Files.List(ctx, c.Identity)
	if err != nil {
		return r, fmt.Errorf("listing the files of the Session: %w", err)
	}
	for _, f := range files {
		r.Files = append(r.Files, shell.File{
			Path: path.Join(shell.Workspace, path.Clean("/"+f.Path)), Dir: f.Dir, ReadOnly: f.ReadOnly, Size: f.Size,
		})
	}
	return r, nil
}

// apply makes the changes of a script to the files of its Session.
func (e *Executor) apply(ctx context.Context, c hook.Call, changes []shell.Change) error {
	if len(changes) == 0 {
		return nil
	}
	if e.Files == nil {
		return fmt.Errorf("the Session has no files: write to %s instead", shell.Home)
	}
	all := make([]Change, len(changes))
	for i, change := range changes {
		// The process that reports the path has run a script of a tenant.
		inside, ok := strings.CutPrefix(path.Clean(change.Path), shell.Workspace+"/")
		if !ok {
			return fmt.Errorf("%s is not a file of the Session", change.Path)
		}
		all[i] = Change{Path: "/" + inside, Deleted: change.Deleted, Dir: change.Dir, Content: change.Content}
	}
	return e.Files.Apply(ctx, c.Identity, c.Key, all)
}

// payloadPath is where the script finds the payload (HOOK-12).
func payloadPath(id string) string {
	name := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-', r == '_':
			return r
		default:
			return '_'
		}
	}, id)
	return fmt.Sprintf("%s/%s-%s.json", shell.Payloads, name, uuid.Must(uuid.NewV7()))
}

// environment is the variables of a script (HOOK-12): those of the base, the payload in both spellings, and those of
// the hook, of which the last counts.
func environment(c hook.Call, payload string) []string {
	env := []string{
		"HOME=" + shell.Home, "SHELL=/bin/bash", "PATH=/usr/bin:/bin", "WORKSPACE=" + shell.Workspace,
		// The interpreter makes its pipes there, and cannot.
		"TMPDIR=/dev/null/none", "UID=1000", "EUID=1000", "GID=1000",
	}
	for _, v := range []struct{ name, value string }{
		{"PAYLOAD_JSON", string(c.Payload)},
		{"PAYLOAD_PATH", payload},
		{"EVENT", string(c.Spec.Event)},
		{"ID", c.Spec.ID},
		{"SESSION_ID", string(c.Identity.Session)},
		{"TURN_ID", string(c.Identity.Turn)},
		{"TOOL_NAME", c.Tool},
		{"TOOL_CALL_ID", c.ToolCallID},
	} {
		if v.value != "" {
			env = append(env, "EVERRUNS_HOOK_"+v.name+"="+v.value, "CAPSTAN_HOOK_"+v.name+"="+v.value)
		}
	}
	for _, v := range c.Spec.Bash.Env {
		env = append(env, v.Name+"="+v.Value)
	}
	return env
}

// Grace is how much longer than its script a process may take to end.
const Grace = time.Second
