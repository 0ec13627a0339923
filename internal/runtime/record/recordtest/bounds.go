package recordtest

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"

	"github.com/capstan-dev/capstan/internal/runtime/fairshare"
	"github.com/capstan-dev/capstan/internal/runtime/record"
)

func blobsAreCollected(f *fixture) {
	for i := range 5 {
		f.put(int64(i+1), noise("/a", uint64(i), 10_000), noise(fmt.Sprintf("/b/%d", i), uint64(i), 10_000))
	}
	if blobs := f.objects.Blobs(); blobs != 6 {
		f.t.Fatalf("6 values have %d blobs", blobs)
	}
	f.put(6, text("/a", "small"))
	f.apply(record.Operation{Cause: f.cause(7), Delete: []string{"/b/0", "/b/1", "/b/2", "/b/3", "/b/4"}})
	if blobs := f.objects.Blobs(); blobs != 0 {
		f.t.Fatalf("%d blobs are left", blobs)
	}
	// A blob that cannot be deleted is no error of the operation.
	f.put(8, noise("/a", 1, 10_000))
	f.objects.Intercept(func(c Call) Fault {
		if c.Method == DeleteBlob {
			return Fault{Before: Fail}
		}
		return Fault{}
	})
	f.put(9, text("/a", "small"))
	f.expect(text("/a", "small"))
}

// writtenAgain writes a value, under the same key, while another process is about to delete the blob of the first.
func writtenAgain(f *fixture) {
	f.put(1, noise("/a", 1, 10_000))
	slow := Wrap(f.objects.inner)
	slow.Intercept(func(c Call) Fault {
		if c.Method != DeleteBlob {
			return Fault{}
		}
		return Fault{Before: func(context.Context) error {
			f.put(2, noise("/a", 1, 10_000))
			return nil
		}}
	})
	o := record.Operation{Cause: f.cause(2), Delete: []string{"/a"}}
	if _, err := record.New(slow, record.Options{}).Apply(f.t.Context(), f.scope, o); err != nil {
		f.t.Fatal(err)
	}
	f.expect(noise("/a", 1, 10_000))
}

// replacedWhileRead replaces a value, and deletes its blob, after a reader has read the index.
func replacedWhileRead(f *fixture) {
	f.put(1, noise("/a", 1, 10_000))
	slow := Wrap(f.objects.inner)
	slow.Intercept(func(c Call) Fault {
		if c.Index != 1 {
			return Fault{}
		}
		return Fault{Before: func(context.Context) error {
			f.put(2, noise("/a", 2, 10_000))
			return nil
		}}
	})
	item, value, err := record.New(slow, record.Options{}).Get(f.t.Context(), f.scope, "/a")
	if err != nil || item.Revision != 2 || !bytes.Equal(value, noise("/a", 2, 10_000).Value) {
		f.t.Fatalf("reading gives %+v, %v", item, err)
	}
}

func storeIsBounded(f *fixture) {
	full := func(what string, o record.Operation, store record.Store) {
		f.t.Helper()
		before := f.list().Revision
		if _, err := store.Apply(f.t.Context(), f.scope, o); !errors.Is(err, record.ErrFull) {
			f.t.Fatalf("%s: %v", what, err)
		}
		if after := f.list().Revision; after != before {
			f.t.Fatalf("%s: the revision is %d, and was %d", what, after, before)
		}
	}
	f.fill(record.MaxKeys)
	full("a key too many", record.Operation{Cause: f.cause(2), Put: []record.Put{text("/more", "")}}, f.store())
	f.apply(record.Operation{Cause: f.cause(2), Delete: []string{filler + "0000"}, Put: []record.Put{text("/more", "")}})

	f.scope = newScope()
	small := record.New(f.objects, record.Options{MaxBytes: 1_000})
	f.put(1, text("/a", strings.Repeat("a", 900)))
	full("bytes too many", record.Operation{Cause: f.cause(2), Put: []record.Put{
		text("/b", strings.Repeat("b", 101)),
	}}, small)
	f.put(2, text("/b", strings.Repeat("b", 900)))
	shrink := record.Operation{Cause: f.cause(3), Put: []record.Put{text("/b", strings.Repeat("b", 800))}}
	if _, err := small.Apply(f.t.Context(), f.scope, shrink); err != nil {
		f.t.Fatalf("a store that is too large may become smaller: %v", err)
	}

	// The keys alone can be more than an index may have.
	f.scope = newScope()
	for i := range record.MaxKeys/record.MaxChanges - 1 {
		f.put(1, long(i, record.MaxChanges)...)
	}
	full("an index that is too large", record.Operation{Cause: f.cause(1), Put: long(9, record.MaxChanges)}, f.store())

	f.scope = newScope()
	for i := range 16 {
		f.apply(record.Operation{Cause: record.Cause{Key: fmt.Sprint(i)}})
	}
	full("outcomes that are kept for ever", record.Operation{Cause: record.Cause{Key: "16"}}, f.store())
}

// long are keys of the greatest length.
func long(seed, count int) []record.Put {
	puts := make([]record.Put, count)
	for i := range puts {
		key := fmt.Sprintf("/%d/%04d/%x", seed, i, noise("", uint64(i), record.MaxKeyBytes).Value)
		puts[i] = record.Put{Key: key[:record.MaxKeyBytes]}
	}
	return puts
}

func operationIsBounded(f *fixture) {
	valid := record.Cause{Step: 1, Key: "a"}
	for what, o := range map[string]record.Operation{
		"no cause":           {Put: []record.Put{text("/a", "")}},
		"a long cause":       {Cause: record.Cause{Step: 1, Key: strings.Repeat("a", 257)}},
		"a cause of bytes":   {Cause: record.Cause{Step: 1, Key: "\xff"}},
		"a step below 0":     {Cause: record.Cause{Step: -1, Key: "a"}},
		"a large result":     {Cause: valid, Result: make([]byte, record.MaxResultBytes+1)},
		"a large value":      {Cause: valid, Put: []record.Put{{Key: "/a", Value: make([]byte, record.MaxValueBytes+1)}}},
		"no key":             {Cause: valid, Put: []record.Put{text("", "a")}},
		"a long key":         {Cause: valid, Delete: []string{strings.Repeat("a", record.MaxKeyBytes+1)}},
		"a key of bytes":     {Cause: valid, Put: []record.Put{text("/\xff", "a")}},
		"a key twice":        {Cause: valid, Put: []record.Put{text("/a", "a")}, Delete: []string{"/a"}},
		"a long kind":        {Cause: valid, Put: []record.Put{{Key: "/a", Kind: strings.Repeat("k", 33)}}},
		"a long encoding":    {Cause: valid, Put: []record.Put{{Key: "/a", Encoding: strings.Repeat("k", 33)}}},
		"a kind of bytes":    {Cause: valid, Put: []record.Put{{Key: "/a", Kind: "\xff"}}},
		"bytes to encode":    {Cause: valid, Put: []record.Put{{Key: "/a", Encoding: "\xff"}}},
		"too many deletions": {Cause: valid, Delete: make([]string, record.MaxKeys+1)},
		"too many values":    {Cause: valid, Put: make([]record.Put, record.MaxChanges+1)},
	} {
		if _, err := f.store().Apply(f.t.Context(), f.scope, o); !errors.Is(err, record.ErrInvalid) {
			f.t.Errorf("%s: %v", what, err)
		}
	}
	if calls := f.objects.Calls(); calls != 0 {
		f.t.Errorf("invalid operations take %d calls", calls)
	}
}

// damagedIndex writes indexes that no Store has written.
func damagedIndex(f *fixture) {
	packed := func(plain []byte) []byte {
		var text bytes.Buffer
		w := gzip.NewWriter(&text)
		_, err := w.Write(plain)
		if err = errors.Join(err, w.Close()); err != nil {
			f.t.Fatal(err)
		}
		return text.Bytes()
	}
	for what, payload := range map[string][]byte{
		"not compressed": []byte(`{"revision":1}`),
		"cut off":        packed([]byte(`{"revision":1}`))[:12],
		"not JSON":       packed([]byte(`{"revision":`)),
		"of another revision": packed(
			[]byte(`{"revision":2}`),
		),
		"out of order": packed(
			[]byte(`{"revision":1,"items":[{"key":"b","revision":1},{"key":"a","revision":1}]}`),
		),
		"of too many keys": packed(
			[]byte(`{"revision":1,"items":[{}` + strings.Repeat(`,{}`, record.MaxKeys) + `]}`),
		),
		"a bomb": packed(bytes.Repeat([]byte(" "), 64<<20)),
	} {
		f.scope = newScope()
		stored := record.Stored{Payload: payload, Revision: 1, Format: record.Format}
		if err := f.objects.WriteIndex(f.t.Context(), f.scope, stored); err != nil {
			f.t.Fatalf("%s: %v", what, err)
		}
		if _, err := f.store().List(f.t.Context(), f.scope); !errors.Is(err, record.ErrFormat) {
			f.t.Errorf("%s: listing: %v", what, err)
		}
		o := record.Operation{Cause: f.cause(1), Put: []record.Put{text("/a", "a")}}
		if _, err := f.store().Apply(f.t.Context(), f.scope, o); !errors.Is(err, record.ErrFormat) {
			f.t.Errorf("%s: changing: %v", what, err)
		}
	}
}

// limiter records the spent bytes.
type limiter struct {
	spent   int64
	refuses error
	objects *Objects
	// before is the number of writes before the bytes were asked for.
	before int
}

// Spend implements record.Limiter.
func (l *limiter) Spend(_ context.Context, namespace string, bytes int64) error {
	if namespace != "default" {
		return fmt.Errorf("the bytes of namespace %s", namespace)
	}
	l.before = l.objects.Calls(WriteIndex, CreateBlob)
	l.spent += bytes
	return l.refuses
}

func bytesAreLimited(f *fixture) {
	l := &limiter{objects: f.objects}
	store := record.New(f.objects, record.Options{Limiter: l})
	o := record.Operation{Cause: f.cause(1), Put: []record.Put{noise("/a", 1, 100_000), noise("/b", 2, 50_000)}}
	if _, err := store.Apply(f.t.Context(), f.scope, o); err != nil {
		f.t.Fatal(err)
	}
	if l.before != 0 || l.spent < 150_000 || l.spent > 152_000 {
		f.t.Fatalf("150,000 bytes count as %d, after %d writes", l.spent, l.before)
	}
	l.refuses = context.DeadlineExceeded
	o.Cause = f.cause(1)
	if _, err := store.Apply(f.t.Context(), f.scope, o); !errors.Is(err, context.DeadlineExceeded) {
		f.t.Fatalf("without bytes: %v", err)
	}
	f.expect(noise("/a", 1, 100_000), noise("/b", 2, 50_000))
}

// cancelledOperation cancels the call in the middle of its writes.
func cancelledOperation(f *fixture) {
	ctx, cancel := context.WithCancel(f.t.Context())
	f.objects.Intercept(func(c Call) Fault {
		if c.Method == CreateBlob {
			return Fault{Before: func(context.Context) error {
				cancel()
				return nil
			}}
		}
		return Fault{}
	})
	o := record.Operation{Cause: f.cause(1), Put: []record.Put{noise("/a", 1, 10_000)}}
	if _, err := f.store().Apply(ctx, f.scope, o); err != nil {
		f.t.Fatalf("an operation whose writes have begun: %v", err)
	}
	f.expect(noise("/a", 1, 10_000))
	f.objects.Intercept(nil)
	o.Cause = f.cause(1)
	if _, err := f.store().Apply(ctx, f.scope, o); !errors.Is(err, context.Canceled) {
		f.t.Fatalf("an operation that was cancelled before: %v", err)
	}
	if writes := f.objects.Calls(WriteIndex, CreateBlob); writes != 0 {
		f.t.Fatalf("it takes %d writes", writes)
	}
}

// placesAreTaken runs more operations of one namespace than there are places, each of which reads a value as well.
func placesAreTaken(f *fixture) {
	pool := fairshare.NewPool(fairshare.Options{Total: fairshare.Amount{Places: 8}})
	store := record.New(f.objects, record.Options{Places: pool})
	f.put(1, noise("/a", 1, 10_000))
	scopes := make([]record.Scope, 3*writers)
	for i := range scopes {
		scopes[i] = newScope()
	}
	var most atomic.Int64
	f.objects.Intercept(func(Call) Fault {
		return Fault{Before: func(context.Context) error {
			if held := pool.Held().Places; held > most.Load() {
				most.Store(held)
			}
			for range 100 {
				runtime.Gosched()
			}
			return nil
		}}
	})
	together(func(i int) {
		for n := range 3 {
			_, err := store.Update(deadline(f.t), scopes[3*i+n], f.cause(1),
				func(ctx context.Context, _ *record.Index) (*record.Operation, error) {
					_, value, err := store.Get(ctx, f.scope, "/a")
					return &record.Operation{Put: []record.Put{{Key: "/a", Value: value}}}, err
				})
			if err != nil {
				f.t.Error(err)
			}
		}
	})
	if most.Load() < 2 || most.Load() > 7 || pool.Held().Places != 0 {
		f.t.Fatalf("%d places were held at once, and %d still are", most.Load(), pool.Held().Places)
	}
	ctx, cancel := context.WithCancel(f.t.Context())
	cancel()
	if _, err := store.List(ctx, f.scope); !errors.Is(err, context.Canceled) || pool.Held().Places != 0 {
		f.t.Fatalf("listing under a context that has ended: %v", err)
	}
}
