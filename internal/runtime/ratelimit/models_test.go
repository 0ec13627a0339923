package ratelimit

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

var openAI = Source{Namespace: "a", Provider: "OpenAI", Endpoint: "https://api.openai.com/v1", Secret: "key", Key: "k"}

// clock is a clock that a test advances.
type clock struct{ now time.Time }

func newClock() *clock { return &clock{time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)} }

func (c *clock) Now() time.Time { return c.now }

func (c *clock) advance(d time.Duration) { c.now = c.now.Add(d) }

func turn(n int) types.UID { return types.UID(fmt.Sprint("turn-", n)) }

// reserve reserves room that must be there.
func reserve(t *testing.T, l *Models, limit Limit, n int, tokens int64) *Reservation {
	t.Helper()
	r, refusal := l.Reserve(openAI, limit, turn(n), tokens)
	if refusal != nil {
		t.Fatalf("Turn %d has no room until %v", n, refusal.Until)
	}
	return r
}

// refuse reserves room that must not be there, and gets in line.
func refuse(t *testing.T, l *Models, limit Limit, n int, tokens int64) (*Ticket, *Refusal, *int) {
	t.Helper()
	_, refusal := l.Reserve(openAI, limit, turn(n), tokens)
	if refusal == nil {
		t.Fatalf("Turn %d has room", n)
	}
	woken := new(int)
	return l.Wait(turn(n), refusal, func() { *woken++ }), refusal, woken
}

func admitted(t *Ticket) bool {
	ok, _ := t.Check()
	return ok
}

// Requests wait for the minute after those before them, in order, and the expected times are those at which they pass.
func TestRequestsWaitInOrder(t *testing.T) {
	c := newClock()
	l, limit := NewModels(c.Now), Limit{Requests: 2}
	reserve(t, l, limit, 1, 0).Settle(10)
	c.advance(20 * time.Second)
	reserve(t, l, limit, 2, 0).Settle(10)
	first, expected, _ := refuse(t, l, limit, 3, 0)
	second, then, woken := refuse(t, l, limit, 4, 0)
	third, last, _ := refuse(t, l, limit, 5, 0)
	if d := expected.Until.Sub(c.now); d <= 40*time.Second || d > 41*time.Second {
		t.Errorf("The first is expected to wait %v", d)
	}
	if d := then.Until.Sub(c.now); d <= 60*time.Second || d > 61*time.Second {
		t.Errorf("The second is expected to wait %v", d)
	}
	if last.Until.Sub(expected.Until) != time.Minute {
		t.Errorf("The third is expected %v after the first", last.Until.Sub(expected.Until))
	}
	if _, until := second.Check(); !until.IsZero() {
		t.Errorf("The second comes back by itself at %v", until)
	}
	_, until := first.Check()
	c.now = until
	if !admitted(first) || admitted(second) || admitted(third) {
		t.Error("Not only the first has room")
	}
	if *woken != 1 {
		t.Errorf("The second was woken %d times to learn when it has room", *woken)
	}
	if _, refusal := l.Reserve(openAI, limit, turn(6), 0); refusal == nil {
		t.Error("A new Turn has overtaken those in line")
	}
	reserve(t, l, limit, 3, 0).Settle(1)
	c.now = then.Until
	if !admitted(second) || admitted(third) {
		t.Error("Not only the second has room")
	}
}

// A call holds the most that it may use while it runs, and then what it has used: those who wait are woken.
func TestTokensAreSettled(t *testing.T) {
	c := newClock()
	l, limit := NewModels(c.Now), Limit{Tokens: 1000}
	r := reserve(t, l, limit, 1, 900)
	ticket, refusal, woken := refuse(t, l, limit, 2, 500)
	if !refusal.Until.IsZero() {
		t.Errorf("It is known when a call ends that runs: %v", refusal.Until)
	}
	c.advance(10 * time.Minute)
	if admitted(ticket) {
		t.Fatal("A running call holds nothing after ten minutes")
	}
	r.Settle(500)
	if *woken != 1 || !admitted(ticket) {
		t.Fatalf("Woken %d times", *woken)
	}
	r.Settle(0)
	reserve(t, l, limit, 2, 500).Settle(-1)
	if _, refusal := l.Reserve(openAI, limit, turn(3), 1); refusal == nil || refusal.Until.Sub(c.now) > 61*time.Second {
		t.Errorf("A call of unknown use does not count in full: %+v", refusal)
	}
	c.advance(61 * time.Second)
	reserve(t, l, limit, 3, 1000)
}

// A Turn with room keeps it until it calls; one that leaves makes room for the others.
func TestRoomIsKeptForATurn(t *testing.T) {
	c := newClock()
	l, limit := NewModels(c.Now), Limit{Requests: 1}
	reserve(t, l, limit, 1, 0).Settle(1)
	first, refusal, _ := refuse(t, l, limit, 2, 0)
	second, _, woken := refuse(t, l, limit, 3, 0)
	c.now = refusal.Until
	if !admitted(first) || admitted(second) {
		t.Fatal("Not only the first has room")
	}
	*woken = 0
	first.Withdraw()
	first.Withdraw()
	if *woken != 1 || !admitted(second) {
		t.Errorf("The second was woken %d times", *woken)
	}
}

// A call that is promised room takes it, and leaves none for the next in line.
func TestTheRoomOfACallIsNotPromisedAgain(t *testing.T) {
	for name, limit := range map[string]Limit{"requests": {Requests: 1}, "tokens": {Tokens: 1000}} {
		t.Run(name, func(t *testing.T) {
			c := newClock()
			l := NewModels(c.Now)
			reserve(t, l, limit, 1, 1000).Settle(1000)
			first, refusal, _ := refuse(t, l, limit, 2, 1000)
			second, _, _ := refuse(t, l, limit, 3, 1000)
			c.now = refusal.Until
			if !admitted(first) {
				t.Fatal("The first has no room")
			}
			reserve(t, l, limit, 2, 1000)
			if admitted(second) {
				t.Error("The second has the room of the first")
			}
		})
	}
}

// A call that is larger than the limit runs once nothing else does.
func TestACallThatIsLargerThanTheLimitRunsAlone(t *testing.T) {
	c := newClock()
	l, limit := NewModels(c.Now), Limit{Tokens: 1000}
	r := reserve(t, l, limit, 1, 5000)
	_, _, _ = refuse(t, l, limit, 2, 1)
	r.Settle(20)
	reserve(t, l, limit, 2, 900)
}

// A limit that is lowered below what a Turn in line needs does not stop the line.
func TestALoweredLimitDoesNotStopTheLine(t *testing.T) {
	for name, ahead := range map[string]bool{"while it waits": false, "while room is kept for it": true} {
		t.Run(name, func(t *testing.T) {
			c := newClock()
			l, limit, lower := NewModels(c.Now), Limit{Tokens: 1000}, Limit{Tokens: 300}
			running := reserve(t, l, limit, 1, 1000)
			first, _, _ := refuse(t, l, limit, 2, 800)
			if ahead {
				running.Settle(0)
			}
			second, refusal, _ := refuse(t, l, lower, 3, 800)
			running.Settle(0)
			if !admitted(first) || admitted(second) {
				t.Fatal("Not only the first has room")
			}
			if ahead && refusal.Until.After(c.now.Add(2*time.Minute)) {
				t.Errorf("The second is expected at %v", refusal.Until)
			}
			reserve(t, l, lower, 2, 800).Settle(1)
			c.advance(2 * time.Minute)
			if !admitted(second) {
				t.Fatal("The second has no room")
			}
			reserve(t, l, lower, 3, 800)
		})
	}
}

// Only the first in line has a time at which to check again, and that time is to come: a Turn that was the first before
// does not come back at once again and again.
func TestATimeToCheckAgainIsToCome(t *testing.T) {
	c := newClock()
	l, limit := NewModels(c.Now), Limit{Tokens: 1000}
	running := reserve(t, l, limit, 1, 100)
	reserve(t, l, limit, 2, 500).Settle(500)
	c.advance(30 * time.Second)
	reserve(t, l, limit, 3, 400).Settle(400)
	first, _, _ := refuse(t, l, limit, 4, 500)
	second, _, woken := refuse(t, l, limit, 5, 400)
	c.advance(31 * time.Second)
	if !admitted(first) {
		t.Fatal("The first has no room")
	}
	_, until := second.Check()
	if until.Sub(c.now) <= 29*time.Second || until.Sub(c.now) > 30*time.Second {
		t.Fatalf("The second checks again after %v", until.Sub(c.now))
	}
	// The call of the first has grown, and the one that runs uses more than it has reserved.
	_, _, _ = refuse(t, l, limit, 4, 900)
	if _, behind := second.Check(); !behind.IsZero() {
		t.Errorf("Behind another, it checks again after %v", behind.Sub(c.now))
	}
	c.advance(19 * time.Second)
	running.Settle(900)
	for c.now.Before(until.Add(time.Minute)) {
		c.advance(time.Second)
		if ok, at := second.Check(); ok || !at.IsZero() && !at.After(c.now) {
			t.Fatalf("At %v it has room (%t), or checks again at %v", c.now, ok, at)
		}
	}
	*woken = 0
	first.Withdraw()
	if ok, at := second.Check(); *woken == 0 || !ok && at.IsZero() {
		t.Errorf("As the first again it was woken %d times, and checks at %v", *woken, at)
	}
}

// The Turns in line have room once a call shows that the limit was removed.
func TestARemovedLimitFreesTheLine(t *testing.T) {
	l, limit := NewModels(newClock().Now), Limit{Requests: 1, Tokens: 10}
	running := reserve(t, l, limit, 1, 10)
	first, _, _ := refuse(t, l, limit, 2, 10)
	second, _, woken := refuse(t, l, limit, 3, 10)
	reserve(t, l, Limit{}, 4, 10).Settle(10)
	if !admitted(first) || !admitted(second) || *woken != 1 {
		t.Errorf("They still wait; the second was woken %d times", *woken)
	}
	running.Settle(10)
	reserve(t, l, Limit{}, 2, 10)
	if _, refusal := l.Reserve(openAI, limit, turn(5), 10); refusal == nil {
		t.Error("What was used does not count once there is a limit again")
	}
}

// A call that was not sent does not count.
func TestACancelledReservationDoesNotCount(t *testing.T) {
	l, limit := NewModels(newClock().Now), Limit{Requests: 1, Tokens: 10}
	reserve(t, l, limit, 1, 10).Cancel()
	reserve(t, l, limit, 2, 10)
}

func TestTheSmallestLimitHolds(t *testing.T) {
	got := Limit{Requests: 5}.Smallest(Limit{Requests: 9, Tokens: 3}).Smallest(Limit{})
	if want := (Limit{Requests: 5, Tokens: 3}); got != want {
		t.Errorf("%+v", got)
	}
}

// Sources without use are forgotten, so that their number follows from the calls of a minute.
func TestIdleSourcesAreForgotten(t *testing.T) {
	c := newClock()
	l := NewModels(c.Now)
	for n := range 1000 {
		r, _ := l.Reserve(Source{Namespace: fmt.Sprint(n)}, Limit{Requests: 1}, turn(n), 0)
		r.Settle(1)
		c.advance(time.Second)
	}
	if n := len(l.sources); n > 130 {
		t.Errorf("%d sources", n)
	}
}
