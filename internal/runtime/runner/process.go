package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"
)

// Conn exchanges messages with a process. It is used by one caller at a time.
type Conn struct {
	in  io.Writer
	out io.Reader
}

// Send sends a message of at most a number of bytes. The error has ErrEnded if the process has ended.
func (c Conn) Send(limit uint32, message any) error {
	return ended(Send(c.in, limit, message))
}

// Receive reads a message of at most a number of bytes. The error has ErrEnded if the process has ended, or has sent
// something else.
func (c Conn) Receive(limit uint32, message any) error {
	return ended(Receive(c.out, limit, message))
}

// SendBytes is Send for bytes.
func (c Conn) SendBytes(limit uint32, content []byte) error {
	return ended(SendBytes(c.in, limit, content))
}

// ReceiveBytes is Receive for bytes.
func (c Conn) ReceiveBytes(limit uint32) ([]byte, error) {
	content, err := ReceiveBytes(c.out, limit)
	return content, ended(err)
}

func ended(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w (%w)", ErrEnded, err)
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
		return nil, &StartError{Err: err}
	}
	out, err := command.StdoutPipe()
	if err != nil {
		return nil, &StartError{Err: err}
	}
	if err := command.Start(); err != nil {
		return nil, &StartError{Err: err}
	}
	c := &process{command: command, in: in, out: out}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	stop := context.AfterFunc(ctx, c.kill)
	defer stop()
	var h hello
	err = Receive(out, maxHelloBytes, &h)
	switch {
	case err != nil:
		c.end()
		return nil, &StartError{Err: err}
	case !h.Ready:
		c.end()
		return nil, &StartError{Why: h.Error}
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
