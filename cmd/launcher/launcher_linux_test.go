package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/internal/runtime/tool/result"
)

// patience is how long a test waits for a launcher that hangs.
const patience = 60 * time.Second

// unprivileged is the user that tools run as.
const unprivileged = 65532

// launcherPath and toolPath are programs that the unprivileged user can run: the launcher, and this test binary, which
// plays the tool when its first argument is "tool".
var launcherPath, toolPath string

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "tool" {
		playTool(os.Args[2], os.Args[3:])
		return
	}
	code, err := withPrograms(m.Run)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func withPrograms(tests func() int) (int, error) {
	dir, err := os.MkdirTemp("", "launcher")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil {
		return 0, err
	}
	launcherPath, toolPath = filepath.Join(dir, "launcher"), filepath.Join(dir, "tool")
	build := exec.Command("go", "build", "-o", launcherPath, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := build.CombinedOutput(); err != nil {
		return 0, fmt.Errorf("building the launcher: %w\n%s", err, text)
	}
	if err := copySelf(toolPath); err != nil {
		return 0, err
	}
	return tests(), nil
}

// trial is one container, as far as the launcher can see.
type trial struct {
	t           *testing.T
	dir         string
	arguments   string
	timeout     string
	scalars     string
	environment []string
	// first makes the launcher the first process of a process namespace, as in a container, where the machine allows that.
	first bool
}

// ending is the state after the launcher has ended.
type ending struct {
	exit    int
	raw     string
	message *result.Message
	log     string
	took    time.Duration
}

func newTrial(t *testing.T) *trial {
	t.Helper()
	dir := t.TempDir()
	// The unprivileged user must get there, and write there.
	for path, mode := range map[string]os.FileMode{filepath.Dir(dir): 0o755, dir: 0o777} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	return &trial{t: t, dir: dir, arguments: "{}", timeout: "30s"}
}

func (tr *trial) path(name string) string { return filepath.Join(tr.dir, name) }

func (tr *trial) write(name, content string) {
	tr.t.Helper()
	if err := os.WriteFile(tr.path(name), []byte(content), 0o666); err != nil {
		tr.t.Fatal(err)
	}
	if err := os.Chmod(tr.path(name), 0o666); err != nil {
		tr.t.Fatal(err)
	}
}

// command is the launcher, ready to start.
func (tr *trial) command(arguments ...string) *exec.Cmd {
	tr.t.Helper()
	ctx, cancel := context.WithTimeout(tr.t.Context(), patience)
	tr.t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, launcherPath, arguments...)
	cmd.Dir = tr.dir
	cmd.Env = append([]string{
		"PATH=/usr/bin:/bin",
		// A tool that is built with the race detector would sleep a second before it exits.
		"GORACE=atexit_sleep_ms=0",
		result.EnvArgumentsFile + "=" + tr.path("arguments.json"),
		result.EnvStartMark + "=" + tr.path("started"),
		result.EnvMessageFile + "=" + tr.path("message"),
		result.EnvTimeout + "=" + tr.timeout,
		result.EnvScalars + "=" + tr.scalars,
	}, tr.environment...)
	cmd.SysProcAttr = &syscall.SysProcAttr{}
	if os.Getuid() == 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: unprivileged, Gid: unprivileged}
		if tr.first {
			cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWPID
		}
	}
	return cmd
}

// run runs a tool to its end.
func (tr *trial) run(mode string, arguments ...string) ending {
	tr.t.Helper()
	return tr.runCommand(append([]string{toolPath, "tool", mode}, arguments...)...)
}

func (tr *trial) runCommand(command ...string) ending {
	tr.t.Helper()
	tr.write("arguments.json", tr.arguments)
	tr.write("message", "")
	cmd := tr.command(append([]string{"run", "--"}, command...)...)
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	begin := time.Now()
	err := cmd.Run()
	return tr.ending(err, log.String(), time.Since(begin))
}

func (tr *trial) ending(err error, log string, took time.Duration) ending {
	tr.t.Helper()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		tr.t.Fatalf("running the launcher: %v", err)
	}
	raw, err := os.ReadFile(tr.path("message"))
	if err != nil {
		tr.t.Fatal(err)
	}
	if len(raw) > result.MaxMessageBytes {
		tr.t.Fatalf("the termination message has %d bytes", len(raw))
	}
	e := ending{raw: string(raw), log: log, took: took}
	if exit != nil {
		e.exit = exit.ExitCode()
	}
	if e.message, err = result.Decode(e.raw); err != nil {
		tr.t.Fatalf("the termination message %q: %v\nlog: %s", raw, err, log)
	}
	if e.message.Exit != e.exit {
		tr.t.Errorf("the report has the exit code %d, the launcher %d", e.message.Exit, e.exit)
	}
	return e
}

// result is the text that the model would see.
func (tr *trial) result(e ending) string {
	tr.t.Helper()
	if e.message.Result != nil {
		return *e.message.Result
	}
	text, _, err := e.message.ReadLog(strings.NewReader(e.log))
	if err != nil {
		tr.t.Fatalf("the result is not in the log: %v\nmessage: %s", err, e.raw)
	}
	return text
}

// want fails unless the run ended as expected.
func (tr *trial) want(e ending, outcome result.Outcome, exit int, started bool) {
	tr.t.Helper()
	if e.message.Outcome != outcome || e.exit != exit || e.message.Started != started {
		tr.t.Fatalf("the run ended with %q, exit code %d, started %v; want %q, %d, %v\nstderr: %s\nlog: %s",
			e.message.Outcome, e.exit, e.message.Started, outcome, exit, started, e.message.Stderr, e.log)
	}
}

// background starts a tool and returns once it has written "ready" to stderr, which the launcher copies to the log.
func (tr *trial) background(mode string, arguments ...string) (*exec.Cmd, func() ending) {
	tr.t.Helper()
	tr.write("arguments.json", tr.arguments)
	tr.write("message", "")
	cmd := tr.command(append([]string{"run", "--", toolPath, "tool", mode}, arguments...)...)
	log, err := cmd.StdoutPipe()
	if err != nil {
		tr.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		tr.t.Fatal(err)
	}
	lines := bufio.NewReader(log)
	if line, err := lines.ReadString('\n'); err != nil || line != "ready\n" {
		tr.t.Fatalf("the log begins with %q: %v", line, err)
	}
	begin := time.Now()
	return cmd, func() ending {
		tr.t.Helper()
		rest, err := io.ReadAll(lines)
		if err != nil {
			tr.t.Fatal(err)
		}
		err = cmd.Wait()
		return tr.ending(err, string(rest), time.Since(begin))
	}
}

// alive reports whether the process whose id a tool wrote to a file still runs.
func (tr *trial) alive(file string) bool {
	tr.t.Helper()
	text, err := os.ReadFile(tr.path(file))
	if err != nil {
		tr.t.Fatal(err)
	}
	var pid int
	if _, err := fmt.Sscan(string(text), &pid); err != nil {
		tr.t.Fatalf("%s holds %q: %v", file, text, err)
	}
	return syscall.Kill(pid, 0) == nil
}
