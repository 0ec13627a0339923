package bash

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// watchMemory returns the most memory that a process for scripts had at a time, in bytes, until the context ends.
func watchMemory(ctx context.Context) int64 {
	peak := int64(0)
	for tick := time.NewTicker(2 * time.Millisecond); ; {
		for _, pid := range children() {
			peak = max(peak, highWater(pid))
		}
		select {
		case <-ctx.Done():
			tick.Stop()
			return peak
		case <-tick.C:
		}
	}
}

// children are the processes that this one has started.
func children() []string {
	var all []string
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", os.Getpid()))
	if err != nil {
		return nil
	}
	for _, thread := range threads {
		// A thread may have ended since.
		pids, err := os.ReadFile(thread)
		if err == nil {
			all = append(all, strings.Fields(string(pids))...)
		}
	}
	return all
}

// highWater is the most memory that a process has had: its anonymous part, which it shares with no other.
func highWater(pid string) int64 {
	status, err := os.ReadFile("/proc/" + pid + "/status")
	if err != nil {
		return 0
	}
	for line := range strings.SplitSeq(string(status), "\n") {
		if value, ok := strings.CutPrefix(line, "RssAnon:"); ok {
			n, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(value, "kB")), 10, 64)
			if err != nil {
				return 0
			}
			return n << 10
		}
	}
	return 0
}
