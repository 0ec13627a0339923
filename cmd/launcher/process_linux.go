package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/capstan-dev/capstan/internal/runtime/tool/result"
)

// killInterval is how often the launcher looks again for processes that are left.
const killInterval = 10 * time.Millisecond

// harden keeps the tool, which has the same user id, from reading or writing this process and the files that it has
// open, among them the container's log. It also makes this process the parent of every orphan that the tool leaves.
func harden() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("making this process undumpable: %w", err)
	}
	// The first process of a container is that in any case.
	if os.Getpid() == 1 {
		return nil
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("becoming the reaper of orphaned processes: %w", err)
	}
	return nil
}

// catchSignals returns the requests to stop. Every other signal that can be caught is caught and dropped: the tool can
// send them here, and must not be able to end the launcher before its report. Caught signals, unlike ignored ones, have
// their default effect in the tool.
func catchSignals() <-chan os.Signal {
	signal.Notify(make(chan os.Signal, 1))
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGHUP)
	return stop
}

// startError is a tool that could not be started.
type startError struct {
	exit int
	err  error
}

func (e *startError) Error() string { return e.err.Error() }

// process is the tool and its descendants.
type process struct {
	pid int
	// ended gets the end of the tool's own process.
	ended chan syscall.WaitStatus
	// alone is closed when no child of this process is left.
	alone chan struct{}
}

// startProcess starts a command in a process group of its own.
func startProcess(command, environment []string, files []uintptr) (*process, *startError) {
	path, err := exec.LookPath(command[0])
	if err != nil {
		return nil, explainStart(command[0], err)
	}
	pid, err := syscall.ForkExec(path, command, &syscall.ProcAttr{
		Env:   environment,
		Files: files,
		Sys:   &syscall.SysProcAttr{Setpgid: true},
	})
	if err != nil {
		return nil, explainStart(command[0], err)
	}
	p := &process{pid: pid, ended: make(chan syscall.WaitStatus, 1), alone: make(chan struct{})}
	go p.reap()
	return p, nil
}

func explainStart(command string, err error) *startError {
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) {
		return &startError{result.ExitNotFound, fmt.Errorf("the command %q does not exist in the image: %w", command, err)}
	}
	return &startError{result.ExitNotExecutable, fmt.Errorf("the command %q cannot be run: %w", command, err)}
}

// reap waits for every child: the tool, and the orphans that it leaves.
func (p *process) reap() {
	defer close(p.alone)
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return
		case pid == p.pid:
			p.ended <- status
		}
	}
}

// forward sends a signal to the tool's process group.
func (p *process) forward(s syscall.Signal) {
	_ = syscall.Kill(-p.pid, s)
}

// killAll kills the tool and its descendants, and returns when none is left or the deadline has passed.
func (p *process) killAll(deadline time.Time) {
	p.forward(syscall.SIGKILL)
	again := time.NewTicker(killInterval)
	defer again.Stop()
	limit := time.NewTimer(time.Until(deadline))
	defer limit.Stop()
	for {
		killOthers()
		select {
		case <-p.alone:
			return
		case <-limit.C:
			return
		case <-again.C:
		}
	}
}

// killOthers kills every process of the container but this one. If this is not the container's first process, that
// would reach processes other than the tool's; there it kills its children, to which orphans are added as their parents
// die.
func killOthers() {
	if os.Getpid() == 1 {
		_ = syscall.Kill(-1, syscall.SIGKILL)
		return
	}
	for _, pid := range children() {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
}

// children are the processes whose parent is this one.
func children() []int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	self := os.Getpid()
	var found []int
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + entry.Name() + "/stat")
		if err == nil && parentOf(stat) == self {
			found = append(found, pid)
		}
	}
	return found
}

// parentOf reads the parent from a line of /proc/<pid>/stat: the second field after the name, which is in brackets and
// may hold anything; 0 when it cannot be read.
func parentOf(stat []byte) int {
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 2 {
		return 0
	}
	parent, err := strconv.Atoi(fields[1])
	if err != nil {
		return 0
	}
	return parent
}
