package fairshare

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

// lobby plays the Sessions of a process.
type lobby struct {
	*Turns
	woken []string
}

func newLobby(active, begun int64) *lobby {
	return &lobby{Turns: NewTurns(TurnsOptions{Active: active, BegunPerNamespace: begun})}
}

// begin asks for the Session, whose namespace is the first letter of its name.
func (l *lobby) begin(name string) bool {
	return l.Begin(types.UID(name), name[:1], func() { l.woken = append(l.woken, name) })
}

func (l *lobby) resume(name string) bool {
	return l.Resume(types.UID(name), func() { l.woken = append(l.woken, name) })
}

// next returns the Turns that were woken since the last call.
func (l *lobby) next() string {
	woken := l.woken
	l.woken = nil
	return fmt.Sprint(woken)
}

func TestAWaitingTurnHoldsNoPlaceAndContinuesBeforeNewOnes(t *testing.T) {
	l := newLobby(1, 0)
	if !l.begin("a1") || l.begin("a2") {
		t.Fatal("want one place")
	}
	l.Wait("a1", 1)
	if got := l.next(); got != "[a2]" || !l.begin("a2") {
		t.Fatalf("woken %s when a1 waits, want a2", got)
	}
	if l.begin("a3") || l.resume("a1") {
		t.Fatal("a place came from nowhere")
	}
	l.End("a2")
	if got := l.next(); got != "[a1]" || !l.resume("a1") {
		t.Fatalf("woken %s, want a1, which has begun", got)
	}
	l.End("a1")
	if got := l.next(); got != "[a3]" {
		t.Fatalf("woken %s, want a3", got)
	}
}

func TestAPlaceThatWasPromisedAndIsNotUsedIsPassedOn(t *testing.T) {
	l := newLobby(1, 0)
	l.begin("a1")
	l.begin("b1")
	l.begin("c1")
	l.End("a1")
	// b1 was woken, and is deleted before it can begin.
	l.End("b1")
	if got := l.next(); got != "[b1 c1]" {
		t.Errorf("woken %s, want b1, then c1", got)
	}
	for range 3 {
		l.End("d1")
	}
	if l.Active() != 1 || l.Waiting() != 0 {
		t.Errorf("%d active, %d waiting", l.Active(), l.Waiting())
	}
}

func TestAskingAgainNeitherLosesNorGainsAPlaceInLine(t *testing.T) {
	l := newLobby(1, 0)
	l.begin("a0")
	for _, name := range []string{"a9", "a5", "a7", "a5", "a9"} {
		l.begin(name)
	}
	last := "a0"
	for _, want := range []string{"a9", "a5", "a7"} {
		l.End(types.UID(last))
		if got := l.next(); got != "["+want+"]" {
			t.Fatalf("woken %s, want %s", got, want)
		}
		last = want
	}
}

func TestANamespaceBeginsNoMoreTurnsThanItsCeiling(t *testing.T) {
	l := newLobby(100, 2)
	if !l.begin("a1") || !l.begin("a2") || l.begin("a3") {
		t.Fatal("want two Turns of namespace a")
	}
	if l.Limit("a1") != 0 || l.Limit("a3") != 2 || l.Limit("unknown") != 0 {
		t.Errorf("held back by a limit of %d, %d and %d", l.Limit("a1"), l.Limit("a3"), l.Limit("unknown"))
	}
	l.Wait("a1", 1)
	if l.begin("a3") {
		t.Error("a Turn that waits does not count")
	}
	if !l.begin("b1") {
		t.Error("another namespace has to wait for the ceiling of a")
	}
	l.End("a1")
	if got := l.next(); got != "[a3]" || !l.begin("a3") {
		t.Errorf("woken %s, want a3", got)
	}
}

func TestATurnThatWaitsCountsByItsWeight(t *testing.T) {
	l := newLobby(100, 4)
	if !l.begin("a1") || !l.begin("a2") {
		t.Fatal("want two Turns of namespace a")
	}
	l.Wait("a1", 3)
	if l.begin("a3") || !l.begin("b1") {
		t.Error("a Turn that counts as three leaves room beside another one in its namespace, or none in others")
	}
	if !l.resume("a1") || l.next() != "[a3]" || !l.begin("a3") {
		t.Error("a Turn that goes on counts as more than one")
	}
	l.Wait("a1", 9)
	l.Wait("a1", 9)
	if l.begin("a4") {
		t.Error("a namespace begins a Turn above its ceiling")
	}
	l.Wait("a1", 1)
	if l.next() != "[a4]" || !l.begin("a4") || l.begin("a5") {
		t.Error("a Turn whose status has become small counts as before")
	}
	l.Wait("a1", 9)
	l.End("a1")
	if l.next() != "[a5]" || !l.begin("a5") {
		t.Error("a Turn that has ended still counts")
	}
}

func TestWhatWaitsAtTheStartCountsByItsWeight(t *testing.T) {
	l := newLobby(100, 4)
	list := func(context.Context) ([]Begun, error) { return []Begun{{"a1", "a", true, 4}}, nil }
	if err := l.Count(t.Context(), list); err != nil || l.begin("a2") {
		t.Errorf("a Turn that counts as four leaves room for another one, %v", err)
	}
	if !l.resume("a1") || !l.begin("a2") {
		t.Error("a Turn that goes on counts as more than one")
	}
}

func TestWhatHasBegunIsCountedOnceAndOverTheLimit(t *testing.T) {
	l := newLobby(1, 0)
	broken := errors.New("no connection")
	fail := func(context.Context) ([]Begun, error) { return nil, broken }
	if err := l.Count(t.Context(), fail); !errors.Is(err, broken) {
		t.Fatal(err)
	}
	list := func(context.Context) ([]Begun, error) {
		return []Begun{{"a1", "a", false, 0}, {"a2", "a", false, 0}, {"a3", "a", true, 1}}, nil
	}
	if err := l.Count(t.Context(), list); err != nil || l.Active() != 2 {
		t.Fatalf("%v, %d active", err, l.Active())
	}
	if err := l.Count(t.Context(), fail); err != nil {
		t.Fatalf("counted again: %v", err)
	}
	if l.begin("b1") || !l.resume("a1") || !l.resume("a2") || l.resume("a3") {
		t.Fatal("want a1 and a2 to go on, and nothing else")
	}
	l.End("a1")
	if got := l.next(); got != "[]" {
		t.Fatalf("woken %s while the only place is taken", got)
	}
	l.End("a2")
	if got := l.next(); got != "[b1]" && got != "[a3]" {
		t.Fatalf("woken %s", got)
	}
}

func TestAdoptionKeepsWhatIsKnown(t *testing.T) {
	l := newLobby(2, 0)
	l.begin("a1")
	l.Wait("a1", 1)
	// The status that the Session's pass sees is older.
	l.Adopt(Begun{Session: "a1", Namespace: "a"})
	if l.Active() != 0 {
		t.Error("a Turn that waits takes a place")
	}
	l.begin("b1")
	l.begin("b2")
	l.begin("b3")
	// Another process has admitted the Turn that waits here.
	l.Adopt(Begun{Session: "b3", Namespace: "b"})
	if l.Active() != 3 || l.Waiting() != 0 || !l.resume("b3") {
		t.Errorf("%d active, %d waiting", l.Active(), l.Waiting())
	}
	if !l.resume("unknown") || l.Active() != 3 {
		t.Error("a Turn that nothing is known of has to wait")
	}
}

// Each Session tries again only when it is woken: a wake-up that is lost would leave it waiting for ever.
func TestEveryTurnThatWaitsForAPlaceGetsOne(t *testing.T) {
	const size, namespaces, sessions, rounds = 3, 5, 8, 20
	turns := NewTurns(TurnsOptions{Active: size, BegunPerNamespace: 4})
	var group sync.WaitGroup
	for n := range namespaces {
		for s := range sessions {
			uid, namespace := types.UID(fmt.Sprint(n, "/", s)), fmt.Sprint("ns", n)
			woken := make(chan struct{}, 1)
			wake := func() {
				select {
				case woken <- struct{}{}:
				default: // as in a work queue, a second wake-up before the first was handled is the same one
				}
			}
			group.Go(func() {
				for range rounds {
					for !turns.Begin(uid, namespace, wake) {
						<-woken
					}
					if active := turns.Active(); active > size {
						t.Errorf("%d Turns of %d are active", active, size)
					}
					if rand.IntN(2) == 0 {
						turns.Wait(uid, rand.Int64N(4))
						for !turns.Resume(uid, wake) {
							<-woken
						}
					}
					turns.End(uid)
				}
			})
		}
	}
	group.Wait()
	if turns.Active() != 0 || turns.Waiting() != 0 || len(turns.sessions) != 0 {
		t.Fatalf("%d active, %d waiting, %d known at the end", turns.Active(), turns.Waiting(), len(turns.sessions))
	}
}

// The Turn of a sub-agent must not wait for a ceiling that the Turns have reached which wait for it.
func TestAReservedTurnDoesNotWaitForTheCeiling(t *testing.T) {
	turns := NewTurns(TurnsOptions{Active: 4, BegunPerNamespace: 2})
	wake := func() {}
	if !turns.Begin("caller", "a", wake) || !turns.Reserve("agent", "a") {
		t.Fatal("there is no room below the ceiling")
	}
	if turns.Reserve("another", "a") || turns.Begin("user", "a", wake) {
		t.Error("there is room above the ceiling")
	}
	if !turns.Reserve("other", "b") {
		t.Error("another namespace has no room")
	}
	if !turns.Begin("agent", "a", wake) {
		t.Error("a reserved Turn waits")
	}
	if !turns.BeginReserved("restarted", "a", wake) {
		t.Error("a Turn whose reservation an earlier process had waits")
	}
	turns.End("agent")
	turns.End("restarted")
	if !turns.Begin("user", "a", wake) {
		t.Error("the places are not released")
	}
}
