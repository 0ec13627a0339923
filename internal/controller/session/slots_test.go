package session

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

func key(namespace, name string) types.NamespacedName {
	return types.NamespacedName{Namespace: namespace, Name: name}
}

// lobby plays the Sessions: it keeps who was woken and lets each try again when the test wants it.
type lobby struct {
	slots *Slots
	woken []types.NamespacedName
}

func newLobby(size int) *lobby {
	l := &lobby{}
	l.slots = NewSlots(size, func(k types.NamespacedName) { l.woken = append(l.woken, k) })
	return l
}

func (l *lobby) acquire(k types.NamespacedName) bool { return l.slots.Acquire(uidOf(k), k) }
func (l *lobby) release(k types.NamespacedName)      { l.slots.Release(uidOf(k), k) }
func uidOf(k types.NamespacedName) types.UID         { return types.UID(k.String()) }

// settle lets everybody who was woken try, until nobody is woken any more, and gives those who got a place in order.
func (l *lobby) settle() []types.NamespacedName {
	var got []types.NamespacedName
	for len(l.woken) > 0 {
		k := l.woken[0]
		l.woken = l.woken[1:]
		if _, held := l.slots.held[uidOf(k)]; !held && l.acquire(k) {
			got = append(got, k)
		}
	}
	return got
}

func TestSlotsNeverHoldMoreThanTheirSize(t *testing.T) {
	l := newLobby(2)
	for i := range 5 {
		if got, want := l.acquire(key("a", fmt.Sprint(i))), i < 2; got != want {
			t.Fatalf("acquire %d = %v, want %v", i, got, want)
		}
	}
	if l.slots.Held() != 2 || l.slots.Waiting() != 3 {
		t.Fatalf("%d held, %d waiting", l.slots.Held(), l.slots.Waiting())
	}
}

func TestASizeBelowOneIsOne(t *testing.T) {
	l := newLobby(0)
	if !l.acquire(key("a", "1")) || l.acquire(key("a", "2")) {
		t.Fatal("want exactly one place")
	}
}

func TestAFreePlaceGoesToThePoorestNamespace(t *testing.T) {
	l := newLobby(5)
	for _, k := range []types.NamespacedName{key("rich", "1"), key("rich", "2"), key("rich", "3"), key("rich", "0"), key("poor", "1")} {
		l.acquire(k)
	}
	for _, k := range []types.NamespacedName{key("rich", "4"), key("poor", "2"), key("new", "1")} {
		if l.acquire(k) {
			t.Fatalf("%s got a place that is not there", k)
		}
	}
	want := []types.NamespacedName{key("new", "1"), key("poor", "2"), key("rich", "4")}
	for i, leaving := range []types.NamespacedName{key("rich", "1"), key("rich", "2"), key("rich", "3")} {
		l.release(leaving)
		if got := l.settle(); len(got) != 1 || got[0] != want[i] {
			t.Fatalf("the place of %s went to %v, want %s", leaving, got, want[i])
		}
	}
}

func TestWithinANamespaceTheLongestWaitCounts(t *testing.T) {
	l := newLobby(1)
	l.acquire(key("a", "1"))
	for _, name := range []string{"9", "5", "7"} {
		l.acquire(key("a", name))
	}
	// Asking again does not lose or gain a place in line.
	l.acquire(key("a", "7"))
	l.acquire(key("a", "9"))
	last := key("a", "1")
	for _, name := range []string{"9", "5", "7"} {
		l.release(last)
		if got := l.settle(); len(got) != 1 || got[0] != key("a", name) {
			t.Fatalf("got %v, want %s", got, name)
		}
		last = key("a", name)
	}
}

func TestOneWhoComesLateStandsBackForThoseInLine(t *testing.T) {
	l := newLobby(1)
	l.acquire(key("a", "1"))
	l.acquire(key("b", "1"))
	l.release(key("a", "1"))
	// b was woken, and before it can try, others come: one of the same namespace, one that holds as little.
	for _, k := range []types.NamespacedName{key("b", "2"), key("a", "1"), key("c", "1")} {
		if l.acquire(k) {
			t.Fatalf("%s went before one who waits and holds no more", k)
		}
	}
	if got := l.settle(); len(got) != 1 || got[0] != key("b", "1") {
		t.Fatalf("got %v, want b/1", got)
	}
}

func TestAPoorerNamespaceGoesBeforeARicherOneInLine(t *testing.T) {
	l := newLobby(2)
	l.acquire(key("a", "1"))
	l.acquire(key("b", "1"))
	l.acquire(key("a", "2"))
	l.release(key("b", "1"))
	if !l.acquire(key("b", "2")) {
		t.Fatal("namespace b holds nothing and had to stand back for a, which holds a place")
	}
}

func TestHoldCountsWhatIsActiveAlready(t *testing.T) {
	l := newLobby(1)
	l.slots.Hold(uidOf(key("a", "1")), key("a", "1"))
	l.slots.Hold(uidOf(key("a", "2")), key("a", "2"))
	if l.slots.Held() != 2 {
		t.Fatalf("%d held, want both that run", l.slots.Held())
	}
	if l.acquire(key("b", "1")) {
		t.Fatal("a place was given out although more run than there are places")
	}
	l.release(key("a", "1"))
	if got := l.settle(); len(got) != 0 {
		t.Fatalf("%v got a place while the only one is taken", got)
	}
	l.release(key("a", "2"))
	if got := l.settle(); len(got) != 1 || got[0] != key("b", "1") {
		t.Fatalf("got %v, want b/1", got)
	}
}

func TestHoldTakesTheSessionOutOfTheLine(t *testing.T) {
	l := newLobby(1)
	l.acquire(key("a", "1"))
	l.acquire(key("b", "1"))
	l.slots.Hold(uidOf(key("b", "1")), key("b", "1"))
	if l.slots.Waiting() != 0 {
		t.Fatal("a Session that holds a place is still in line")
	}
}

func TestOneWhoLeavesTheLineWakesTheNext(t *testing.T) {
	l := newLobby(1)
	l.acquire(key("a", "1"))
	l.acquire(key("b", "1"))
	l.acquire(key("c", "1"))
	l.release(key("a", "1"))
	// b was woken, and is deleted before it can try.
	l.woken = nil
	l.release(key("b", "1"))
	if got := l.settle(); len(got) != 1 || got[0] != key("c", "1") {
		t.Fatalf("got %v, want c/1", got)
	}
}

func TestReleaseOfWhatIsNotHeldChangesNothing(t *testing.T) {
	l := newLobby(1)
	l.acquire(key("a", "1"))
	for range 3 {
		l.release(key("b", "1"))
	}
	if l.slots.Held() != 1 || l.acquire(key("b", "2")) {
		t.Fatal("a place came from nowhere")
	}
}

// Whatever the order, everybody who waits gets a place in the end, and never are more places taken than there are. Each Session tries again
// only when it is woken: a wake-up that is lost would leave it waiting for ever.
func TestEverybodyWhoWaitsGetsAPlace(t *testing.T) {
	const size, namespaces, sessions, rounds = 3, 5, 8, 20
	type member struct {
		key  types.NamespacedName
		wake chan struct{}
	}
	members := map[types.NamespacedName]*member{}
	for n := range namespaces {
		for s := range sessions {
			k := key(fmt.Sprintf("ns%d", n), fmt.Sprint(s))
			members[k] = &member{key: k, wake: make(chan struct{}, 1)}
		}
	}
	slots := NewSlots(size, func(k types.NamespacedName) {
		select {
		case members[k].wake <- struct{}{}:
		default: // as in a work queue, a second wake-up before the first was handled is the same one
		}
	})
	var group sync.WaitGroup
	for _, m := range members {
		group.Go(func() {
			for range rounds {
				for !slots.Acquire(uidOf(m.key), m.key) {
					<-m.wake
				}
				if held := slots.Held(); held > size {
					t.Errorf("%d places of %d are taken", held, size)
				}
				if rand.IntN(4) == 0 { // a pass over the Session while it holds its place
					slots.Acquire(uidOf(m.key), m.key)
				}
				slots.Release(uidOf(m.key), m.key)
			}
		})
	}
	group.Wait()
	if slots.Held() != 0 || slots.Waiting() != 0 {
		t.Fatalf("%d held and %d waiting at the end", slots.Held(), slots.Waiting())
	}
}

// Max-min fair: with everybody hungry, no namespace holds two places more than one that waits.
func TestNoNamespaceIsTwoPlacesAheadOfOneThatWaits(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	l := newLobby(6)
	var held []types.NamespacedName
	seats := map[string]int{}
	waiting := map[string]int{}
	got := func(k types.NamespacedName) {
		held = append(held, k)
		seats[k.Namespace]++
	}
	for i := range 2000 {
		if len(held) > 0 && random.IntN(3) == 0 {
			at := random.IntN(len(held))
			k := held[at]
			held = append(held[:at], held[at+1:]...)
			seats[k.Namespace]--
			l.release(k)
		} else {
			k := key(fmt.Sprintf("ns%d", random.IntN(4)), fmt.Sprint(i))
			if l.acquire(k) {
				got(k)
			} else {
				waiting[k.Namespace]++
			}
		}
		for _, k := range l.settle() {
			got(k)
			waiting[k.Namespace]--
			for other, n := range waiting {
				if n > 0 && seats[k.Namespace] > seats[other]+1 {
					t.Fatalf("step %d: %s got place number %d while %s waits with %d", i, k, seats[k.Namespace], other, seats[other])
				}
			}
		}
		if len(held) > 6 {
			t.Fatalf("step %d: %d places of 6 are taken", i, len(held))
		}
		if len(held) < 6 && l.slots.Waiting() > 0 {
			t.Fatalf("step %d: %d wait while only %d of 6 places are taken", i, l.slots.Waiting(), len(held))
		}
	}
}
