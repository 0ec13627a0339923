package tombstone

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

func TestAnObjectIsKnownToBeGoneForAWhileOnly(t *testing.T) {
	var o Set
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	o.Add("", now)
	o.Add("s", now)
	o.Add("s", now.Add(TTL/2))
	for _, test := range []struct {
		uid   types.UID
		at    time.Time
		known bool
	}{
		{"", now, false},
		{"other", now, false},
		{"s", now, true},
		{"s", now.Add(TTL - 1), true},
		{"s", now.Add(TTL), false},
	} {
		since, known := o.Since(test.uid, test.at)
		if known != test.known || known && !since.Equal(now) {
			t.Errorf("%q after %v: %v since %v", test.uid, test.at.Sub(now), known, since)
		}
	}
}

func TestFewObjectsAreRemembered(t *testing.T) {
	var o Set
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for i := range 3 * maxEntries {
		o.Add(types.UID(fmt.Sprint(i)), now)
	}
	if len(o.since) > maxEntries {
		t.Errorf("%d objects are remembered", len(o.since))
	}
	// Those whose time is over make room first.
	later := now.Add(TTL)
	o.Add("new", later.Add(-1))
	for i := len(o.since); i < maxEntries; i++ {
		o.Add(types.UID(fmt.Sprint("old", i)), now)
	}
	o.Add("newer", later)
	if _, known := o.Since("new", later); !known || len(o.since) != 2 {
		t.Errorf("%d objects are remembered", len(o.since))
	}
}
