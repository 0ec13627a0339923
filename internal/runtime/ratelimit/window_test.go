package ratelimit

import (
	"math/rand/v2"
	"testing"
	"time"
)

// No minute, whenever it begins, has more than a limit of calls that are made as early as the window permits.
func TestNoMinuteHasMoreThanTheLimit(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	const limit = 7
	var w window
	var made []time.Duration
	for now := time.Duration(0); len(made) < 500; now += time.Duration(random.Int64N(int64(3 * time.Second))) {
		for w.used(now) < limit && random.IntN(4) > 0 {
			w.add(now, 1)
			made = append(made, now)
		}
		if w.used(now) == limit {
			at, known := w.below(now, limit-1)
			if !known || at <= now {
				t.Fatalf("A full window has room at %v (%v), and it is %v", at, known, now)
			}
			now = at
		}
	}
	for i := range made {
		if j := i + limit; j < len(made) && made[j]-made[i] < minute {
			t.Fatalf("%d calls within %v", limit+1, made[j]-made[i])
		}
	}
	if last := made[len(made)-1]; last > 500/limit*(minute+4*time.Second)+minute {
		t.Errorf("500 calls have taken %v", last)
	}
}

func TestAWindowIsSmall(t *testing.T) {
	var w window
	for now := time.Duration(0); now < time.Hour; now += 10 * time.Millisecond {
		w.add(now, 3)
	}
	if len(w.slots) > 62 {
		t.Errorf("%d slots", len(w.slots))
	}
	if used := w.used(2 * time.Hour); used != 0 || w.slots != nil {
		t.Errorf("%d used, %d slots, an hour later", used, len(w.slots))
	}
}
