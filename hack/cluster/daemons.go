package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// startPatience is how long a daemon may take to serve.
const startPatience = 90 * time.Second

const systemPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

func (c *cluster) logFile(name string) string { return c.path("logs", name+".log") }
func (c *cluster) pidFile(name string) string { return c.path("pids", name+".pid") }

// running is a daemon that this invocation has started.
type running struct {
	daemon
	process process
	exited  <-chan struct{}
}

// start starts a daemon in a session of its own, so that it outlives this command and the terminal.
func (c *cluster) start(d daemon) (*running, error) {
	path := c.logFile(d.name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("making the log directory: %w", err)
	}
	log, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("opening the log of %s: %w", d.name, err)
	}
	defer log.Close()

	cmd := exec.Command(d.program, d.args...)
	cmd.Dir = c.dir
	cmd.Stdout, cmd.Stderr = log, log
	// A clean environment: no proxy between the daemons, and containerd finds its shim and runc.
	cmd.Env = []string{"PATH=" + c.Assets + ":" + systemPath, "HOME=" + c.dir}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", d.name, err)
	}
	exited := make(chan struct{})
	go func() {
		// Its exit code is in its log; here only the fact counts.
		_ = cmd.Wait()
		close(exited)
	}()
	p, found := findProcess(cmd.Process.Pid)
	if !found {
		return nil, c.failure(d.name, "ended at once")
	}
	if err := writePidFile(c.pidFile(d.name), p); err != nil {
		return nil, err
	}
	return &running{daemon: d, process: p, exited: exited}, nil
}

// await waits until a started daemon serves.
func (c *cluster) await(ctx context.Context, r *running) error {
	if r.ready == nil {
		return nil
	}
	patience, cancel := context.WithTimeout(ctx, startPatience)
	defer cancel()
	for {
		err := r.ready(patience)
		if err == nil {
			return nil
		}
		select {
		case <-r.exited:
			return c.failure(r.name, "ended")
		case <-ctx.Done():
			return fmt.Errorf("interrupted while %s starts; the next up or down clears what runs already", r.name)
		case <-patience.Done():
			return c.failure(r.name, fmt.Sprintf("does not serve after %s (%v)", startPatience, err))
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// failure is an error about a daemon, with the end of its log.
func (c *cluster) failure(name, what string) error {
	return fmt.Errorf("%s %s; the end of its log:\n%s", name, what, tail(c.logFile(name), 15))
}

func tail(path string, lines int) []byte {
	content, err := os.ReadFile(path)
	if err != nil {
		return []byte("(no log)")
	}
	content = bytes.TrimRight(content, "\n")
	start := len(content)
	for range lines {
		newline := bytes.LastIndexByte(content[:start], '\n')
		if newline < 0 {
			return content
		}
		start = newline
	}
	return content[start+1:]
}

// dead are the daemons that do not run.
func (c *cluster) dead() []string {
	var names []string
	for _, d := range c.daemons() {
		p, err := readPidFile(c.pidFile(d.name))
		if err != nil || !p.running() {
			names = append(names, d.name)
		}
	}
	return names
}

// ctr runs containerd's client, in the namespace that the kubelet's containers and images are in.
func (c *cluster) ctr(ctx context.Context, out io.Writer, args ...string) error {
	cmd := exec.CommandContext(ctx, c.program("ctr"),
		append([]string{"--address", c.containerdSocket(), "--namespace", "k8s.io"}, args...)...)
	var complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = out, &complaint
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("ctr %s: %w: %s", args[0], err, bytes.TrimSpace(complaint.Bytes()))
	}
	return nil
}
