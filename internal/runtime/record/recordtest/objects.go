// Package recordtest is the suite that every backend of records passes, with objects that count, fail and delay calls.
package recordtest

import (
	"context"
	"errors"
	"sync"

	"github.com/capstan-dev/capstan/internal/runtime/record"
)

// Method is a method of Objects.
type Method string

const (
	// ReadIndex reads an index.
	ReadIndex Method = "ReadIndex"
	// WriteIndex writes an index.
	WriteIndex Method = "WriteIndex"
	// ReadBlob reads a blob.
	ReadBlob Method = "ReadBlob"
	// CreateBlob writes a blob.
	CreateBlob Method = "CreateBlob"
	// DeleteBlob deletes a blob.
	DeleteBlob Method = "DeleteBlob"
)

// Call is one call of Objects.
type Call struct {
	// Index counts the calls from 0.
	Index int
	// Method that is called.
	Method Method
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

// Objects pass calls on to other Objects, count them, and inject faults. They are safe for concurrent use.
type Objects struct {
	inner record.Objects

	mu    sync.Mutex
	calls []Call
	fault func(Call) Fault
	blobs map[string]bool
}

var _ record.Objects = (*Objects)(nil)

// Wrap passes calls on to Objects.
func Wrap(inner record.Objects) *Objects {
	return &Objects{inner: inner, blobs: map[string]bool{}}
}

// Intercept sets the faults of later calls, and resets the counts.
func (o *Objects) Intercept(fault func(Call) Fault) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.calls, o.fault = nil, fault
}

// Calls is the number of calls of the methods; of all of them if none is given.
func (o *Objects) Calls(methods ...Method) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(methods) == 0 {
		return len(o.calls)
	}
	count := 0
	for _, call := range o.calls {
		for _, method := range methods {
			if call.Method == method {
				count++
			}
		}
	}
	return count
}

// Blobs is the number of blobs that were written through these Objects and not deleted.
func (o *Objects) Blobs() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.blobs)
}

func (o *Objects) note(name string, exists bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.blobs[name] = true; !exists {
		delete(o.blobs, name)
	}
}

// do counts a call and carries it out with its fault.
func (o *Objects) do(ctx context.Context, method Method, run func() error) error {
	o.mu.Lock()
	call := Call{Index: len(o.calls), Method: method}
	o.calls = append(o.calls, call)
	var fault Fault
	if o.fault != nil {
		fault = o.fault(call)
	}
	o.mu.Unlock()
	if fault.Before != nil {
		if err := fault.Before(ctx); err != nil {
			return err
		}
	}
	err := run()
	if fault.After != nil {
		if faultErr := fault.After(ctx); faultErr != nil {
			return faultErr
		}
	}
	return err
}

// ReadIndex implements record.Objects.
func (o *Objects) ReadIndex(ctx context.Context, scope record.Scope) (stored record.Stored, err error) {
	err = o.do(ctx, ReadIndex, func() error {
		stored, err = o.inner.ReadIndex(ctx, scope)
		return err
	})
	return stored, err
}

// WriteIndex implements record.Objects.
func (o *Objects) WriteIndex(ctx context.Context, scope record.Scope, index record.Stored) error {
	return o.do(ctx, WriteIndex, func() error { return o.inner.WriteIndex(ctx, scope, index) })
}

// ReadBlob implements record.Objects.
func (o *Objects) ReadBlob(ctx context.Context, scope record.Scope, name string) (payload []byte, err error) {
	err = o.do(ctx, ReadBlob, func() error {
		payload, err = o.inner.ReadBlob(ctx, scope, name)
		return err
	})
	return payload, err
}

// CreateBlob implements record.Objects.
func (o *Objects) CreateBlob(ctx context.Context, scope record.Scope, name string, payload []byte) error {
	return o.do(ctx, CreateBlob, func() error {
		err := o.inner.CreateBlob(ctx, scope, name, payload)
		if err == nil {
			o.note(name, true)
		}
		return err
	})
}

// DeleteBlob implements record.Objects.
func (o *Objects) DeleteBlob(ctx context.Context, scope record.Scope, name string) error {
	return o.do(ctx, DeleteBlob, func() error {
		err := o.inner.DeleteBlob(ctx, scope, name)
		if err == nil {
			o.note(name, false)
		}
		return err
	})
}
