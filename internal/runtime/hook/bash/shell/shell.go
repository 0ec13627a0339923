// Package shell runs one script in a process that has nothing but the script: no files, no network, no other processes,
// little memory. It is the other side of package bash.
//
// Two things hold a script back, each of them alone. The interpreter has handlers for everything that it opens, lists
// or executes, and they know the files of the Session and the commands of this package. Because it also looks at the
// host itself in places (process substitution, `~user`, `command -v`, `cd -P`), the kernel refuses the process every
// system call that opens a file, finds one, makes a process or a socket.
package shell

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"sync"
	"syscall"
	"time"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/interp"

	"github.com/capstan-dev/capstan/internal/runtime/runner"
)

// The bounds of a script (HOOK-13).
const (
	// MaxCommands is the most commands that it may run.
	MaxCommands = 200
	// MaxIterations is the most iterations of its loops.
	MaxIterations = 2000
	// MaxOutputBytes is the most that it may print, on both outputs together.
	MaxOutputBytes = 64 << 10
)

var (
	errCommands   = fmt.Errorf("the script ran more than %d commands", MaxCommands)
	errIterations = fmt.Errorf("the loops of the script had more than %d iterations", MaxIterations)
	errOutput     = fmt.Errorf("the output has more than %d bytes", MaxOutputBytes)
)

// Program runs one script in a process of a runner.Pool: it reads a Request and writes Messages.
var Program = runner.Program{Name: "bash", Warm: warm, Serve: serve}

// warm runs a script of its own, before any script of a tenant is known: the first run of the interpreter in a process
// takes several times as long as the others.
func warm() {
	_, _ = Run(context.Background(), Request{Command: `x=1; [[ $x == 1 ]] || exit 1`}, nil)
}

// serve runs the script that is sent.
func serve(in io.Reader, out io.Writer) error {
	result, err := runSent(in, out)
	if err != nil {
		return errors.Join(err, runner.Send(out, MaxReplyBytes, Message{Error: err.Error()}))
	}
	if err := runner.Send(out, MaxReplyBytes, Message{Done: result}); err != nil {
		return errors.Join(err, runner.Send(out, MaxReplyBytes, Message{Error: err.Error()}))
	}
	return nil
}

func runSent(in io.Reader, out io.Writer) (*Result, error) {
	var r Request
	if err := runner.Receive(in, MaxRequestBytes, &r); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(r.TimeoutMillis)*time.Millisecond)
	defer cancel()
	var session Source
	if !r.NoSession {
		session = source{in: in, out: out}
	}
	return Run(ctx, r, session)
}

// Run runs a script in this process. The error is why it has no result.
func Run(ctx context.Context, r Request, session Source) (*Result, error) {
	file, err := parse(r.Command)
	if err != nil {
		return nil, err
	}
	counted(file)
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	s := &script{files: newFileSystem(ctx, r.Files, session), stop: stop, texts: map[string]string{}}
	runner, err := s.runner(r.Env)
	if err != nil {
		return nil, fmt.Errorf("preparing the script: %w", err)
	}
	err = runner.Run(ctx, file)
	var status interp.ExitStatus
	result := &Result{Stdout: s.stdout.String(), Stderr: s.stderr.String()}
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, context.DeadlineExceeded):
		return nil, fmt.Errorf("the hook did not end within %d ms", r.TimeoutMillis)
	case cause != nil:
		return nil, cause
	case errors.As(err, &status):
		result.Exit = int(status)
	case err != nil:
		return nil, fmt.Errorf("running the script: %w", err)
	}
	result.Changes = s.files.changes()
	return result, nil
}

// script is one run.
type script struct {
	files          *fileSystem
	stdout, stderr strings.Builder
	stop           context.CancelCauseFunc

	mu                   sync.Mutex
	commands, iterations int
	printed              int
	// texts are the scripts of files that are being read, by a path that no file has.
	texts map[string]string
}

func (s *script) runner(env []string) (*interp.Runner, error) {
	return interp.New(
		interp.Env(expand.ListEnviron(env...)),
		// Dir of the package interp looks at the host.
		func(r *interp.Runner) error { r.Dir = Workspace; return nil },
		interp.StdIO(nil, &output{script: s, to: &s.stdout}, &output{script: s, to: &s.stderr}),
		interp.CallHandler(s.call),
		interp.ExecHandlers(func(interp.ExecHandlerFunc) interp.ExecHandlerFunc { return s.exec }),
		interp.OpenHandler(func(ctx context.Context, name string, flag int, _ fs.FileMode) (io.ReadWriteCloser, error) {
			return s.open(ctx, name, flag)
		}),
		interp.ReadDirHandler2(func(ctx context.Context, name string) ([]fs.DirEntry, error) {
			return s.files.list(absolute(ctx, name))
		}),
		interp.StatHandler(func(ctx context.Context, name string, _ bool) (fs.FileInfo, error) {
			return s.files.stat(absolute(ctx, name))
		}),
		interp.AccessHandler(func(_ context.Context, name string, mode interp.AccessMode) error {
			return s.access(name, mode)
		}),
	)
}

// absolute is the path of a name as a script writes it.
func absolute(ctx context.Context, name string) string {
	if path.IsAbs(name) {
		return path.Clean(name)
	}
	return path.Join(interp.HandlerCtx(ctx).Dir, name)
}

func (s *script) access(name string, mode interp.AccessMode) error {
	at, err := s.files.stat(name)
	switch {
	case err != nil:
		return err
	case mode&interp.AccessWrite != 0 && (at.Mode()&0o200 == 0 || !writable(path.Clean(name)) && name != devNull),
		mode&interp.AccessExec != 0 && !at.IsDir():
		return syscall.EACCES
	default:
		return nil
	}
}

// call counts commands and iterations of loops.
func (s *script) call(ctx context.Context, args []string) ([]string, error) {
	err := s.count(args[0])
	if err == nil {
		args, err = s.evaluated(ctx, args)
	}
	if err != nil {
		s.stop(err)
	}
	return args, err
}

// count counts a command. It returns which limit the script has exceeded.
func (s *script) count(command string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if command == iteration {
		s.iterations++
	} else {
		s.commands++
	}
	switch {
	case s.iterations > MaxIterations:
		return errIterations
	case s.commands > MaxCommands:
		return errCommands
	default:
		return nil
	}
}

// output is one of the outputs of a script. They are bounded together.
type output struct {
	script *script
	to     *strings.Builder
}

// Write implements io.Writer.
func (o *output) Write(p []byte) (int, error) {
	o.script.mu.Lock()
	defer o.script.mu.Unlock()
	if o.script.printed += len(p); o.script.printed > MaxOutputBytes {
		o.script.stop(errOutput)
		return 0, errOutput
	}
	return o.to.Write(p)
}

// exec runs a command of this package. There are no others.
func (s *script) exec(ctx context.Context, args []string) error {
	if args[0] == iteration {
		return nil
	}
	h := interp.HandlerCtx(ctx)
	command, ok := commands[path.Base(args[0])]
	if !ok || (strings.Contains(args[0], "/") && path.Dir(args[0]) != "/bin" && path.Dir(args[0]) != "/usr/bin") {
		fmt.Fprintf(h.Stderr, "%s: command not found\n", args[0])
		return interp.ExitStatus(127)
	}
	c := &commandContext{
		ctx: ctx, files: s.files, dir: h.Dir, env: h.Env, name: path.Base(args[0]), args: args[1:],
		stdin: h.Stdin, stdout: h.Stdout, stderr: h.Stderr,
	}
	if c.stdin == nil {
		c.stdin = strings.NewReader("")
	}
	err := command(c)
	var status interp.ExitStatus
	switch {
	case err == nil, errors.As(err, &status):
		return err
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, os.ErrClosed), errors.Is(err, syscall.EPIPE):
		// Who reads the output has seen enough.
		return nil
	default:
		fmt.Fprintf(h.Stderr, "%s: %v\n", c.name, err)
		return interp.ExitStatus(1)
	}
}
