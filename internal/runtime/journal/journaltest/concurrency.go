package journaltest

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/capstan-dev/capstan/internal/runtime/journal"
)

const writers = 16

// logs are a number of Logs: all the same one, as the goroutines of one process, or separate ones, as processes.
func (f *fixture) logs(shared bool) []*journal.Log {
	logs := make([]*journal.Log, writers)
	for i := range logs {
		if i > 0 && shared {
			logs[i] = logs[0]
			continue
		}
		logs[i] = f.log()
	}
	return logs
}

func concurrentTurns(f *fixture) {
	const steps = 5
	for _, shared := range []bool{true, false} {
		f := f.another()
		logs := f.logs(shared)
		together(func(i int) {
			of, openedAt := turn(fmt.Sprintf("turn-%d", i)), int64(1)
			for step := int32(1); step <= steps; step++ {
				r := respond(of, step, openedAt, fmt.Sprintf("answer %d of %s", step, of.Name))
				closed, err := logs[i].Append(deadline(f.t), f.session, r)
				if err != nil || closed.Adopted {
					f.t.Errorf("step %d of %s: adopted %v, %v", step, of.Name, closed != nil && closed.Adopted, err)
					return
				}
				openedAt = closed.Transition.Plan.OpenedAtOrdinal
			}
		})
		finals := 0
		for _, e := range f.check() {
			if e.Final {
				finals++
			}
		}
		if finals != writers*steps {
			f.t.Fatalf("%d steps are closed, not %d", finals, writers*steps)
		}
		want := f.view(f.log(), 0)
		for i, log := range logs {
			f.same(fmt.Sprintf("the view of writer %d", i), f.view(log, 0), want)
		}
	}
}

func concurrentSteps(f *fixture) {
	const steps = 6
	for _, shared := range []bool{true, false} {
		f := f.another()
		logs := f.logs(shared)
		var mu sync.Mutex
		var own [steps + 1]int
		var ordinal [steps + 1]int64
		together(func(i int) {
			of, openedAt := turn("turn"), int64(1)
			for step := int32(1); step <= steps; step++ {
				closed, err := logs[i].Append(
					deadline(f.t),
					f.session,
					respond(of, step, openedAt, fmt.Sprintf("answer %d of writer %d", step, i)),
				)
				if err != nil {
					f.t.Errorf("step %d, writer %d: %v", step, i, err)
					return
				}
				mu.Lock()
				if !closed.Adopted {
					own[step]++
				}
				if before := ordinal[step]; before != 0 && before != closed.Ordinal {
					f.t.Errorf("step %d is closed at ordinal %d for one writer and at %d for another", step, before, closed.Ordinal)
				}
				ordinal[step] = closed.Ordinal
				mu.Unlock()
				openedAt = closed.Transition.Plan.OpenedAtOrdinal
			}
		})
		for step := 1; step <= steps; step++ {
			if own[step] != 1 {
				f.t.Fatalf("%d writers closed step %d", own[step], step)
			}
		}
		f.check()
	}
}

func together(run func(i int)) {
	var group sync.WaitGroup
	for i := range writers {
		group.Go(func() { run(i) })
	}
	group.Wait()
}

// contest is a Session in which one step is about to be closed by a record of several entries.
type contest struct {
	*fixture
	record journal.Record
}

// contests are the circumstances in which a step is contested: by a writer without any state of a short journal, and by
// one that knows the journal and has a checkpoint to write between its entries.
var contests = []struct {
	name   string
	head   int64
	warm   bool
	writes int
}{
	{"cold", 2, false, 3},
	{"warm, at a checkpoint", 61, true, 4},
}

func (f *fixture) contest(head int64) contest {
	f.t.Helper()
	c := contest{fixture: f.another()}
	c.fill(head)
	c.record = respond(turn("contested"), 1, head+1, noise(1, 300_000), noise(2, 300_000), noise(3, 300_000), "the end")
	return c
}

// everyCall runs a test for each call that is needed to close the contested step, for a fault before the call is
// executed and for one after it. The Log of the test closes the step through the given store.
func (f *fixture) everyCall(run func(c contest, log *journal.Log, store *Store, index int, executed bool)) {
	for _, kind := range contests {
		begin := func(t *testing.T) (contest, *journal.Log, *Store) {
			c := (&fixture{t: t, store: f.store}).contest(kind.head)
			store := Wrap(f.store)
			log := journal.New(store, journal.Options{})
			if kind.warm {
				c.view(log, 0)
			}
			store.Reset()
			return c, log, store
		}
		c, log, store := begin(f.t)
		c.append(log, c.record)
		if got := store.Creates(); got != kind.writes {
			f.t.Fatalf("the contested step took %d creates, not %d", got, kind.writes)
		}
		for index := range store.Calls() {
			for _, executed := range []bool{false, true} {
				f.t.Run(fmt.Sprintf("%s, call %d, executed %v", kind.name, index, executed), func(t *testing.T) {
					c, log, store := begin(t)
					run(c, log, store, index, executed)
				})
			}
		}
	}
}

// heldWriter holds a writer before and after each of its calls in turn, lets another one end the turn and begin the
// next, and then continues the first.
func heldWriter(f *fixture) {
	f.everyCall(func(c contest, log *journal.Log, store *Store, index int, executed bool) {
		c.hold(log, store, index, executed)
	})
}

func (f contest) hold(log *journal.Log, slow *Store, index int, after bool) {
	r := f.record
	held, release := make(chan struct{}), make(chan struct{})
	wait := func(ctx context.Context) error {
		close(held)
		select {
		case <-release:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	slow.Intercept(func(c Call) Fault {
		switch {
		case c.Index != index:
			return Fault{}
		case after:
			return Fault{After: wait}
		default:
			return Fault{Before: wait}
		}
	})
	type outcome struct {
		closed *journal.Closed
		err    error
	}
	done := make(chan outcome, 1)
	ctx := deadline(f.t)
	go func() {
		closed, err := log.Append(ctx, f.session, r)
		done <- outcome{closed, err}
	}()
	select {
	case <-held:
	case o := <-done:
		f.t.Fatalf("call %d was not reached: %v", index, o.err)
	}
	other := f.log()
	ended := f.append(other, cancel(r.Turn, r.Step, r.OpenedAt))
	next := f.append(other, respond(turn("next"), 1, ended.Ordinal+1, "the next turn"))
	close(release)
	o := <-done
	if o.err != nil {
		f.t.Fatal(o.err)
	}
	if o.closed.Ordinal != ended.Ordinal || o.closed.Adopted == ended.Adopted {
		f.t.Fatalf("one writer has the step closed at %d (adopted %v), the other at %d (adopted %v)",
			o.closed.Ordinal, o.closed.Adopted, ended.Ordinal, ended.Adopted)
	}
	if next.Adopted {
		f.t.Fatal("the next turn's step was adopted")
	}
	o.closed.Adopted = ended.Adopted
	f.same("the step as the held writer has it", o.closed, ended)
	f.check()
}
