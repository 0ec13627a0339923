package memory

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/metrics"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Usage is the most memory that a function had at a time, in bytes.
type Usage struct {
	// Heap is the heap of this process, with what was not collected yet, beyond what it had before.
	Heap int64
	// Children is the largest of the processes that this one had started: its anonymous memory, which it shares with no
	// other.
	Children int64
}

const (
	// interval is the time between two samples of the heap.
	interval = time.Millisecond
	// perChild is how many of these are between two samples of other processes, which take more memory themselves.
	perChild = 4
)

// Peak measures a function. Other goroutines count as well.
func Peak(f func()) Usage {
	runtime.GC()
	before := heap()
	ctx, stop := context.WithCancel(context.Background())
	seen := make(chan Usage, 1)
	go func() { seen <- sample(ctx, before) }()
	f()
	last := heap() - before
	stop()
	u := <-seen
	u.Heap = max(u.Heap, last, 0)
	return u
}

// sample measures until a context ends.
func sample(ctx context.Context, before int64) Usage {
	var u Usage
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for i := 0; ; i++ {
		u.Heap = max(u.Heap, heap()-before)
		if i%perChild == 0 {
			for _, pid := range Children() {
				u.Children = max(u.Children, anonymous(pid))
			}
		}
		select {
		case <-ctx.Done():
			return u
		case <-tick.C:
		}
	}
}

// own is the command line of this process.
var own = sync.OnceValue(func() []byte {
	line, err := os.ReadFile("/proc/self/cmdline")
	if err != nil {
		return nil
	}
	return line
})

// heap is the bytes of all objects, including those that are not collected yet.
func heap() int64 {
	s := [1]metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(s[:])
	return int64(s[0].Value.Uint64()) //nolint:gosec // It is the size of a part of the memory.
}

// Children returns the ids of the processes that this one has started and that have not ended.
func Children() []string {
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

// anonymous is the anonymous memory of a process; 0 for one that has ended, or has not executed its program yet: until
// then it shows the memory of this one.
func anonymous(pid string) int64 {
	if line, err := os.ReadFile("/proc/" + pid + "/cmdline"); err != nil || bytes.Equal(line, own()) {
		return 0
	}
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
