// Package bash runs hooks that are scripts. Each runs in a process of its own (package shell), which is started before
// it is needed, runs one script and ends.
//
// A script sees the files of its Session and writes over them. What it has written is applied in one operation once it
// has ended and has yielded a decision, or not at all.
package bash

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/capstan-dev/capstan/internal/runtime/hook"
	"github.com/capstan-dev/capstan/internal/runtime/hook/bash/shell"
)

// Processes run scripts: Confined, and InProcess in tests.
type Processes interface {
	// Run runs a script of a namespace. The timeout begins when it has a process. session has the files of the Session;
	// nil for none. The error is for the author of the hook.
	Run(
		ctx context.Context, namespace string, timeout time.Duration, r shell.Request, session shell.Source,
	) (*shell.Result, error)
}

// Executor runs scripts. It is safe for concurrent use.
type Executor struct {
	// Processes run the scripts.
	Processes Processes
}

// Check returns why a script is not valid; nil if it is.
func Check(b *hook.Bash) error {
	return shell.Check(b.Command)
}

// Run implements hook.Executor.
func (e *Executor) Run(ctx context.Context, c hook.Call) hook.Outcome {
	files := &workspace{files: c.Files}
	result, err := e.Processes.Run(ctx, c.Identity.Namespace, c.Spec.TimeoutOrDefault(), request(c), files.source())
	switch {
	case files.broken != nil:
		// The script took the files for unreadable, which may be what its decision comes from.
		return hook.FailWith(files.broken)
	case err != nil:
		return hook.FailWith(err)
	}
	outcome := hook.Parse(hook.Output{Stdout: result.Stdout, Stderr: result.Stderr, Exit: result.Exit})
	if outcome.Decision == hook.Failed {
		return outcome
	}
	if err := files.commit(ctx, c, result.Changes); err != nil {
		return hook.FailWith(err)
	}
	return outcome
}

// request is what the process needs to run the script.
func request(c hook.Call) shell.Request {
	name := payloadPath(c.Spec.ID)
	return shell.Request{
		Command: c.Spec.Bash.Command, Env: environment(c, name), TimeoutMillis: c.Spec.TimeoutOrDefault().Milliseconds(),
		Files: []shell.File{{Path: name, Content: c.Payload, Here: true}},
	}
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
