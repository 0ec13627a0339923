// Package journaltest is the suite that every backend of the journal passes, with a store that counts, fails and delays
// calls.
package journaltest

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/journal/format"
)

// Content is the content of an entry that this build has written, for stores in tests.
func Content(e *v1alpha1.JournalEntrySpec) *journal.Entry {
	content, err := format.Decode(e)
	if err != nil {
		panic(fmt.Sprintf("decoding the entry at ordinal %d: %v", e.Ordinal, err))
	}
	return content
}

// Call is one call of a store.
type Call struct {
	// Index counts the calls from 0.
	Index int
	// Create reports whether it is a create, not a read.
	Create bool
	// Ordinal that is read or created.
	Ordinal int64
}

// Fault is injected into a call. Both functions may block.
type Fault struct {
	// Before runs before the call is executed. An error is the outcome, and the call is not executed.
	Before func(ctx context.Context) error
	// After runs when the call was executed. Its error replaces the outcome.
	After func(ctx context.Context) error
}

// ErrInjected is the error of a call that fails on purpose.
var ErrInjected = errors.New("injected: the connection was lost")

// Fail is an ambiguous outcome: the call may have had its effect.
func Fail(context.Context) error { return ErrInjected }

// Store passes calls on to another store, counts them, and injects faults. It is safe for concurrent use.
type Store struct {
	inner journal.Store

	mu      sync.Mutex
	calls   int
	reads   int
	creates int
	fault   func(Call) Fault
}

var _ journal.Store = (*Store)(nil)

// Wrap passes calls on to a store.
func Wrap(inner journal.Store) *Store {
	return &Store{inner: inner}
}

// Intercept sets the faults of later calls, and resets the counts.
func (f *Store) Intercept(fault func(Call) Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls, f.reads, f.creates, f.fault = 0, 0, 0, fault
}

// failsFrom returns the fault of a store that is away for so many calls from one on: before or after it has executed
// them. It notes in failed that it has come to one.
func failsFrom(index, calls int, executed bool, failed *bool) func(Call) Fault {
	return func(c Call) Fault {
		if c.Index < index || c.Index >= index+calls {
			return Fault{}
		}
		*failed = true
		if executed {
			return Fault{After: Fail}
		}
		return Fault{Before: Fail}
	}
}

// Reset resets the counts and stops injecting faults.
func (f *Store) Reset() { f.Intercept(nil) }

// Calls is the number of calls.
func (f *Store) Calls() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls
}

// Reads is the number of reads, including those that found nothing.
func (f *Store) Reads() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.reads
}

// Creates is the number of creates, including those that failed.
func (f *Store) Creates() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.creates
}

// Get reads the entry at an ordinal.
func (f *Store) Get(ctx context.Context, s journal.Session, ordinal int64) (*v1alpha1.JournalEntrySpec, error) {
	fault := f.count(Call{Ordinal: ordinal})
	if fault.Before != nil {
		if err := fault.Before(ctx); err != nil {
			return nil, err
		}
	}
	e, err := f.inner.Get(ctx, s, ordinal)
	if fault.After != nil {
		if faultErr := fault.After(ctx); faultErr != nil {
			return nil, faultErr
		}
	}
	return e, err
}

// Create writes an entry at its ordinal.
func (f *Store) Create(ctx context.Context, s journal.Session, e *v1alpha1.JournalEntrySpec) error {
	fault := f.count(Call{Create: true, Ordinal: e.Ordinal})
	if fault.Before != nil {
		if err := fault.Before(ctx); err != nil {
			return err
		}
	}
	err := f.inner.Create(ctx, s, e)
	if fault.After != nil {
		if faultErr := fault.After(ctx); faultErr != nil {
			return faultErr
		}
	}
	return err
}

func (f *Store) count(call Call) Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	call.Index = f.calls
	f.calls++
	if call.Create {
		f.creates++
	} else {
		f.reads++
	}
	if f.fault == nil {
		return Fault{}
	}
	return f.fault(call)
}
