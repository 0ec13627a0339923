package bash

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/capstan-dev/capstan/internal/runtime/fairshare"
	"github.com/capstan-dev/capstan/internal/runtime/hook"
	"github.com/capstan-dev/capstan/internal/runtime/hook/bash/shell"
)

const (
	// startTimeout is how long a process may take until it is ready.
	startTimeout = 10 * time.Second
	// DefaultProcesses is how many scripts run at once.
	DefaultProcesses = 2
	// MaxProcessBytes is the most memory that a process takes, with its code.
	MaxProcessBytes = 64 << 20
	// longScript is how long a script runs until the next process is started beside it.
	longScript = 50 * time.Millisecond
	// DefaultIdle is how long a process waits for a script.
	DefaultIdle = 5 * time.Minute
)

// Options are the settings of a Pool.
type Options struct {
	// Command starts a process: this program, with the argument that makes it call shell.Main.
	Command []string
	// Processes is how many scripts run at once. Default DefaultProcesses.
	Processes int
	// Idle is how long a process that has been started beforehand waits for a script. Default DefaultIdle.
	Idle time.Duration
	// Waited is called with the waiting time of each script for its place. It may be nil.
	Waited fairshare.Observer
}

// Pool has the processes in which scripts run. Each runs one script. The next one is started when a script has ended,
// or has run for a moment, so that it is ready for the next script and does not slow this one down; a manager whose
// tenants have no such hooks starts none.
//
// Places are divided between namespaces. A script waits for nothing while it has one.
type Pool struct {
	command []string
	idle    time.Duration
	places  *fairshare.Pool
	// ready are the processes that wait for a script.
	ready chan *process

	mu     sync.Mutex
	closed bool
	// spare is how many processes are ready or about to be.
	spare int
	wait  sync.WaitGroup
}

// NewPool returns a Pool. Close ends its processes.
func NewPool(o Options) *Pool {
	if o.Processes <= 0 {
		o.Processes = DefaultProcesses
	}
	if o.Idle <= 0 {
		o.Idle = DefaultIdle
	}
	// With several places, a namespace leaves one to the others.
	most := max(int64(o.Processes)-1, 1)
	return &Pool{
		command: o.Command, idle: o.Idle, ready: make(chan *process, o.Processes),
		places: fairshare.NewPool(fairshare.Options{
			Total: fairshare.Amount{Places: int64(o.Processes)}, PerNamespace: fairshare.Amount{Places: most},
			Waited: o.Waited,
		}),
	}
}

// Places are those of the scripts that run, and of those that wait.
func (p *Pool) Places() *fairshare.Pool { return p.places }

// Close ends all processes and waits for them.
func (p *Pool) Close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	for {
		select {
		case c := <-p.ready:
			c.end()
			continue
		default:
		}
		break
	}
	p.wait.Wait()
}

// Run runs a script in a process of its own. The time begins when it has a place. The error is for the author of the
// hook.
func (p *Pool) Run(
	ctx context.Context, namespace string, timeout time.Duration, r shell.Request, session shell.Source,
) (*shell.Result, error) {
	share, err := p.places.Request(fairshare.Request{
		Namespace: namespace, Amount: fairshare.Amount{Places: 1},
	})
	if err != nil {
		return nil, err
	}
	if err := share.Wait(ctx); err != nil {
		share.Release()
		return nil, errors.New("no process for the script became free in time")
	}
	c, err := p.take(ctx)
	if err != nil {
		share.Release()
		return nil, err
	}
	defer p.release(c, share)
	next := time.AfterFunc(longScript, p.prepare)
	defer func() {
		if next.Stop() {
			p.prepare()
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, timeout+Grace)
	defer cancel()
	stop := context.AfterFunc(ctx, c.kill)
	defer stop()
	result, err := c.run(ctx, r, session)
	if err != nil && ctx.Err() != nil {
		return nil, fmt.Errorf("the hook did not end within %d ms", timeout.Milliseconds())
	}
	return result, err
}

// release ends a process, which keeps its place until then. The result of the script does not wait for that.
func (p *Pool) release(c *process, share *fairshare.Share) {
	end := func() {
		c.end()
		share.Release()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		end()
		return
	}
	p.wait.Go(end)
}

// take returns a process that is ready, or starts one.
func (p *Pool) take(ctx context.Context) (*process, error) {
	for {
		select {
		case c := <-p.ready:
			p.mu.Lock()
			p.spare--
			p.mu.Unlock()
			if !c.rest() {
				c.end()
				continue
			}
			return c, nil
		default:
		}
		return p.start(ctx)
	}
}

// prepare starts one process beforehand.
func (p *Pool) prepare() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.spare >= cap(p.ready) || p.spare >= 1 {
		return
	}
	p.spare++
	p.wait.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
		defer cancel()
		c, err := p.start(ctx)
		p.mu.Lock()
		defer p.mu.Unlock()
		if err != nil || p.closed {
			p.spare--
			if c != nil {
				c.end()
			}
			return
		}
		c.waits(p.idle)
		p.ready <- c
	})
}

// process is one process.
type process struct {
	command *exec.Cmd
	in      io.WriteCloser
	out     io.Reader
	ended   sync.Once
	idle    *time.Timer
}

// start starts a process and waits until it is ready. It has no environment, no file but the pipes, and no other
// process's memory.
func (p *Pool) start(ctx context.Context) (*process, error) {
	command := exec.Command(p.command[0], p.command[1:]...)
	command.Env, command.Dir = []string{}, "/"
	in, err := command.StdinPipe()
	if err != nil {
		return nil, hook.Internal("a process for scripts could not be started", err)
	}
	out, err := command.StdoutPipe()
	if err != nil {
		return nil, hook.Internal("a process for scripts could not be started", err)
	}
	if err := command.Start(); err != nil {
		return nil, hook.Internal("a process for scripts could not be started", err)
	}
	c := &process{command: command, in: in, out: out}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	stop := context.AfterFunc(ctx, c.kill)
	defer stop()
	var m shell.Message
	err = shell.Receive(out, shell.MaxReplyBytes, &m)
	switch {
	case err != nil:
		c.end()
		return nil, errors.New("a process for scripts did not start")
	case !m.Ready:
		c.end()
		return nil, fmt.Errorf("a process for scripts did not start: %s", m.Error)
	}
	return c, nil
}

// waits ends the process if it is not used for a while. Who takes it then starts another one.
func (c *process) waits(idle time.Duration) {
	c.idle = time.AfterFunc(idle, c.end)
}

// rest stops the waiting. It reports whether the process is still there.
func (c *process) rest() bool {
	return c.idle == nil || c.idle.Stop()
}

// kill ends the process, whatever it does.
func (c *process) kill() {
	if err := c.command.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return
	}
}

// end ends the process and waits for it.
func (c *process) end() {
	c.ended.Do(func() {
		c.kill()
		_ = c.in.Close()
		_ = c.command.Wait()
	})
}

// reply is the response to a process that needs the files of the Session.
func reply(ctx context.Context, m shell.Message, session shell.Source) any {
	if m.List {
		files, err := session.List(ctx)
		if err != nil {
			return shell.Listing{Error: err.Error()}
		}
		return shell.Listing{Files: files}
	}
	content, err := session.Read(ctx, m.Read)
	if err != nil {
		return shell.Content{Error: err.Error()}
	}
	return shell.Content{Content: content}
}

// run sends the script and serves the process until it ends.
func (c *process) run(ctx context.Context, r shell.Request, session shell.Source) (*shell.Result, error) {
	r.NoSession = session == nil
	if err := shell.Send(c.in, shell.MaxRequestBytes, r); err != nil {
		return nil, hook.Internal("the script could not be sent to its process", err)
	}
	for {
		var m shell.Message
		if err := shell.Receive(c.out, shell.MaxReplyBytes, &m); err != nil {
			return nil, errors.New("the process of the script has ended: it exceeded its limits of memory or time")
		}
		switch {
		case m.Error != "":
			return nil, errors.New(m.Error)
		case m.Done != nil:
			return m.Done, nil
		case session != nil && (m.List || m.Read != ""):
			if err := shell.Send(c.in, shell.MaxRequestBytes, reply(ctx, m, session)); err != nil {
				return nil, hook.Internal("a file could not be sent to the process of the script", err)
			}
		default:
			return nil, errors.New("the process of the script sent an unknown message")
		}
	}
}
