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
	f.expectPages(4)
}
