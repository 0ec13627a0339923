package recordtest

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/capstan-dev/capstan/internal/runtime/record"
)

// ceiling is a Store as a new process has it, with a ceiling of bytes for the given stores.
func (f *fixture) ceiling(bytes int64, stores ...record.Scope) record.Store {
	return record.New(f.objects, record.Options{Ceiling: &record.Ceiling{
		Bytes:  bytes,
		Stores: func(context.Context, string) ([]record.Scope, error) { return stores, nil },
	}})
}

// grow writes a value of so many bytes under a key.
func (f *fixture) grow(store record.Store, scope record.Scope, key string, size int) error {
	_, err := store.Apply(f.t.Context(), scope, record.Operation{
		Cause: f.cause(1), Put: []record.Put{noise(key, 1, size)},
	})
	return err
}

// namespaceIsBounded writes to two stores with a ceiling. A new process counts them before it admits anything.
func namespaceIsBounded(f *fixture) {
	one, two, gone := f.scope, newScope(), newScope()
	store := f.ceiling(100_000, one, two, gone)
	for _, scope := range []record.Scope{one, two, gone} {
		if err := f.grow(store, scope, "/a", 30_000); err != nil {
			f.t.Fatal(err)
		}
	}
	if err := f.grow(
		store,
		one,
		"/b",
		10_001,
	); !errors.Is(err, record.ErrNamespaceFull) ||
		!errors.Is(err, record.ErrFull) {
		f.t.Fatalf("above the ceiling: %v", err)
	}
	if err := f.grow(store, one, "/b", 10_000); err != nil {
		f.t.Fatalf("up to the ceiling: %v", err)
	}
	after := f.ceiling(100_000, one, two, gone)
	if err := f.grow(after, two, "/c", 1); !errors.Is(err, record.ErrNamespaceFull) {
		f.t.Fatalf("in a new process: %v", err)
	}
	if err := f.grow(after, two, "/a", 30_000); err != nil {
		f.t.Fatalf("an operation that needs no more: %v", err)
	}
	if _, err := after.Apply(f.t.Context(), one, record.Operation{
		Cause: f.cause(1), Delete: []string{"/b"},
	}); err != nil {
		f.t.Fatal(err)
	}
	if err := f.grow(after, two, "/c", 10_000); err != nil {
		f.t.Fatalf("after a deletion: %v", err)
	}
	if err := f.grow(f.ceiling(100_000, one, two), one, "/d", 30_000); err != nil {
		f.t.Fatalf("after the object of a store is gone: %v", err)
	}
}

// countingGoesOn lets each operation read a few indexes of a namespace with more stores: the next one reads the others,
// so that one has counted them all after a few attempts.
func countingGoesOn(f *fixture) {
	const stores, reads = 12, 3
	scopes := []record.Scope{f.scope}
	for range stores {
		scopes = append(scopes, newScope())
	}
	store := f.ceiling(1_000_000, scopes...)
	for _, scope := range scopes[1:] {
		if err := f.grow(store, scope, "/a", 30_000); err != nil {
			f.t.Fatal(err)
		}
	}
	after := f.ceiling(stores*30_000+10_000, scopes...)
	attempt := func(size int) error {
		ctx, cancel := context.WithCancel(f.t.Context())
		defer cancel()
		var read atomic.Int64
		f.objects.Intercept(func(call Call) Fault {
			if call.Method == ReadIndex && read.Add(1) > reads {
				cancel()
				return Fault{Before: func(ctx context.Context) error { return ctx.Err() }}
			}
			return Fault{}
		})
		defer f.objects.Intercept(nil)
		_, err := after.Apply(ctx, f.scope, record.Operation{Cause: f.cause(1), Put: []record.Put{noise("/a", 1, size)}})
		return err
	}
	attempts, err := 0, context.Canceled
	for ; errors.Is(err, context.Canceled) && attempts <= stores; attempts++ {
		err = attempt(10_001)
	}
	if !errors.Is(err, record.ErrNamespaceFull) {
		f.t.Fatalf("above the ceiling, after %d attempts: %v", attempts, err)
	}
	if err := attempt(10_000); err != nil {
		f.t.Fatalf("up to the ceiling: %v", err)
	}
}

// ceilingHoldsUnderLoad writes to many stores of a namespace at once, of which some writes have an unknown outcome.
func ceilingHoldsUnderLoad(f *fixture) {
	const limit, size = 50_000, 6_000
	scopes := make([]record.Scope, writers)
	for i := range scopes {
		scopes[i] = newScope()
	}
	store := f.ceiling(limit, scopes...)
	var calls atomic.Int64
	f.objects.Intercept(func(call Call) Fault {
		if call.Method == WriteIndex && calls.Add(1)%5 == 0 {
			return Fault{After: Fail}
		}
		return Fault{}
	})
	var full atomic.Int64
	together(func(i int) {
		for n := range 3 {
			err := f.grow(store, scopes[i], string(rune('a'+n)), size)
			switch {
			case errors.Is(err, record.ErrNamespaceFull):
				full.Add(1)
			case err != nil:
				f.t.Errorf("writing: %v", err)
			}
		}
	})
	f.objects.Intercept(nil)
	var sum int64
	for _, scope := range scopes {
		x, err := store.List(f.t.Context(), scope)
		if err != nil {
			f.t.Fatal(err)
		}
		sum += x.Bytes()
	}
	if sum > limit || limit-sum >= size || full.Load() == 0 {
		f.t.Fatalf("the stores have %d bytes, and %d operations were refused", sum, full.Load())
	}
}

// namespaceIsDeleted refuses all writes from some moment on, as in a namespace that is being deleted, while operations
// are in progress. They end, with one outcome each, and leave no half of one.
func namespaceIsDeleted(f *fixture) {
	f.put(1, text("/before", "a"))
	var writes atomic.Int64
	f.objects.Intercept(func(call Call) Fault {
		if (call.Method == WriteIndex || call.Method == CreateBlob) && writes.Add(1) > 5 {
			return Fault{Before: func(context.Context) error { return record.ErrRefused }}
		}
		return Fault{}
	})
	store := f.store()
	var written atomic.Int64
	together(func(i int) {
		for n := range 3 {
			err := f.grow(store, f.scope, string(rune('a'+i))+string(rune('0'+n)), 10_000)
			switch {
			case err == nil:
				written.Add(1)
			case !errors.Is(err, record.ErrRefused):
				f.t.Errorf("writing: %v", err)
			}
		}
	})
	f.objects.Intercept(nil)
	x := f.list()
	if int64(len(x.Items)-f.filled) != written.Load()+1 {
		f.t.Fatalf("%d operations were carried out, and the store has %d keys", written.Load(), len(x.Items))
	}
	for _, item := range x.Items {
		if _, err := f.store().Load(f.t.Context(), f.scope, item); err != nil {
			f.t.Errorf("reading %s: %v", item.Key, err)
		}
	}
}
