package journaltest

import (
	"errors"
	"fmt"
	"math/bits"

	"github.com/capstan-dev/capstan/internal/runtime/journal"
)

const (
	// maxColdReads is the most reads without a cache if every checkpoint summarizes as much as its place allows, in
	// journals of this size.
	maxColdReads = 70
	// maxSearch is the most additional reads to find the newest checkpoint if the hint is far behind it.
	maxSearch = 10
)

func viewsAtEverySize(f *fixture) {
	sizes := map[int64]bool{
		1:    true,
		2:    true,
		63:   true,
		65:   true,
		127:  true,
		129:  true,
		191:  true,
		200:  true,
		511:  true,
		513:  true,
		1000: true,
		1023: true,
		1025: true,
	}
	log, openedAt := f.log(), int64(1)
	for n := 1; openedAt <= 1025; n++ {
		of := turn(fmt.Sprintf("turn-%d", (n-1)/3))
		r := respond(of, int32((n-1)%3+1), openedAt, fmt.Sprintf("answer %d", n))
		if n%5 == 0 {
			r = steered(r, fmt.Sprintf("steer-%d", n), fmt.Sprintf("steer-%d-again", n))
		}
		if n <= 3 || n%100 < 2 {
			r.Context = pinned(fmt.Sprintf("context-%d", n/100), n == 1 || n%100 == 0)
		}
		closed := f.append(log, r)
		if openedAt = closed.Ordinal + 1; sizes[closed.Ordinal] {
			f.views(log, closed.Ordinal)
			delete(sizes, closed.Ordinal)
		}
	}
	if len(sizes) > 0 {
		f.t.Fatalf("the sizes %v were not tried", sizes)
	}
	f.check()
}

// views compares the ways to obtain a view of a journal, and their costs.
func (f *fixture) views(warm *journal.Log, head int64) {
	f.t.Helper()
	want := f.naive(f.entries())
	if want.Head != head {
		f.t.Fatalf("the head is %d, not %d", want.Head, head)
	}
	f.same(fmt.Sprintf("the writer's view at %d", head), f.view(warm, 0), want)
	for _, hint := range []int64{0, head / 2, head} {
		counting := Wrap(f.store)
		log := journal.New(counting, journal.Options{})
		f.same(fmt.Sprintf("the cold view at %d with hint %d", head, hint), f.view(log, hint), want)
		limit := maxColdReads
		switch {
		case hint == head:
			// One entry each up to the last checkpoint, a checkpoint for each bit, and one that does not exist.
			limit = journal.CheckpointInterval + bits.OnesCount64(uint64(head/journal.CheckpointInterval))
		case hint > 0 || head > 1000:
			limit += maxSearch
		}
		if cost := counting.Reads(); cost > limit {
			f.t.Fatalf("the cold view at %d with hint %d took %d reads", head, hint, cost)
		}
		counting.Reset()
		f.same(fmt.Sprintf("the warm view at %d", head), f.view(log, hint), want)
		if cost := counting.Reads(); cost != 1 {
			f.t.Fatalf("the warm view at %d took %d reads", head, cost)
		}
	}
}

func headIsCheckpoint(f *fixture) {
	for _, at := range []int64{64, 128, 192} {
		f := f.another()
		f.fill(at - 1)
		f.die(1, respond(turn("dies"), 1, at, "never written"))
		if entries := f.check(); int64(len(entries)) != at {
			f.t.Fatalf("the head is %d, not %d", len(entries), at)
		}
		f.views(f.log(), at)
		if closed := f.append(f.log(), respond(turn("goes on"), 1, at, "x")); closed.Ordinal != at+1 || closed.Adopted {
			f.t.Fatalf("the next step was closed at ordinal %d, adopted %v", closed.Ordinal, closed.Adopted)
		}
		f.check()
	}
}

func wrongHint(f *fixture) {
	f.fill(200)
	want := f.naive(f.entries())
	for _, hint := range []int64{-5, 3, 64, 199, 255, 300, 5000} {
		f.same(fmt.Sprintf("the view with hint %d", hint), f.view(f.log(), hint), want)
	}
	counting := Wrap(f.store)
	old := journal.New(counting, journal.Options{})
	f.view(old, 0)
	near := f.log()
	f.view(near, 0)
	other, openedAt := f.log(), int64(201)
	for i := range 200 {
		if i == 3 {
			closed := f.append(near, respond(turn("lags behind"), 1, openedAt, "x"))
			if closed.Adopted || closed.Ordinal != openedAt {
				f.t.Fatalf("a Log that lags behind closed the step at %d, not %d", closed.Ordinal, openedAt)
			}
			openedAt++
		}
		openedAt = f.append(other, respond(turn(fmt.Sprintf("later-%d", i)), 1, openedAt, "x")).Ordinal + 1
	}
	want = f.naive(f.entries())
	counting.Reset()
	f.same("the view of a Log left behind", f.view(old, want.Head), want)
	if cost := counting.Reads(); cost > maxColdReads {
		f.t.Fatalf("a Log left behind by %d entries took %d reads", want.Head-200, cost)
	}
	if closed := f.append(old, respond(turn("last"), 1, want.Head+1, "x")); closed.Ordinal != want.Head+1 {
		f.t.Fatalf("the step was closed at %d", closed.Ordinal)
	}
	f.check()
}

// partsAcrossCheckpoint writes a step of several entries around a checkpoint, and a result that was settled before one
// and taken in behind it.
func partsAcrossCheckpoint(f *fixture) {
	contest := f.contest(61)
	r := contest.record
	ctx, of := contest.t.Context(), r.Turn
	ref, _, err := contest.log().
		Settle(ctx, contest.session, of, r.Step, r.OpenedAt, journal.SettledCall{ID: "1-0", Result: ptr("early")})
	if err != nil {
		contest.t.Fatal(err)
	}
	r.Parts = []int64{ref.Ordinal}
	closed := contest.append(contest.log(), r)
	if ref.Ordinal > 63 || closed.Ordinal < 66 {
		contest.t.Fatalf("the step goes from ordinal %d to %d: it should go across 64", ref.Ordinal, closed.Ordinal)
	}
	contest.same("the parts that were settled", ordinals(closed.Settled), r.Parts)
	contest.same("the events", ids(contest.reread(closed).Events), ids(r.Events))
	entries := contest.check()
	next := contest.append(contest.log(), respond(turn("next"), 1, closed.Ordinal+1, "x"))
	contest.views(contest.log(), next.Ordinal)
	if got := len(entries[closed.Ordinal-1].Parts); got != 3 {
		contest.t.Fatalf("the final entry names %d parts", got)
	}
}

func incompressible(f *fixture) {
	log, openedAt := f.log(), int64(1)
	write := func(last int64, size int) {
		for openedAt <= last {
			of := turn(fmt.Sprintf("turn-%d", openedAt))
			openedAt = f.append(log, respond(of, 1, openedAt, noise(uint64(openedAt), size))).Ordinal + 1
		}
	}
	write(129, 5_000) // one interval fits a checkpoint, two do not
	write(193, 9_000) // not even one does
	write(257, 10)    // one does, four do not
	from := map[int64]int64{}
	for _, e := range f.check() {
		if e.Checkpoint != nil {
			from[e.Ordinal] = e.Checkpoint.From
		}
	}
	f.same("where the checkpoints begin", from, map[int64]int64{64: 1, 128: 65, 192: 192, 256: 193})
	want := f.naive(f.entries())
	f.same("the warm view", f.view(log, 0), want)
	f.same("the cold view", f.view(f.log(), 0), want)
}

func outcomeByName(f *fixture) {
	log, openedAt := f.log(), int64(1)
	ends := map[string]int64{}
	for i := 0; openedAt < 600; i++ {
		of := turn(fmt.Sprintf("turn-%d", i))
		first := f.append(log, respond(of, 1, openedAt, "x"))
		last := f.append(log, cancel(of, 2, first.Ordinal+1))
		openedAt, ends[of.Name] = last.Ordinal+1, last.Ordinal
	}
	open := f.append(log, respond(turn("open"), 1, openedAt, "x"))
	ends["open"] = open.Ordinal
	again := turn("turn-1")
	again.UID = "another-uid"
	f.append(log, respond(again, 1, openedAt+1, "under a used name"))
	cold := f.log()
	for name, ordinal := range ends {
		for _, l := range []*journal.Log{log, cold} {
			outcome, err := l.Outcome(f.t.Context(), f.session, name, openedAt)
			if err != nil || outcome == nil {
				f.t.Fatalf("the outcome of %s is %v, %v", name, outcome, err)
			}
			if outcome.Ordinal != ordinal || outcome.Turn.Name != name {
				f.t.Fatalf("the outcome of %s is at ordinal %d, not %d", name, outcome.Ordinal, ordinal)
			}
		}
	}
	f.check()
}

func fullLog(f *fixture) {
	f.session.Limit = 2 * 1024 * 1024
	ctx, log, openedAt := f.t.Context(), f.log(), int64(1)
	var err error
	for err == nil {
		var closed *journal.Closed
		closed, err = log.Append(
			ctx,
			f.session,
			respond(turn(fmt.Sprintf("turn-%d", openedAt)), 1, openedAt, noise(uint64(openedAt), 20_000)),
		)
		if err == nil {
			openedAt = closed.Ordinal + 1
		}
	}
	if !errors.Is(err, journal.ErrFull) || openedAt < 70 {
		f.t.Fatalf("the log ends at ordinal %d: %v", openedAt-1, err)
	}
	bytes := f.view(log, 0).Bytes
	if bytes > f.session.Limit || bytes < f.session.Limit-600_000 {
		f.t.Fatalf("a full log takes %d of %d bytes", bytes, f.session.Limit)
	}
	large := respond(turn("large"), 1, openedAt, noise(1, 600_000), noise(2, 600_000))
	for _, l := range []*journal.Log{log, f.log()} {
		if _, err := l.Append(ctx, f.session, large); !errors.Is(err, journal.ErrFull) {
			f.t.Fatalf("a large record returned %v", err)
		}
		call := journal.SettledCall{ID: "1-0", Result: ptr(noise(1, 60_000))}
		if _, _, err := l.Settle(ctx, f.session, turn("large"), 1, openedAt, call); !errors.Is(err, journal.ErrFull) {
			f.t.Fatalf("settling returned %v", err)
		}
	}
	if head := f.view(f.log(), 0).Head; head != openedAt-1 {
		f.t.Fatalf("what did not fit left entries up to ordinal %d", head)
	}
	closing := cancel(turn("large"), 1, openedAt)
	if closed := f.append(f.log(), closing); closed.Adopted || closed.Ordinal != openedAt {
		f.t.Fatalf("a closing record was written at %d, adopted %v", closed.Ordinal, closed.Adopted)
	}
	f.check()
}

// checkpointCounts places a checkpoint of a few hundred KiB right before a record and in its middle.
func checkpointCounts(f *fixture) {
	for head, r := range map[int64]journal.Record{
		63: respond(turn("last"), 1, 64, "short"),
		62: respond(turn("last"), 1, 63, noise(1, 300_000), noise(2, 300_000)),
	} {
		f := f.another()
		log, openedAt := f.log(), int64(1)
		for openedAt <= head {
			openedAt = f.append(
				log,
				respond(turn(fmt.Sprintf("turn-%d", openedAt)), 1, openedAt, noise(uint64(openedAt), 5_000)),
			).Ordinal + 1
		}
		var record int64
		for _, e := range r.Events {
			record += int64(len(f.json(e)))
		}
		used := f.view(log, 0).Bytes
		f.session.Limit = used + record + 50_000
		for _, l := range []*journal.Log{log, f.log()} {
			if _, err := l.Append(f.t.Context(), f.session, r); !errors.Is(err, journal.ErrFull) {
				f.t.Fatalf("a record that would fit without its checkpoint, at ordinal %d, returned %v", head+1, err)
			}
		}
		if got := f.view(f.log(), 0).Head; got != head {
			f.t.Fatalf("what did not fit left entries up to ordinal %d", got)
		}
		f.session.Limit = used + record + 400_000
		f.append(log, r)
		if got := f.view(log, 0); got.Bytes > f.session.Limit || got.Head != 65 {
			f.t.Fatalf("the log takes %d of %d bytes up to ordinal %d", got.Bytes, f.session.Limit, got.Head)
		}
		f.check()
	}
}

func cacheBound(f *fixture) {
	const bound = 256 * 1024
	log := journal.New(f.store, journal.Options{CacheBytes: bound})
	sessions := make([]*fixture, 5)
	for i := range sessions {
		sessions[i] = f.another()
	}
	openedAt := make([]int64, len(sessions))
	for round := range 25 {
		for i, s := range sessions {
			size := 2_000
			if i == 0 {
				size = 20_000 // this one outgrows the bound on its own
			}
			r := respond(turn(fmt.Sprintf("turn-%d", round)), 1, max(openedAt[i], 1), noise(uint64(round), size))
			openedAt[i] = s.append(log, r).Ordinal + 1
			if used := log.CachedBytes(); used > bound || used < 0 {
				f.t.Fatalf("the cache takes %d of %d bytes", used, bound)
			}
		}
	}
	for _, s := range sessions {
		s.same("the view", s.view(log, 0), s.naive(s.entries()))
		s.check()
	}
	if used := log.CachedBytes(); used == 0 || used > bound {
		f.t.Fatalf("the cache takes %d of %d bytes", used, bound)
	}
	for _, s := range sessions {
		log.Forget(s.session)
	}
	if used := log.CachedBytes(); used != 0 {
		f.t.Fatalf("%d bytes are cached of Sessions that were forgotten", used)
	}
}
