package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// process is one process of this machine. A process id alone is not enough to end it later: the kernel reuses ids.
type process struct {
	pid int
	// started is the kernel's start time of the process, in clock ticks since boot.
	started string
}

// findProcess returns the running process with that id, or false. A zombie does not run.
func findProcess(pid int) (process, bool) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return process{}, false
	}
	// The second field is the name in parentheses, which may hold spaces; the state is the first field after it, the start
	// time the twentieth.
	_, rest, found := strings.Cut(string(stat[bytes.LastIndexByte(stat, ')')+1:]), " ")
	fields := strings.Fields(rest)
	if !found || len(fields) < 20 || fields[0] == "Z" || fields[0] == "X" {
		return process{}, false
	}
	return process{pid: pid, started: fields[19]}, true
}

func (p process) running() bool {
	now, found := findProcess(p.pid)
	return found && now == p
}

func (p process) signal(s syscall.Signal) {
	if p.running() {
		// It may end in between, which is the goal.
		_ = syscall.Kill(p.pid, s)
	}
}

// stopAll stops processes gracefully, and kills those that have not ended when patience is over.
func stopAll(processes []process, patience time.Duration) {
	for _, p := range processes {
		p.signal(syscall.SIGTERM)
	}
	if awaitExit(processes, patience) {
		return
	}
	killAll(processes)
}

func killAll(processes []process) {
	for _, p := range processes {
		p.signal(syscall.SIGKILL)
	}
	awaitExit(processes, 5*time.Second)
}

func awaitExit(processes []process, patience time.Duration) bool {
	deadline := time.Now().Add(patience)
	for {
		left := 0
		for _, p := range processes {
			if p.running() {
				left++
			}
		}
		if left == 0 {
			return true
		}
		if time.Now().After(deadline) {
			return false
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func writePidFile(path string, p process) error {
	return writeFile(path, fmt.Appendf(nil, "%d %s\n", p.pid, p.started), 0o644)
}

func readPidFile(path string) (process, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return process{}, err
	}
	fields := strings.Fields(string(content))
	if len(fields) != 2 {
		return process{}, fmt.Errorf("%s is not a pid file", filepath.Base(path))
	}
	pid, err := strconv.Atoi(fields[0])
	if err != nil {
		return process{}, errors.New("a pid file without a process id")
	}
	return process{pid: pid, started: fields[1]}, nil
}

// strays are the running processes whose executable is one of the cluster's and which have a path of its state
// directory: daemons and shims, even where a pid file was lost.
func (c *cluster) strays() []process {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var found []process
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || pid == os.Getpid() || !c.owns(pid) {
			continue
		}
		if p, running := findProcess(pid); running {
			found = append(found, p)
		}
	}
	return found
}

func (c *cluster) owns(pid int) bool {
	executable, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	if err != nil {
		return false
	}
	executable = strings.TrimSuffix(executable, " (deleted)")
	if strings.HasPrefix(executable, c.dir+"/") {
		return true
	}
	if filepath.Dir(executable) != c.Assets {
		return false
	}
	arguments, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	return err == nil && bytes.Contains(arguments, []byte(c.dir+"/"))
}
