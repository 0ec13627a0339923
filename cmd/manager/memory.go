package main

import (
	"math"
	"os"
	"runtime/debug"
	"strconv"
	"strings"

	"github.com/capstan-dev/capstan/internal/runtime/fairshare"
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

// memoryLimit returns the memory that the process may use: GOMEMLIMIT, or nine tenths of the container's limit. 0 for
// no limit.
func memoryLimit() int64 {
	limit := debug.SetMemoryLimit(-1)
	for _, path := range []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"} {
		if of := cgroupLimit(path); of > 0 {
			limit = min(limit, of/10*9)
		}
	}
	if limit >= math.MaxInt64/2 {
		return 0
	}
	return limit
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
// itself, half goes to conversations of model calls, an eighth to the cache of conversations, and a thirty-second to
// that of long texts of configuration. The rest is for the caches of objects and for the garbage collector.
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
}

// largestConversation is the most bytes of a Session's journal that models are called with.
func (o *options) largestConversation() int64 {
	return fairshare.LargestConversation(fairshare.Ceiling(o.controllers.ConversationBytes))
}
