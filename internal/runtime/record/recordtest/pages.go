package recordtest

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/capstan-dev/capstan/internal/runtime/record"
)

// manyKeys fills a store, changes it, and empties it again.
func manyKeys(f *fixture) {
	if blobs := f.objects.Blobs(); blobs != 4 {
		f.t.Fatalf("%d keys have %d pages, not 4", f.filled, blobs)
	}
	warm := record.New(f.objects, record.Options{KeptBytes: 16 << 20})
	for _, value := range []string{"0", "1"} {
		f.objects.Intercept(nil)
		o := record.Operation{Cause: f.cause(1), Put: []record.Put{text("/a", value)}}
		if _, err := warm.Apply(f.t.Context(), f.scope, o); err != nil {
			f.t.Fatal(err)
		}
		if writes := f.objects.Calls(WriteIndex, CreateBlob, DeleteBlob); writes != 3 {
			f.t.Fatalf("a change of one key takes %d writes, not 3: a page, the index, and the page that it replaces", writes)
		}
	}
	f.expect(text("/a", "1"))
	if item, value, err := f.store().Get(f.t.Context(), f.scope, "/a"); err != nil || string(value) != "1" ||
		item.Revision != f.base+2 {
		f.t.Fatalf("reading a key gives %+v, %q, %v", item, value, err)
	}
	f.objects.Intercept(nil)
	f.apply(record.Operation{Cause: f.cause(1), Result: []byte("nothing")})
	if writes := f.objects.Calls(WriteIndex, CreateBlob); writes != 1 {
		f.t.Fatalf("an operation without a change takes %d writes, not 1", writes)
	}
	for first := f.filled; first < record.MaxKeys-1; first += 500 {
		o := record.Operation{Cause: f.cause(2)}
		for i := first; i < min(record.MaxKeys-1, first+500); i++ {
			o.Put = append(o.Put, text(fmt.Sprintf("%s%04d", filler, i), "x"))
		}
		f.apply(o)
		f.filled += len(o.Put)
	}
	f.expect(text("/a", "1"))
	if got := f.list().Bytes(); got != record.MaxKeys {
		f.t.Fatalf("the values have %d bytes", got)
	}
	f.warmRepeats()
	f.empty()
}

// warmRepeats checks that a process that has read the store reads its index alone.
func (f *fixture) warmRepeats() {
	f.t.Helper()
	warm := record.New(f.objects, record.Options{KeptBytes: 16 << 20})
	for range 2 {
		f.objects.Intercept(nil)
		if _, err := warm.List(f.t.Context(), f.scope); err != nil {
			f.t.Fatal(err)
		}
	}
	if calls := f.objects.Calls(); calls != 1 {
		f.t.Fatalf("listing again takes %d calls, not 1", calls)
	}
	f.apply(record.Operation{Cause: f.cause(2), Put: []record.Put{text("/a", "1")}})
	f.objects.Intercept(nil)
	if x, err := warm.List(f.t.Context(), f.scope); err != nil || len(x.Items) != f.filled+1 {
		f.t.Fatal(err)
	}
	if reads := f.objects.Calls(ReadBlob); reads != 1 {
		f.t.Fatalf("after a change of one page %d are read", reads)
	}
}

// empty deletes all keys but one, with the pages.
func (f *fixture) empty() {
	f.t.Helper()
	var all []string
	for _, item := range f.list().Items {
		if strings.HasPrefix(item.Key, filler) {
			all = append(all, item.Key)
		}
	}
	f.apply(record.Operation{Cause: f.cause(3), Delete: all})
	f.filled = 0
	f.expect(text("/a", "1"))
	if blobs := f.objects.Blobs(); blobs != 0 {
		f.t.Fatalf("%d pages are left", blobs)
	}
}

// pagesReplacedWhileRead changes a store at every call of a reader that has nothing in memory.
func pagesReplacedWhileRead(f *fixture) {
	for at := range 5 {
		slow := Wrap(f.objects.inner)
		slow.Intercept(func(c Call) Fault {
			if c.Index != at {
				return Fault{}
			}
			return Fault{After: func(context.Context) error {
				o := record.Operation{Cause: f.cause(int64(at + 1))}
				for i := range 40 { // on all pages
					o.Put = append(o.Put, text(fmt.Sprintf("%s%04d", filler, i), fmt.Sprint("new", at)))
				}
				f.apply(o)
				return nil
			}}
		})
		x, err := record.New(slow, record.Options{}).List(f.t.Context(), f.scope)
		if err != nil || len(x.Items) != f.filled {
			f.t.Fatalf("listing gives %d keys, %v", len(x.Items), err)
		}
		first, _ := x.Find(filler + "0000")
		for i := range 40 {
			if item, _ := x.Find(fmt.Sprintf("%s%04d", filler, i)); item.Revision != first.Revision {
				f.t.Fatalf("a key has revision %d, and another one of the same operation %d", item.Revision, first.Revision)
			}
		}
	}
}

// pagesAreCollected lets operations meet, and die, at each of their calls, and counts what is left of them.
func pagesAreCollected(f *fixture) {
	// One that finds the index changed deletes the pages that it has written.
	var met atomic.Bool
	f.objects.Intercept(func(c Call) Fault {
		if c.Method != WriteIndex || met.Swap(true) {
			return Fault{}
		}
		return Fault{Before: func(context.Context) error {
			f.put(1, text("/b", "b"))
			return nil
		}}
	})
	o := record.Operation{Cause: f.cause(1), Put: []record.Put{text("/a", "a"), text("/c", "c")}}
	f.apply(o)
	f.expect(text("/a", "a"), text("/b", "b"), text("/c", "c"))
	f.expectNothingElse()

	// One that is refused deletes them as well.
	f.objects.Intercept(func(c Call) Fault {
		if c.Method == WriteIndex {
			return Fault{Before: func(context.Context) error { return record.ErrRefused }}
		}
		return Fault{}
	})
	o.Cause = f.cause(2)
	if _, err := f.store().Apply(f.t.Context(), f.scope, o); !errors.Is(err, record.ErrRefused) {
		f.t.Fatalf("an operation that is refused: %v", err)
	}
	f.objects.Intercept(nil)
	f.expectNothingElse()

	// A process that ends after its operation leaves the pages that this one has replaced to the next operation.
	f.objects.Intercept(func(c Call) Fault {
		if c.Method == DeleteBlob {
			return Fault{Before: Fail}
		}
		return Fault{}
	})
	f.put(3, text("/a", "later"))
	f.objects.Intercept(nil)
	f.put(4, text("/c", "later"))
	f.expectNothingElse()
	f.expect(text("/a", "later"), text("/b", "b"), text("/c", "later"))
}

// expectNothingElse expects the four pages of the index, and no other blob.
func (f *fixture) expectNothingElse() {
	f.t.Helper()
	if got := f.objects.Blobs(); got != 4 {
		f.t.Fatalf("there are %d blobs, not the 4 pages of the index", got)
	}
}

// longKeys fills a store with keys of the greatest length, which have no room in an index without pages.
func longKeys(f *fixture) {
	f.scope, f.filled, f.base = newScope(), 0, 0
	puts := long(1, 1000)
	f.put(1, puts...)
	f.expect(puts...)
	keys := make([]string, 900)
	for i := range keys {
		keys[i] = puts[i].Key
	}
	f.apply(record.Operation{Cause: f.cause(2), Delete: keys})
	f.expect(puts[900:]...)
}

// packed compresses a text as a Store does.
func (f *fixture) packed(plain string) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, err := w.Write([]byte(plain))
	if err = errors.Join(err, w.Close()); err != nil {
		f.t.Fatal(err)
	}
	return out.Bytes()
}

// damagedPages writes indexes with pages that no Store has written.
func damagedPages(f *fixture) {
	const name = "0123456789012345678901234567890123456789"
	two := func(keys int, size int) string {
		p := fmt.Sprintf(`{"blob":%q,"keys":%d,"size":%d,"bytes":1}`, name, keys, size)
		return fmt.Sprintf(`{"revision":1,"pages":[%s,%s]}`, p, p)
	}
	for what, test := range map[string]struct {
		index, page string
		format      int32
	}{
		"pages in an index of another format": {two(0, 20), `{"items":[]}`, record.Format},
		"an index without pages":              {`{"revision":1}`, "", record.FormatPages},
		"one page": {
			fmt.Sprintf(`{"revision":1,"pages":[{"blob":%q,"size":20}]}`, name), `{"items":[]}`, record.FormatPages,
		},
		"a page that is missing":   {two(0, 20), "", record.FormatPages},
		"a page of too many keys":  {two(record.MaxKeys, 20), `{"items":[]}`, record.FormatPages},
		"a page of negative size":  {two(0, -1), `{"items":[]}`, record.FormatPages},
		"pages that are too large": {two(0, 3<<20), `{"items":[]}`, record.FormatPages},
		"a page of fewer keys":     {two(1, 20), `{"items":[]}`, record.FormatPages},
		"a page that is no JSON":   {two(0, 20), `{"items":`, record.FormatPages},
		"a page that is a bomb":    {two(0, 20), strings.Repeat(" ", 1<<20), record.FormatPages},
		"a page with keys of another one": {
			two(1, 40), `{"items":[{"key":"b"}]}`, record.FormatPages,
		},
	} {
		f.scope = newScope()
		index := record.Stored{Payload: f.packed(test.index), Revision: 1, Format: test.format}
		if err := f.objects.WriteIndex(f.t.Context(), f.scope, index); err != nil {
			f.t.Fatalf("%s: %v", what, err)
		}
		if test.page != "" {
			if err := f.objects.CreateBlob(f.t.Context(), f.scope, name, f.packed(test.page)); err != nil {
				f.t.Fatalf("%s: %v", what, err)
			}
		}
		f.objects.Intercept(nil)
		if _, err := f.store().List(f.t.Context(), f.scope); !errors.Is(err, record.ErrFormat) {
			f.t.Errorf("%s: listing: %v", what, err)
		}
		o := record.Operation{Cause: f.cause(1), Put: []record.Put{text("/a", "a")}}
		if _, err := f.store().Apply(f.t.Context(), f.scope, o); !errors.Is(err, record.ErrFormat) {
			f.t.Errorf("%s: changing: %v", what, err)
		}
		if calls := f.objects.Calls(); calls > 8 {
			f.t.Errorf("%s: it takes %d calls", what, calls)
		}
	}
}
