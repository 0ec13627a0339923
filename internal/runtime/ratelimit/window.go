package ratelimit

import (
	"sort"
	"time"
)

// minute is the time that limits are about.
const minute = time.Minute

// window counts what was used in the last minute, in slots of a second: a minute of any beginning has at most what the
// window counts at its end.
type window struct {
	slots []slot
	sum   int64
}

// slot is what was used within one second, counted from a time of the owner's choice.
type slot struct{ second, amount int64 }

// add counts an amount as used now.
func (w *window) add(now time.Duration, amount int64) {
	w.expire(now)
	if amount <= 0 {
		return
	}
	w.sum += amount
	second := int64(now / time.Second)
	if n := len(w.slots); n > 0 && w.slots[n-1].second >= second {
		w.slots[n-1].amount += amount
		return
	}
	w.slots = append(w.slots, slot{second, amount})
}

// remove takes one back of what was added last.
func (w *window) remove() {
	n := len(w.slots)
	if n == 0 {
		return
	}
	w.sum--
	w.slots[n-1].amount--
	if w.slots[n-1].amount == 0 {
		w.slots = w.slots[:n-1]
	}
}

// used returns what was used in the last minute.
func (w *window) used(now time.Duration) int64 {
	w.expire(now)
	return w.sum
}

// expire forgets the slots whose whole second is more than a minute ago.
func (w *window) expire(now time.Duration) {
	n := sort.Search(len(w.slots), func(i int) bool { return now < w.slots[i].end() })
	for _, s := range w.slots[:n] {
		w.sum -= s.amount
	}
	if n == len(w.slots) {
		w.slots = nil
		return
	}
	w.slots = w.slots[n:]
}

// end is when a slot is not part of the last minute any more.
func (s slot) end() time.Duration { return time.Duration(s.second+1)*time.Second + minute }

// below returns when at most an amount of what was used counts, if nothing else is used; now for an amount that is not
// exceeded. It reports false for an amount below 0.
func (w *window) below(now time.Duration, amount int64) (time.Duration, bool) {
	if amount < 0 {
		return 0, false
	}
	left := w.used(now)
	at := now
	for _, s := range w.slots {
		if left <= amount {
			break
		}
		left, at = left-s.amount, s.end()
	}
	return at, true
}
