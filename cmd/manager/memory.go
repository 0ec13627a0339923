package main

import (
	"math"
	"os"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/capstan-dev/capstan/internal/runtime/fairshare"
	"github.com/capstan-dev/capstan/internal/runtime/runner"
)

const (
	// ownMemory is the memory that the manager needs for itself.
	ownMemory = 64 << 20
	// minConversationBytes is the least memory for conversations that makes sense: one call of a small Session in each
	// of several namespaces.
	minConversationBytes = 16 << 20
	// assumedMemory is the memory of a manager that has no limit.
	assumedMemory = 576 << 20
)

// scriptMemory is the most memory of the processes in which programs of tenants run.
func (o *options) scriptMemory() int64 {
	return int64(o.scripts+o.sqlCalls) * runner.MaxProcessBytes
}

// memoryLimit returns the memory that the process may use: GOMEMLIMIT, or nine tenths of what the container's limit
// leaves beside the processes of scripts. 0 for no limit.
func memoryLimit(scripts int64) int64 {
	limit := debug.SetMemoryLimit(-1)
	for _, path := range []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"} {
		limit = beside(limit, cgroupLimit(path), scripts)
	}
	if limit >= math.MaxInt64/2 {
		return 0
	}
	return limit
}

// beside is the lower one of a limit and of what a container's limit leaves; 0 for a container without one.
func beside(limit, container, scripts int64) int64 {
	if container <= 0 {
		return limit
	}
	return min(limit, max(container-scripts, 0)/10*9)
}

// minCollectorBytes is the least memory from which on the garbage collector works harder.
const minCollectorBytes = ownMemory + 2*minConversationBytes

// limitCollector makes the garbage collector work harder where a container's limit leaves less than GOMEMLIMIT.
func limitCollector(limit int64) {
	if limit = max(limit, minCollectorBytes); limit < debug.SetMemoryLimit(-1) {
		debug.SetMemoryLimit(limit)
	}
}

// cgroupLimit reads a limit of the container's; 0 if there is none.
func cgroupLimit(path string) int64 {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	limit, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return 0
	}
	return limit
}

// divide sets the memory of conversations that flags leave open: of the memory that the manager does not need for
// itself, half goes to conversations of model calls, an eighth to the cache of conversations, and a thirty-second
// each to that of long texts of configuration and that of Records. The rest is for the caches of objects and for the
// garbage collector.
func (o *options) divide(limit int64) {
	if limit == 0 {
		limit = assumedMemory
	}
	rest := max(limit-ownMemory, 0)
	if o.controllers.ConversationBytes == 0 {
		o.controllers.ConversationBytes = max(rest/2, minConversationBytes)
	}
	if o.controllers.JournalCacheBytes == 0 {
		o.controllers.JournalCacheBytes = min(max(rest/8, 4<<20), 64<<20)
	}
	if o.controllers.ConfigCacheBytes == 0 {
		o.controllers.ConfigCacheBytes = min(max(rest/32, 1<<20), 16<<20)
	}
	if o.controllers.RecordCacheBytes == 0 {
		o.controllers.RecordCacheBytes = min(max(rest/32, 1<<20), 16<<20)
	}
}

// largestConversation is the most bytes of a Session's journal that models are called with.
func (o *options) largestConversation() int64 {
	return fairshare.LargestConversation(fairshare.Ceiling(o.controllers.ConversationBytes))
}
