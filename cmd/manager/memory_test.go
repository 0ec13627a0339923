package main

import (
	"math"
	"os"
	"path/filepath"
	"testing"
)

func TestMemoryForConversationsFollowsFromTheLimit(t *testing.T) {
	const mib = 1 << 20
	for name, c := range map[string]struct {
		limit, given                 int64
		conversations, cache, config int64
		largestAtMost                int64
	}{
		"no limit":          {0, 0, 256 * mib, 64 * mib, 16 * mib, 28 * mib},
		"the shipped limit": {450 * mib, 0, 193 * mib, 386 * mib / 8, 386 * mib / 32, 21 * mib},
		"a small manager":   {115 * mib, 0, 51 * mib / 2, 51 * mib / 8, 51 * mib / 32, 3 * mib},
		"almost nothing":    {32 * mib, 0, 16 * mib, 4 * mib, 1 * mib, 2 * mib},
		"the flag":          {450 * mib, 40 * mib, 40 * mib, 386 * mib / 8, 386 * mib / 32, 4 * mib},
	} {
		o := options{}
		o.controllers.ConversationBytes = c.given
		o.divide(c.limit)
		if o.controllers.ConversationBytes != c.conversations || o.controllers.JournalCacheBytes != c.cache {
			t.Errorf("%s: %d bytes for conversations and %d for their cache, want %d and %d", name,
				o.controllers.ConversationBytes, o.controllers.JournalCacheBytes, c.conversations, c.cache)
		}
		if o.controllers.ConfigCacheBytes != c.config {
			t.Errorf("%s: %d bytes for configuration, want %d", name, o.controllers.ConfigCacheBytes, c.config)
		}
		if o.controllers.RecordCacheBytes != c.config {
			t.Errorf("%s: %d bytes for Records, want %d", name, o.controllers.RecordCacheBytes, c.config)
		}
		if largest := o.largestConversation(); largest <= 0 || largest > c.largestAtMost {
			t.Errorf("%s: the largest conversation has %d bytes", name, largest)
		}
	}
}

func TestTheLimitOfAContainerIsRead(t *testing.T) {
	for text, want := range map[string]int64{"536870912\n": 512 << 20, "max\n": 0, "": 0} {
		path := filepath.Join(t.TempDir(), "memory.max")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := cgroupLimit(path); got != want {
			t.Errorf("%q: %d", text, got)
		}
	}
	if cgroupLimit("/nowhere") != 0 {
		t.Error("a file that is not there is a limit")
	}
}

func TestScriptsTakeTheirMemoryFromTheContainer(t *testing.T) {
	const mib = 1 << 20
	for name, c := range map[string]struct{ limit, container, scripts, want int64 }{
		"no limit of the container":   {450 * mib, 0, 128 * mib, 450 * mib},
		"the shipped limits":          {450 * mib, 768 * mib, 256 * mib, 450 * mib},
		"many scripts":                {450 * mib, 768 * mib, 640 * mib, 128 * mib / 10 * 9},
		"no GOMEMLIMIT":               {math.MaxInt64, 1000 * mib, 128 * mib, 872 * mib / 10 * 9},
		"more scripts than there are": {450 * mib, 768 * mib, 4096 * mib, 0},
	} {
		if got := beside(c.limit, c.container, c.scripts); got != c.want {
			t.Errorf("%s: %d MiB, want %d", name, got/mib, c.want/mib)
		}
	}
	o := options{scripts: 2, sqlCalls: 1}
	if got := o.scriptMemory(); got != 192*mib {
		t.Errorf("three processes may use %d bytes", got)
	}
}
