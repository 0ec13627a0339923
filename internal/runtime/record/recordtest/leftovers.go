package recordtest

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/capstan-dev/capstan/internal/runtime/record"
)

// deletion is an operation that changes all pages of a store. They have the same text whenever it is carried out, as it
// sets no time.
func (f *fixture) deletion() record.Operation {
	f.t.Helper()
	o := record.Operation{Cause: f.cause(1)}
	for i := range 40 {
		o.Delete = append(o.Delete, fmt.Sprintf("%s%04d", filler, i))
	}
	return o
}

// sameOperationAbandoned lets a second process carry an operation out while the first one is writing its pages and
// then has to abandon the same operation. What the first one deletes is not what the second one has committed.
func sameOperationAbandoned(f *fixture) {
	o := f.deletion()
	var creates atomic.Int64
	f.objects.Intercept(func(c Call) Fault {
		if c.Method != CreateBlob || creates.Add(1) != 2 {
			return Fault{}
		}
		return Fault{Before: func(context.Context) error {
			f.apply(o)
			return record.ErrRefused
		}}
	})
	if _, err := f.store().Apply(f.t.Context(), f.scope, o); !errors.Is(err, record.ErrRefused) {
		f.t.Fatalf("the first process: %v", err)
	}
	f.objects.Intercept(nil)
	f.filled -= len(o.Delete)
	if x, err := f.store().List(f.t.Context(), f.scope); err != nil || len(x.Items) != f.filled {
		f.t.Fatalf("the store cannot be read any more: %v", err)
	}
	f.expectNothingElse()
}

// triesLeaveNoPages fails some tries of an operation, and counts the pages after it.
func triesLeaveNoPages(f *fixture) {
	failing := func(method Method, first, last int64) func(Call) Fault {
		var calls atomic.Int64
		return func(c Call) Fault {
			if c.Method != method {
				return Fault{}
			}
			if n := calls.Add(1); n < first || n > last {
				return Fault{}
			}
			return Fault{Before: Fail}
		}
	}
	for _, test := range []struct {
		what  string
		fault func(Call) Fault
		fails bool
	}{
		{"a page of the first try cannot be written", failing(CreateBlob, 2, 2), false},
		{"the index of the first try cannot be written", failing(WriteIndex, 1, 1), false},
		{"one page of each try cannot be written", failing(CreateBlob, 4, 100), true},
	} {
		o := record.Operation{Cause: f.cause(1)}
		for i := range 40 { // on all pages
			o.Put = append(o.Put, text(fmt.Sprintf("%s%04d", filler, i), test.what))
		}
		f.objects.Intercept(test.fault)
		_, err := f.store().Apply(f.t.Context(), f.scope, o)
		f.objects.Intercept(nil)
		if test.fails != (err != nil) {
			f.t.Fatalf("%s: %v", test.what, err)
		}
		if got := f.objects.Blobs(); got != 4 {
			f.t.Errorf("%s: there are %d blobs, not the 4 pages of the index", test.what, got)
		}
	}
}

// decidedOtherwise lets a try fail whose operation the next try decides not to carry out.
func decidedOtherwise(f *fixture) {
	f.objects.Intercept(func(c Call) Fault {
		if c.Method == CreateBlob {
			return Fault{After: Fail}
		}
		return Fault{}
	})
	o, tries := f.deletion(), 0
	_, err := f.store().Update(f.t.Context(), f.scope, o.Cause,
		func(context.Context, *record.Index) (*record.Operation, error) {
			tries++
			if tries > 1 {
				return nil, nil
			}
			return &o, nil
		})
	f.objects.Intercept(nil)
	if err != nil || tries != 2 {
		f.t.Fatalf("after %d tries: %v", tries, err)
	}
	f.expectNothingElse()
}

// overtakenAndCutOff lets another operation overtake one, which then cannot read the index any more for a while.
func overtakenAndCutOff(f *fixture) {
	var met atomic.Bool
	var reads atomic.Int64
	f.objects.Intercept(func(c Call) Fault {
		switch {
		case c.Method == WriteIndex && !met.Swap(true):
			return Fault{Before: func(context.Context) error {
				f.put(1, text("/b", "b"))
				reads.Store(1)
				return nil
			}}
		case c.Method == ReadIndex && reads.Load() > 0 && reads.Add(1) <= 4:
			return Fault{Before: Fail}
		}
		return Fault{}
	})
	o := record.Operation{Cause: f.cause(1), Put: []record.Put{text("/a", "a")}}
	if _, err := f.store().Apply(f.t.Context(), f.scope, o); !errors.Is(err, ErrInjected) {
		f.t.Fatalf("the operation: %v", err)
	}
	f.objects.Intercept(nil)
	f.expect(text("/b", "b"))
	f.expectNothingElse()
}
