package payment

import (
	"testing"
	"time"
)

// The server of a repeated call may ask for another amount than before.
func TestADayCountsTheLargestAmountOfACall(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	reserved := func(d day, id string, amount Amount, refused bool) day {
		t.Helper()
		d, refusal := d.reserve(id, amount, 100, now)
		if (refusal != nil) != refused {
			t.Fatalf("reserving %d for %s: %v", amount, id, refusal)
		}
		return d
	}
	d := reserved(day{}, "a", 10, false)
	d = reserved(d, "b", 40, false)
	d = reserved(d, "a", 60, false)
	if d.total() != 100 {
		t.Errorf("the day counts %d", d.total())
	}
	d = reserved(d, "a", 61, true)
	d = reserved(d, "a", 5, false)
	if d = d.end("a", false); d.Spent != 60 || d.total() != 100 {
		t.Errorf("the day has spent %d, and counts %d", d.Spent, d.total())
	}
}
