package recordtest

import (
	"errors"
	"fmt"

	"github.com/capstan-dev/capstan/internal/runtime/record"
)

// unreadableStores lets a store grow whose namespace has others that this build cannot read.
func unreadableStores(f *fixture) {
	const room = 100_000
	pages := func(bytes string) []byte {
		p := `{"blob":"0123456789012345678901234567890123456789","keys":1,"size":20,"bytes":1000}`
		return f.packed(fmt.Sprintf(`{"revision":1%s,"pages":[%s,%s]}`, bytes, p, p))
	}
	for _, test := range []struct {
		what  string
		index record.Stored
		// counted is what the store counts as.
		counted int64
	}{
		{"an index that is damaged", record.Stored{Payload: []byte("x"), Format: record.Format}, record.MaxStoreBytes},
		{
			"an index of which pages are missing",
			record.Stored{Payload: pages(""), Format: record.FormatPages},
			record.MaxStoreBytes,
		},
		{
			"an index with its size of which pages are missing",
			record.Stored{Payload: pages(`,"bytes":5000`), Format: record.FormatPages},
			7_000,
		},
		{
			"an index with a size that it cannot have",
			record.Stored{Payload: pages(`,"bytes":-5000`), Format: record.FormatPages},
			record.MaxStoreBytes,
		},
	} {
		one, other := newScope(), newScope()
		test.index.Revision = 1
		if err := f.objects.WriteIndex(f.t.Context(), other, test.index); err != nil {
			f.t.Fatal(err)
		}
		store := f.ceiling(test.counted+room, one, other)
		if err := f.grow(store, one, "/a", room-1_000); err != nil {
			f.t.Errorf("%s: an operation on another store: %v", test.what, err)
			continue
		}
		f.objects.Intercept(nil)
		if err := f.grow(store, one, "/b", 1_001); !errors.Is(err, record.ErrNamespaceFull) {
			f.t.Errorf("%s: above the ceiling: %v", test.what, err)
		}
		if reads := f.objects.Calls(ReadIndex, ReadBlob); reads != 1 {
			f.t.Errorf("%s: there are %d reads, not 1: it is counted once", test.what, reads)
		}
		if err := f.grow(store, one, "/b", 1_000); err != nil {
			f.t.Errorf("%s: up to the ceiling: %v", test.what, err)
		}
	}
}

// pagesAreNotCounted counts a store with pages, in a new process, by its index alone.
func pagesAreNotCounted(f *fixture) {
	const limit = 150_000
	one := newScope()
	store := f.ceiling(limit, f.scope, one)
	if err := f.grow(store, f.scope, "/a", 30_000); err != nil {
		f.t.Fatal(err)
	}
	full := func(store record.Store) string {
		err := f.grow(store, one, "/a", limit)
		if !errors.Is(err, record.ErrNamespaceFull) {
			f.t.Fatalf("above the ceiling: %v", err)
		}
		return err.Error()
	}
	f.objects.Intercept(nil)
	known, read := full(store), full(f.ceiling(limit, f.scope, one))
	if known != read {
		f.t.Errorf("the process that wrote the store counts %q, and a new one %q", known, read)
	}
	if reads := f.objects.Calls(ReadBlob); reads != 0 {
		f.t.Errorf("a new process reads %d pages to count a store", reads)
	}
}
