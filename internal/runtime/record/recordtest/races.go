package recordtest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/capstan-dev/capstan/internal/runtime/record"
)

const writers = 8

// stores are a number of Stores: all the same one, as the goroutines of one process, or separate ones, as processes.
func (f *fixture) stores(shared bool) []record.Store {
	stores := make([]record.Store, writers)
	for i := range stores {
		if i > 0 && shared {
			stores[i] = stores[0]
			continue
		}
		stores[i] = f.store()
	}
	return stores
}

func together(run func(i int)) {
	var group sync.WaitGroup
	for i := range writers {
		group.Go(func() { run(i) })
	}
	group.Wait()
}

// expectedRevisions counts in one key: each increment depends on the revision that it has read.
func expectedRevisions(f *fixture) {
	for _, shared := range []bool{true, false} {
		f := f.another(f.t)
		stores, conflicts := f.stores(shared), atomic.Int64{}
		const each = 3
		together(func(i int) {
			for n := range each {
				for done := false; !done; {
					item, value, err := stores[i].Get(deadline(f.t), f.scope, "/counter")
					if err != nil && !errors.Is(err, record.ErrNotFound) {
						f.t.Errorf("reading the counter: %v", err)
						return
					}
					count, _ := strconv.Atoi(string(value))
					_, err = stores[i].Apply(deadline(f.t), f.scope, record.Operation{
						Cause:  record.Cause{Step: 1, Key: fmt.Sprintf("%d/%d", i, n)},
						Expect: map[string]int64{"/counter": item.Revision},
						Put:    []record.Put{text("/counter", strconv.Itoa(count+1))},
					})
					var conflict *record.ConflictError
					switch {
					case errors.As(err, &conflict):
						conflicts.Add(1)
					case err != nil:
						f.t.Errorf("counting: %v", err)
						return
					default:
						done = true
					}
				}
			}
		})
		f.expect(text("/counter", strconv.Itoa(writers*each)))
		if got := f.list().Revision - f.base; got != writers*each {
			f.t.Fatalf("the revision is %d after %d operations and %d conflicts", got, writers*each, conflicts.Load())
		}
	}
}

func concurrentOperations(f *fixture) {
	for _, shared := range []bool{true, false} {
		f := f.another(f.t)
		stores, all := f.stores(shared), make([]record.Put, 2*writers)
		// Others get their chance between the read of an index and its write.
		f.objects.Intercept(func(Call) Fault {
			return Fault{After: func(context.Context) error {
				for range 100 {
					runtime.Gosched()
				}
				return nil
			}}
		})
		together(func(i int) {
			for n := range 2 {
				put := noise(fmt.Sprintf("/%d/%d", i, n), uint64(i), 3_000*(n+1))
				all[2*i+n] = put
				operation := record.Operation{Cause: record.Cause{Step: 1, Key: put.Key}, Put: []record.Put{put}}
				if _, err := stores[i].Apply(deadline(f.t), f.scope, operation); err != nil {
					f.t.Errorf("writing %s: %v", put.Key, err)
				}
			}
		})
		f.expect(all...)
		if shared {
			if n := f.objects.Calls(WriteIndex); n != 2*writers {
				f.t.Errorf("%d operations of one process take %d writes of the index", 2*writers, n)
			}
		}
	}
}

func repeated(f *fixture) {
	o := record.Operation{
		Cause: f.cause(7), Put: []record.Put{noise("/a", 1, 10_000), text("/b", "b")}, Result: []byte("created"),
	}
	first := f.apply(o)
	f.put(7, text("/b", "later"))
	f.objects.Intercept(nil)
	again := o
	again.Put, again.Result = []record.Put{text("/a", "other")}, []byte("replaced")
	if second := f.apply(again); second.Revision != first.Revision || string(second.Result) != "created" {
		f.t.Fatalf("the outcome is %+v, and was %+v", second, first)
	}
	if calls := f.objects.Calls(); calls != 1 {
		f.t.Fatalf("the repetition takes %d calls", calls)
	}
	f.expect(noise("/a", 1, 10_000), text("/b", "later"))
	if outcome, known := f.list().Outcome(o.Cause); !known || string(outcome.Result) != "created" {
		f.t.Fatalf("the index has the outcome %+v, %v", outcome, known)
	}
	// The same key in another step is another cause.
	again.Cause.Step, again.Put = 8, []record.Put{text("/b", "last")}
	if third := f.apply(again); third.Revision != 3 || string(third.Result) != "replaced" {
		f.t.Fatalf("the outcome in another step is %+v", third)
	}
	once := record.Operation{Cause: record.Cause{Key: "seed"}, Put: []record.Put{text("/c", "c")}}
	f.apply(once)
	f.apply(record.Operation{Cause: f.cause(90), Delete: []string{"/c"}})
	f.apply(once)
	f.expect(noise("/a", 1, 10_000), text("/b", "last"))
}

// overtaken repeats an operation when a later step has changed the store: nothing shows any more that it was carried
// out before.
func overtaken(f *fixture) {
	old := record.Operation{Cause: f.cause(3), Put: []record.Put{text("/a", "old")}}
	f.apply(old)
	f.put(4, text("/a", "new"))
	if _, err := f.store().Apply(f.t.Context(), f.scope, old); !errors.Is(err, record.ErrStale) {
		f.t.Fatalf("an operation of an earlier step: %v", err)
	}
	f.expect(text("/a", "new"))
}

func repeatedConcurrently(f *fixture) {
	stores, o := f.stores(false), record.Operation{Cause: f.cause(1), Put: []record.Put{noise("/a", 1, 10_000)}}
	together(func(i int) {
		outcome, err := stores[i].Apply(deadline(f.t), f.scope, o)
		if err != nil || outcome.Revision != f.base+1 {
			f.t.Errorf("repetition %d: %+v, %v", i, outcome, err)
		}
	})
	f.expect(noise("/a", 1, 10_000))
	if got := f.list().Revision - f.base; got != 1 {
		f.t.Fatalf("the revision is %d", got)
	}
}

// contested is an operation that writes a blob and a small value, and deletes a blob, on a store that is ready for it.
func (f *fixture) contested() record.Operation {
	f.t.Helper()
	f.put(1, noise("/old", 1, 20_000), text("/small", "before"))
	f.objects.Intercept(nil)
	return record.Operation{
		Cause: f.cause(2), Put: []record.Put{noise("/new", 2, 20_000), text("/small", "after")}, Delete: []string{"/old"},
		Result: []byte("done"),
	}
}

// everyCall runs a test for each call of the contested operation, for a fault before the call is executed and for one
// after it.
func (f *fixture) everyCall(run func(f *fixture, o record.Operation, index int, executed bool)) {
	model := f.another(f.t)
	model.apply(model.contested())
	calls := model.objects.Calls()
	if f.filled == 0 && calls != 4 || f.filled > 0 && calls < 8 {
		f.t.Fatalf("the operation takes %d calls", calls)
	}
	for index := range calls {
		for _, executed := range []bool{false, true} {
			f.t.Run(fmt.Sprintf("call %d, executed %v", index, executed), func(t *testing.T) {
				f := f.another(t)
				run(f, f.contested(), index, executed)
			})
		}
	}
}

func faultOf(index int, executed bool, fault func(context.Context) error, from bool) func(Call) Fault {
	return func(c Call) Fault {
		switch {
		case c.Index != index && (!from || c.Index < index):
			return Fault{}
		case c.Index == index && executed:
			return Fault{After: fault}
		default:
			return Fault{Before: fault}
		}
	}
}

// changedOnce checks that the contested operation was carried out once.
func (f *fixture) changedOnce() {
	f.t.Helper()
	f.expect(noise("/new", 2, 20_000), text("/small", "after"))
	if got := f.list().Revision - f.base; got != 2 {
		f.t.Fatalf("the revision is %d, not 2", got)
	}
}

func faultAtAnyCall(f *fixture) {
	f.everyCall(func(f *fixture, o record.Operation, index int, executed bool) {
		f.objects.Intercept(faultOf(index, executed, Fail, false))
		if outcome := f.apply(o); outcome.Revision != f.base+2 || string(outcome.Result) != "done" {
			f.t.Fatalf("the outcome is %+v", outcome)
		}
		f.changedOnce()
	})
}

// deathAtAnyCall fails every call from one on, as the process sees it, and repeats the operation in another process.
func deathAtAnyCall(f *fixture) {
	f.everyCall(func(f *fixture, o record.Operation, index int, executed bool) {
		f.objects.Intercept(faultOf(index, executed, Fail, true))
		_, err := f.store().Apply(f.t.Context(), f.scope, o)
		f.objects.Intercept(nil)
		if written := f.list().Revision == f.base+2; err == nil && !written {
			f.t.Fatal("an operation of which no call succeeds has succeeded")
		}
		if outcome := f.apply(o); outcome.Revision != f.base+2 || string(outcome.Result) != "done" {
			f.t.Fatalf("the outcome is %+v", outcome)
		}
		f.changedOnce()
	})
}

// hold lets another process run an operation, and holds it before or after a call. It returns a function that lets the
// process continue, waits for its end and returns its error.
func (f *fixture) hold(index int, executed bool, operation func(record.Store) error) (resume func() error) {
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
	slow := Wrap(f.objects.inner)
	slow.Intercept(faultOf(index, executed, wait, false))
	done := make(chan error, 1)
	go func() { done <- operation(record.New(slow, record.Options{})) }()
	select {
	case <-held:
	case err := <-done:
		f.t.Fatalf("call %d was not reached: %v", index, err)
	}
	return func() error {
		close(release)
		return <-done
	}
}

// heldAtAnyCall holds a process before and after each of its calls in turn, lets another one repeat the operation and
// change the store in a later step, and then continues the first.
func heldAtAnyCall(f *fixture) {
	f.everyCall(func(f *fixture, o record.Operation, index int, executed bool) {
		resume := f.hold(index, executed, func(store record.Store) error {
			_, err := store.Apply(deadline(f.t), f.scope, o)
			return err
		})
		f.apply(o)
		f.put(3, text("/small", "later"), noise("/new", 3, 20_000))
		if err := resume(); err != nil && !errors.Is(err, record.ErrStale) {
			f.t.Fatalf("the held process: %v", err)
		}
		f.expect(noise("/new", 3, 20_000), text("/small", "later"))
		if got := f.list().Revision - f.base; got != 3 {
			f.t.Fatalf("the revision is %d, not 3", got)
		}
	})
}

// decidedOnIndex appends to one key from several processes, each on the value that it finds.
func decidedOnIndex(f *fixture) {
	stores := f.stores(false)
	together(func(i int) {
		_, err := stores[i].Update(deadline(f.t), f.scope, record.Cause{Step: 1, Key: strconv.Itoa(i)},
			func(ctx context.Context, x *record.Index) (*record.Operation, error) {
				var value []byte
				if item, found := x.Find("/a"); found {
					var err error
					if value, err = stores[i].Load(ctx, f.scope, item); err != nil {
						return nil, err
					}
				}
				return &record.Operation{Put: []record.Put{
					{Key: "/a", Value: append(value, noise("", uint64(i), 3_000).Value...)},
				}}, nil
			})
		if err != nil {
			f.t.Errorf("appending: %v", err)
		}
	})
	if item, _ := f.list().Find("/a"); item.Size != writers*3_000 || item.Revision != f.base+writers {
		f.t.Fatalf("the value is %+v", item)
	}
	refused, before := errors.New("no"), f.list().Revision
	for want, decide := range map[error]record.Decide{
		refused: func(context.Context, *record.Index) (*record.Operation, error) { return nil, refused },
		nil:     func(context.Context, *record.Index) (*record.Operation, error) { return nil, nil },
		record.ErrInvalid: func(context.Context, *record.Index) (*record.Operation, error) {
			return &record.Operation{Put: []record.Put{text("", "")}}, nil
		},
	} {
		f.objects.Intercept(nil)
		if _, err := f.store().Update(f.t.Context(), f.scope, f.cause(1), decide); !errors.Is(err, want) {
			f.t.Fatalf("the decision %v ends with %v", want, err)
		}
		reads, writes := f.objects.Calls(ReadIndex), f.objects.Calls(WriteIndex, CreateBlob, DeleteBlob)
		if reads != 1 || writes != 0 || f.list().Revision != before {
			f.t.Fatalf("the decision %v takes %d reads and %d writes", want, reads, writes)
		}
	}
}
