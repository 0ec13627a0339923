package recordtest

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/capstan-dev/capstan/internal/runtime/record"
)

// claims returns a decision that writes a blob and the name of its process, and deletes a blob, unless the store has
// the name of a process already.
func claims(process string) record.Decide {
	return func(_ context.Context, x *record.Index) (*record.Operation, error) {
		if _, claimed := x.Find("/owner"); claimed {
			return nil, nil
		}
		return &record.Operation{
			Put: []record.Put{text("/owner", process), noise("/new", 2, 20_000)}, Delete: []string{"/old"},
		}, nil
	}
}

// everyCallOf runs a test for each call of a claim, for a fault before the call is executed and for one after it.
func (f *fixture) everyCallOf(run func(f *fixture, index int, executed bool)) {
	const calls = 4
	for index := range calls {
		for _, executed := range []bool{false, true} {
			f.t.Run(fmt.Sprintf("call %d, executed %v", index, executed), func(t *testing.T) {
				f := f.another(t)
				f.put(1, noise("/old", 1, 20_000))
				f.objects.Intercept(nil)
				run(f, index, executed)
			})
		}
	}
}

// claimedBy checks that one process has changed the store once, and that nothing is kept of its operation but the
// change.
func (f *fixture) claimedBy(process string) {
	f.t.Helper()
	f.expect(noise("/new", 2, 20_000), text("/owner", process))
	x := f.list()
	if _, kept := x.Outcome(record.Cause{}); kept || x.Revision != 2 {
		f.t.Fatalf("the revision is %d, and an outcome is kept: %t", x.Revision, kept)
	}
}

func (f *fixture) claim(store record.Store, process string) error {
	_, err := store.Update(deadline(f.t), f.scope, record.Cause{}, claims(process))
	return err
}

// withoutCause repeats operations without a cause, of which no outcome is kept: the store decides whether they were
// carried out. One whose outcome is unknown is decided again, by the process itself or by another.
func withoutCause(f *fixture) {
	f.everyCallOf(func(f *fixture, index int, executed bool) {
		f.objects.Intercept(faultOf(index, executed, Fail, false))
		if err := f.claim(f.store(), "first"); err != nil {
			f.t.Fatal(err)
		}
		if err := f.claim(f.store(), "second"); err != nil {
			f.t.Fatal(err)
		}
		f.claimedBy("first")
	})
	f.everyCallOf(func(f *fixture, index int, executed bool) {
		f.objects.Intercept(faultOf(index, executed, Fail, true))
		err := f.claim(f.store(), "first")
		f.objects.Intercept(nil)
		written := index == 3 || index == 2 && executed
		if err == nil && !written {
			f.t.Fatal("an operation of which no call succeeds has succeeded")
		}
		if err := f.claim(f.store(), "second"); err != nil {
			f.t.Fatal(err)
		}
		if written {
			f.claimedBy("first")
		} else {
			f.claimedBy("second")
		}
	})
}

// heldWithoutCause holds a process before and after each call of an operation without a cause, lets another one decide,
// and then continues the first.
func heldWithoutCause(f *fixture) {
	f.everyCallOf(func(f *fixture, index int, executed bool) {
		resume := f.hold(index, executed, func(store record.Store) error { return f.claim(store, "first") })
		if err := f.claim(f.store(), "second"); err != nil {
			f.t.Fatal(err)
		}
		if err := resume(); err != nil {
			f.t.Fatalf("the held process: %v", err)
		}
		if index == 3 || index == 2 && executed {
			f.claimedBy("first")
		} else {
			f.claimedBy("second")
		}
	})
}

// withoutCauseNorDecision refuses an operation of Apply without a cause: nothing would show that it was carried out.
func withoutCauseNorDecision(f *fixture) {
	o := record.Operation{Put: []record.Put{text("/a", "a")}}
	if _, err := f.store().Apply(f.t.Context(), f.scope, o); !errors.Is(err, record.ErrInvalid) {
		f.t.Fatalf("an operation without a cause: %v", err)
	}
	f.expect()
}
