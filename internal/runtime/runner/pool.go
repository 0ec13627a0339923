package runner

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/capstan-dev/capstan/internal/runtime/fairshare"
)

const (
	// startTimeout is how long a process may take until it is ready.
	startTimeout = 10 * time.Second
	// DefaultProcesses is how many programs run at once.
	DefaultProcesses = 2
	// MaxProcessBytes is the most memory that a process takes, with its code.
	MaxProcessBytes = 64 << 20
	// longProgram is how long a program runs until the next process is started beside it.
	longProgram = 50 * time.Millisecond
	// DefaultIdle is how long a process waits for a program.
	DefaultIdle = 5 * time.Minute
	// Grace is how much longer than its program a process may take to end.
	Grace = time.Second
)

// Options are the settings of a Pool.
type Options struct {
	// Command starts a process: this program, with the argument that makes it call Main.
	Command []string
	// Processes is how many programs run at once. Default DefaultProcesses.
	Processes int
	// Idle is how long a process that has been started beforehand waits for a program. Default DefaultIdle.
	Idle time.Duration
	// Waited is called with the waiting time of each program for its place. It may be nil.
	Waited fairshare.Observer
}

// Errors of Pool.Run that are not those of the program.
var (
	// ErrNoPlace reports that no process became free before the context ended.
	ErrNoPlace = errors.New("no process became free in time")
	// ErrTimeout reports that the program did not end in time.
	ErrTimeout = errors.New("the program did not end in time")
	// ErrEnded reports a process that has ended while it was needed: it has exceeded its limits, or was killed.
	ErrEnded = errors.New("the process has ended")
)

// StartError reports a process that could not be started.
type StartError struct {
	// Why is the reason of a process that has started and cannot confine itself; empty for other ones.
	Why string
	// Err is the cause; nil if there is only Why.
	Err error
}

// Error implements error.
func (e *StartError) Error() string {
	if e.Err == nil {
		return "starting a process: " + e.Why
	}
	return fmt.Sprintf("starting a process: %v", e.Err)
}

// Unwrap returns the cause.
func (e *StartError) Unwrap() error { return e.Err }

// Pool has the processes in which the programs of tenants run. Each runs one. The next one is started when a program
// has ended, or has run for a moment, so that it is ready for the next program and does not slow this one down; a
// manager whose tenants have no programs starts none.
//
// Places are divided between namespaces. A program waits for nothing while it has one.
type Pool struct {
	command []string
	idle    time.Duration
	places  *fairshare.Pool
	// ready are the processes that wait for a program.
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

// Places are those of the programs that run, and of those that wait.
func (p *Pool) Places() *fairshare.Pool { return p.places }

// Ready is the number of processes that wait for a program.
func (p *Pool) Ready() int { return len(p.ready) }

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

// Run starts a program in a process of its own and calls talk, which exchanges messages with it. The time begins when
// it has a place. The error is that of talk, a *StartError, or has ErrNoPlace or ErrTimeout. After an error of reading
// or writing, talk returns one with ErrEnded.
func (p *Pool) Run(
	ctx context.Context, namespace string, timeout time.Duration, program string,
	talk func(ctx context.Context, c Conn) error,
) error {
	share, err := p.places.Request(fairshare.Request{
		Namespace: namespace, Amount: fairshare.Amount{Places: 1},
	})
	if err != nil {
		return err
	}
	if err := share.Wait(ctx); err != nil {
		share.Release()
		return ErrNoPlace
	}
	c, err := p.take(ctx)
	if err != nil {
		share.Release()
		return err
	}
	defer p.release(c, share)
	next := time.AfterFunc(longProgram, p.prepare)
	defer func() {
		if next.Stop() {
			p.prepare()
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, timeout+Grace)
	defer cancel()
	stop := context.AfterFunc(ctx, c.kill)
	defer stop()
	if err = Send(c.in, maxHelloBytes, start{Program: program}); err == nil {
		err = talk(ctx, Conn{in: c.in, out: c.out})
	} else {
		err = fmt.Errorf("%w (%w)", ErrEnded, err)
	}
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("%w (%w)", ErrTimeout, ctx.Err())
	}
	return err
}

// release ends a process, which keeps its place until then. The result of the program does not wait for that.
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
