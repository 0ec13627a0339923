package fairshare

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// ask makes a request and returns its Share.
func ask(t *testing.T, p *Pool, namespace string, amount Amount) *Share {
	t.Helper()
	s, err := p.Request(Request{Namespace: namespace, Amount: amount})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// crowd makes n requests for a place each.
func crowd(t *testing.T, p *Pool, namespace string, n int) []*Share {
	t.Helper()
	var shares []*Share
	for range n {
		shares = append(shares, ask(t, p, namespace, Amount{Places: 1}))
	}
	return shares
}

// held counts the Shares that are held.
func held(shares []*Share) int {
	n := 0
	for _, s := range shares {
		if s.Held() {
			n++
		}
	}
	return n
}

func TestANamespaceAloneHoldsAllButAnEighth(t *testing.T) {
	for size, want := range map[int64]int{1: 1, 2: 2, 7: 7, 8: 7, 15: 14, 16: 14, 64: 56} {
		p := NewPool(Options{Total: Amount{Places: size}})
		a := crowd(t, p, "a", int(size)+1)
		if got := held(a); got != want {
			t.Errorf("a namespace alone holds %d of %d places, want %d", got, size, want)
		}
		b := crowd(t, p, "b", int(size))
		if got := held(b); got != int(size)-want {
			t.Errorf("of %d places another namespace finds %d, want %d", size, got, int(size)-want)
		}
	}
}

func TestWhatComesFreeGoesToTheNamespaceThatHoldsTheLeast(t *testing.T) {
	p := NewPool(Options{Total: Amount{Places: 6}})
	rich := crowd(t, p, "rich", 8)
	poor, fresh := crowd(t, p, "poor", 3), crowd(t, p, "fresh", 2)
	if held(rich) != 6 || held(poor) != 0 {
		t.Fatalf("rich holds %d, poor %d", held(rich), held(poor))
	}
	for _, want := range []struct{ poor, fresh int }{{1, 0}, {1, 1}, {2, 1}, {2, 2}} {
		rich[0].Release()
		rich = rich[1:]
		if held(poor) != want.poor || held(fresh) != want.fresh {
			t.Fatalf("poor holds %d and fresh %d, want %+v", held(poor), held(fresh), want)
		}
	}
	// All hold two now: the place of one of them goes to the namespace that then holds the least.
	poor[0].Release()
	if held(poor) != 2 {
		t.Errorf("poor holds %d after a place of its own came free, want 2 again", held(poor))
	}
}

func TestWithinANamespaceTurnsThatHaveBegunComeFirst(t *testing.T) {
	p := NewPool(Options{Total: Amount{Places: 1}})
	last := ask(t, p, "a", Amount{Places: 1})
	var order []string
	shares := map[string]*Share{}
	for _, r := range []struct {
		name   string
		goesOn bool
	}{{"begins 1", false}, {"begins 2", false}, {"goes on 1", true}, {"goes on 2", true}} {
		s, err := p.Request(Request{
			Namespace: "a", Amount: Amount{Places: 1}, Continues: r.goesOn, Ready: func() { order = append(order, r.name) },
		})
		if err != nil || s.Held() {
			t.Fatalf("held %v, %v", s.Held(), err)
		}
		shares[r.name] = s
	}
	for range 4 {
		last.Release()
		last = shares[order[len(order)-1]]
	}
	if want := []string{"goes on 1", "goes on 2", "begins 1", "begins 2"}; !slices.Equal(order, want) {
		t.Errorf("served %q, want %q", order, want)
	}
}

func TestARequestForMoreThanACeilingIsRefused(t *testing.T) {
	p := NewPool(Options{Total: Amount{Places: 8, Bytes: 800}})
	for _, amount := range []Amount{{Places: 8}, {Bytes: 701}} {
		var tooLarge *TooLargeError
		_, err := p.Request(Request{Namespace: "a", Amount: amount})
		if !errors.As(err, &tooLarge) || tooLarge.Requested != amount {
			t.Errorf("%+v: %v", amount, err)
		}
	}
	if p.Waiting() != 0 {
		t.Error("a refused request is in line")
	}
	s := ask(t, p, "a", Amount{Places: 7, Bytes: 700})
	if err := s.Regain(t.Context(), Amount{Bytes: 701}); err == nil || s.Held() || p.Held() != (Amount{}) {
		t.Errorf("%v, and %+v are held", err, p.Held())
	}
}

func TestARequestHoldsAllThatItNeedsOrNothing(t *testing.T) {
	p := NewPool(Options{Total: Amount{Places: 2, Bytes: 16}})
	a := ask(t, p, "a", Amount{Places: 1, Bytes: 14})
	b := ask(t, p, "b", Amount{Places: 1, Bytes: 4})
	c := ask(t, p, "c", Amount{Places: 1, Bytes: 2})
	if !a.Held() || b.Held() || !c.Held() {
		t.Errorf("held %v %v %v, want a and c: b would exceed the bytes", a.Held(), b.Held(), c.Held())
	}
	if got := p.Held(); got != (Amount{2, 16}) {
		t.Errorf("%+v are held", got)
	}
	a.Release()
	if !b.Held() {
		t.Error("b is not served")
	}
}

// Small requests of other namespaces never end. A large one must be served nevertheless, and they must go on meanwhile.
func TestALargeRequestIsServedAlthoughSmallOnesNeverEnd(t *testing.T) {
	p := NewPool(Options{Total: Amount{Bytes: 64}})
	var small []*Share
	add := func() {
		for _, namespace := range []string{"a", "b"} {
			for range 40 {
				small = append(small, ask(t, p, namespace, Amount{Bytes: 1}))
			}
		}
	}
	add()
	large := ask(t, p, "large", Amount{Bytes: 56})
	served, since := 0, 0
	for !large.Held() {
		at := slices.IndexFunc(small, (*Share).Held)
		if at < 0 {
			t.Fatal("no small request is served while room is gathered for the large one")
		}
		small[at].Release()
		small = slices.Delete(small, at, at+1)
		if len(small) < 80 {
			add()
		}
		served++
		if served > 400 {
			t.Fatalf("the large request waits while %d small ones were served", served)
		}
		if large.passed >= 1 {
			since++
		}
	}
	if since == 0 {
		t.Error("the large request was served before others: it asks for more than its share")
	}
	// Those that come now are served within what it leaves over.
	for _, s := range small {
		s.Release()
	}
	if c := crowd(t, p, "c", 1); held(c) != 1 {
		t.Error("nothing is left beside the large request")
	}
}

func TestAWithdrawnRequestIsNotServedAndBlocksNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPool(Options{Total: Amount{Places: 1}})
		a := ask(t, p, "a", Amount{Places: 1})
		ctx, cancel := context.WithCancel(t.Context())
		var err error
		go func() { err = ask(t, p, "b", Amount{Places: 1}).Wait(ctx) }()
		synctest.Wait()
		c := ask(t, p, "c", Amount{Places: 1})
		cancel()
		synctest.Wait()
		if !errors.Is(err, context.Canceled) || p.Waiting() != 1 {
			t.Errorf("%v, and %d wait", err, p.Waiting())
		}
		a.Release()
		a.Release()
		if !c.Held() || p.Held() != (Amount{Places: 1}) {
			t.Errorf("c is served: %v; %+v are held", c.Held(), p.Held())
		}
	})
}

func TestAShareThatIsGivenBackMeanwhileIsRegained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPool(Options{Total: Amount{Places: 1, Bytes: 8}})
		a := ask(t, p, "a", Amount{Places: 1, Bytes: 4})
		waiting := ask(t, p, "a", Amount{Places: 1, Bytes: 1})
		a.Shrink(Amount{Bytes: 2})
		if !waiting.Held() || a.Amount() != (Amount{Bytes: 2}) {
			t.Fatalf("the place is free: %v, kept %+v", waiting.Held(), a.Amount())
		}
		var err error
		done := false
		go func() { err = a.Regain(t.Context(), Amount{Places: 1, Bytes: 6}); done = true }()
		synctest.Wait()
		if done || p.Held() != (Amount{1, 1}) {
			t.Fatalf("regained %v while there is no place; %+v are held", done, p.Held())
		}
		waiting.Release()
		synctest.Wait()
		if err != nil || !done || a.Amount() != (Amount{1, 6}) {
			t.Errorf("regained %v, %v: %+v", done, err, a.Amount())
		}
	})
}

func TestNoShareBoundsNothing(t *testing.T) {
	s := FromContext(t.Context())
	s.Release()
	s.Shrink(Amount{})
	if !s.Held() || s.Wait(t.Context()) != nil || s.Regain(t.Context(), Amount{Places: 1}) != nil {
		t.Error("work that no Pool bounds has to wait")
	}
	p := NewPool(Options{Total: Amount{Places: 1}})
	if a := ask(t, p, "a", Amount{Places: 1}); FromContext(NewContext(t.Context(), a)) != a {
		t.Error("the context does not carry the Share")
	}
}

func TestWhatRunsAlreadyIsHeldWhetherThereIsRoomOrNot(t *testing.T) {
	p := NewPool(Options{Total: Amount{Places: 1}})
	a, b := p.Hold("a", Amount{Places: 1}), p.Hold("a", Amount{Places: 1})
	c := ask(t, p, "c", Amount{Places: 1})
	a.Release()
	if c.Held() {
		t.Error("a place was granted although more is held than exists")
	}
	b.Release()
	if !c.Held() {
		t.Error("the place was not given on")
	}
}

func TestWhatIsHeldOnlyWhereThereIsRoom(t *testing.T) {
	p := NewPool(Options{Total: Amount{Bytes: 16}, PerNamespace: Amount{Bytes: 12}})
	if p.TryHold("a", Amount{Bytes: 13}) != nil {
		t.Error("a namespace holds more than its ceiling")
	}
	a := p.TryHold("a", Amount{Bytes: 10})
	if a == nil || p.Held().Bytes != 10 {
		t.Fatalf("%d bytes are held", p.Held().Bytes)
	}
	if p.TryHold("a", Amount{Bytes: 3}) != nil || p.TryHold("b", Amount{Bytes: 7}) != nil {
		t.Error("more is held than there is")
	}
	waits := ask(t, p, "b", Amount{Bytes: 8})
	if p.TryHold("c", Amount{Bytes: 1}) != nil {
		t.Error("room was taken that a request waits for")
	}
	a.Release()
	if !waits.Held() || p.TryHold("c", Amount{Bytes: 8}) == nil || p.Held().Bytes != 16 {
		t.Errorf("%d bytes are held", p.Held().Bytes)
	}
}

// Every history of requests, releases and withdrawals keeps the promises of the package.
func FuzzAPoolIsFair(f *testing.F) {
	f.Add([]byte{8, 0, 1, 2, 3, 4, 5, 200, 201, 7, 8, 150})
	f.Add([]byte{1, 0, 0, 1, 1, 2, 2, 255, 254, 253, 252, 0, 1, 2, 200, 200})
	random := rand.New(rand.NewPCG(1, 2))
	for range 24 {
		history := make([]byte, 160)
		for i := range history {
			history[i] = byte(random.IntN(256))
		}
		f.Add(history)
	}
	f.Fuzz(func(t *testing.T, history []byte) {
		if len(history) < 2 {
			return
		}
		history = history[:min(len(history), 160)]
		bytesToo := history[0]%2 == 1
		o := Options{Total: Amount{Places: int64(history[1]%20) + 1}}
		if bytesToo {
			o.Total.Bytes = 64
		}
		w := &world{t: t, pool: NewPool(o), weights: bytesToo}
		for _, b := range history[2:] {
			w.act(b)
			w.check()
		}
		w.drain()
	})
}

// world plays the namespaces.
type world struct {
	t       *testing.T
	pool    *Pool
	weights bool
	shares  []*Share
	ready   map[*Share]int
}

// act makes a request, or gives one back or withdraws it.
func (w *world) act(b byte) {
	if b >= 144 && len(w.shares) > 0 {
		w.end(int(b-144) % len(w.shares))
		return
	}
	if w.ready == nil {
		w.ready = map[*Share]int{}
	}
	amount := Amount{Places: 1}
	if w.weights {
		amount.Bytes = min(1<<(b%7), w.pool.ceiling.Bytes)
	}
	var s *Share
	s, err := w.pool.Request(Request{
		Namespace: fmt.Sprint("ns", b%4), Amount: amount, Continues: b%3 == 0, Ready: func() { w.ready[s]++ },
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.shares = append(w.shares, s)
}

func (w *world) end(at int) {
	s := w.shares[at]
	w.shares = append(w.shares[:at:at], w.shares[at+1:]...)
	was := s.Held()
	s.Release()
	if s.Held() || (!was && w.ready[s] > 0) {
		w.t.Fatal("a request that was withdrawn is served")
	}
}

// check compares the Pool with its Shares.
func (w *world) check() {
	p := w.pool
	var all Amount
	by := map[string]Amount{}
	first := map[string]*Share{}
	waiting := 0
	for _, s := range w.shares {
		namespace := s.request.Namespace
		if s.Held() {
			all, by[namespace] = all.plus(s.request.Amount), by[namespace].plus(s.request.Amount)
			continue
		}
		waiting++
		if f := first[namespace]; f == nil || (s.request.Continues && !f.request.Continues) {
			first[namespace] = s
		}
	}
	if all != p.Held() || waiting != p.Waiting() || !all.within(p.total) {
		w.t.Fatalf("%+v are held and %d wait; Pool of %+v: %+v and %d", all, waiting, p.total, p.Held(), p.Waiting())
	}
	for namespace, amount := range by {
		if !amount.within(p.ceiling) {
			w.t.Fatalf("%s holds %+v, above its ceiling %+v", namespace, amount, p.ceiling)
		}
	}
	gathers := slices.ContainsFunc(w.shares, func(s *Share) bool { return !s.Held() && s.passed >= 1 })
	for namespace, s := range first {
		room := by[namespace].plus(s.request.Amount).within(p.ceiling) && all.plus(s.request.Amount).within(p.total)
		if room && !gathers {
			w.t.Fatalf("%s waits for %+v although there is room", namespace, s.request.Amount)
		}
		for _, other := range w.shares {
			// Within a namespace and a class, the order of arrival holds.
			if other.Held() && other.request.Namespace == namespace && other.request.Continues == s.request.Continues &&
				other.number > s.number {
				w.t.Fatalf("request %d of %s is served before %d", other.number, namespace, s.number)
			}
		}
	}
	if len(p.tenants) > 4 || (len(w.shares) == 0 && len(p.tenants) > 0) {
		w.t.Fatalf("%d namespaces are remembered", len(p.tenants))
	}
}

// drain ends what is held, the oldest first, until all requests were served.
func (w *world) drain() {
	for len(w.shares) > 0 {
		at := slices.IndexFunc(w.shares, (*Share).Held)
		if at < 0 {
			w.t.Fatalf("%d requests wait for nothing", len(w.shares))
		}
		w.end(at)
		w.check()
	}
}

// Whatever comes and goes, no namespace gets a place while another one waits with two fewer.
func TestNoNamespaceGetsAPlaceBeforeOneThatHoldsLess(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	p := NewPool(Options{Total: Amount{Places: 6}})
	var shares []*Share
	for step := range 5000 {
		before := map[*Share]bool{}
		for _, s := range shares {
			before[s] = s.Held()
		}
		if len(shares) > 0 && random.IntN(2) == 0 {
			at := random.IntN(len(shares))
			shares[at].Release()
			shares = slices.Delete(shares, at, at+1)
		} else {
			shares = append(shares, ask(t, p, fmt.Sprint("ns", random.IntN(5)), Amount{Places: 1}))
		}
		seats, waits := map[string]int{}, map[string]bool{}
		for _, s := range shares {
			if s.Held() {
				seats[s.request.Namespace]++
			} else {
				waits[s.request.Namespace] = true
			}
		}
		for _, s := range shares {
			if !s.Held() || before[s] {
				continue
			}
			for other := range waits {
				if seats[s.request.Namespace] > seats[other]+1 {
					t.Fatalf("step %d: %s got place %d while %s waits with %d", step, s.request.Namespace,
						seats[s.request.Namespace], other, seats[other])
				}
			}
		}
	}
}

func TestHowLongARequestWaitedIsObservedOutsideOfTheLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		waits := map[string]time.Duration{}
		var p *Pool
		p = NewPool(Options{Total: Amount{Places: 1}, Waited: func(namespace string, waited time.Duration) {
			_ = p.Held() // This would not return under the lock.
			waits[namespace] += waited
		}})
		first, err := p.Request(Request{Namespace: "a", Amount: Amount{Places: 1}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Request(Request{Namespace: "b", Amount: Amount{Places: 1}}); err != nil {
			t.Fatal(err)
		}
		<-time.After(3 * time.Second)
		first.Release()
		if waits["a"] != 0 || waits["b"] != 3*time.Second {
			t.Errorf("a waited %v, want 0s; b waited %v, want 3s", waits["a"], waits["b"])
		}
	})
}
