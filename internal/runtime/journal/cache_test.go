package journal

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

func cachedEntry(ordinal, size int64) *entry {
	return &entry{spec: &Entry{Ordinal: ordinal}, size: size}
}

func TestCacheKeepsWhatWasUsedLast(t *testing.T) {
	one := cachedEntry(1, 1000).cost()
	c := newCache(3 * one)
	for ordinal := range int64(3) {
		c.putEntry("a", cachedEntry(ordinal+1, 1000))
	}
	if c.entry("a", 1) == nil {
		t.Fatal("an entry within the bound was evicted")
	}
	c.putEntry("b", cachedEntry(1, 1000))
	if c.entry("a", 2) != nil {
		t.Error("the entry that was used longest ago was kept")
	}
	for _, ordinal := range []int64{1, 3} {
		if c.entry("a", ordinal) == nil {
			t.Errorf("entry %d, used later, was evicted", ordinal)
		}
	}
	c.putEntry("a", cachedEntry(9, 5000))
	if c.entry("a", 9) != nil || c.entry("b", 1) == nil {
		t.Error("an entry larger than the bound was kept, or drove others out")
	}
	c.putEntry("b", cachedEntry(1, 900))
	if want := 3*one - 100; c.bytes() != want {
		t.Errorf("the cache takes %d bytes, not %d", c.bytes(), want)
	}
}

func TestCacheKeepsTheStateThatHasComeFurthest(t *testing.T) {
	c := newCache(1 << 20)
	near, far := newState(), newState()
	near.head, far.head = 3, 5
	c.putState("a", far)
	c.putState("a", near)
	if c.state("a") != far {
		t.Error("a state that has not come as far took the place of another")
	}
	far.memory = 2 << 20
	c.putState("a", far)
	if c.state("a") != nil || c.bytes() != 0 {
		t.Errorf("a state that outgrew the bound was kept: %d bytes", c.bytes())
	}
}

func TestCacheCountsItsBytes(t *testing.T) {
	const limit = 50_000
	c, random := newCache(limit), rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		session := types.UID(fmt.Sprint(random.IntN(5)))
		switch random.IntN(10) {
		case 0:
			c.forget(session)
		case 1:
			st := newState()
			st.head, st.memory = random.Int64N(100), random.Int64N(20_000)
			c.putState(session, st)
		case 2, 3:
			c.entry(session, 1+random.Int64N(50))
		default:
			c.putEntry(session, cachedEntry(1+random.Int64N(50), random.Int64N(3_000)))
		}
		sum, items := int64(0), 0
		for _, entries := range c.sessions {
			for _, element := range entries {
				sum += element.Value.(*cached).cost
				items++
			}
		}
		if sum != c.used || sum > limit || items != c.recent.Len() {
			t.Fatalf("%d bytes in %d items are there, %d in %d are counted", sum, items, c.used, c.recent.Len())
		}
	}
}
