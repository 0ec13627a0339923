package executor

import (
	"context"
	"errors"
	"runtime/debug"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/internal/runtime/backoff"
	"github.com/capstan-dev/capstan/internal/runtime/fairshare"
	invocation "github.com/capstan-dev/capstan/internal/runtime/invocation/executor"
)

// Key names one attempt of one piece of work of a Turn.
type Key struct {
	// Turn is the UID of the Turn.
	Turn types.UID
	// Step of the Turn's plan.
	Step int32
	// Call is the id of a tool call, or empty for the step as a whole.
	Call string
	// Attempt counts the starts of a call; 0 for the step as a whole.
	Attempt int32
	// Round counts the requests of an attempt before this one, whose tool has asked for input.
	Round int32
}

// Func is the work. It ends soon after its context does.
type Func func(ctx context.Context) (any, error)

// Result is the end of an activity.
type Result struct {
	// Value that the work returned.
	Value any
	// Err that the work returned. A panic is an error as well.
	Err error
	// Share counts the memory that Err keeps, if it is a Keeper; nil otherwise. The caller releases it when it drops
	// the error.
	Share *fairshare.Share
}

// Keeper is an error that holds data for a retry. The memory counts for the namespace until it is dropped.
type Keeper interface {
	error
	// Bytes of memory that are kept.
	Bytes() int64
}

// Sized is a value that takes memory until it is handed out. The memory counts for the namespace until then.
type Sized interface {
	// Bytes of memory that the value takes.
	Bytes() int64
}

// Need is the resources that an activity needs before it starts.
type Need struct {
	// Bytes of memory that it uses, 0 for next to nothing.
	Bytes int64
	// Continues marks an activity of a Turn that has begun: it comes before those of the first steps of its namespace.
	Continues bool
	// Conversation marks an activity of a call that reads a conversation: it needs its place and its memory among the
	// model calls.
	Conversation bool
}

// Pauses are those before a failed activity is started again. The work queue cannot back off for an activity that keeps
// failing: the pass that starts it succeeds, and so resets the backoff.
var Pauses = backoff.Exponential{First: 100 * time.Millisecond, Factor: 2, Longest: 30 * time.Second}

// Pools are the resources that the activities of all namespaces share. An activity finds its Share with
// fairshare.FromContext.
type Pools struct {
	// Models bounds the steps as a whole, which are model calls.
	Models *fairshare.Pool
	// Tools bounds the activities of tool calls.
	Tools *fairshare.Pool
}

// Executor runs activities, each once its namespace has a Share for it.
type Executor struct {
	pools Pools
	wake  func(turn types.NamespacedName)

	mu      sync.Mutex
	work    map[Key]*work
	running sync.WaitGroup
	base    context.Context //nolint:containedctx // Work outlives the passes that begin it.
	stop    context.CancelFunc
}

type work struct {
	cancel context.CancelCauseFunc
	done   bool
	result Result
	// held counts the memory of the result until it is handed out; nil for none.
	held *fairshare.Share
}

// NewExecutor returns an executor that calls wake whenever an activity has ended.
func NewExecutor(pools Pools, wake func(turn types.NamespacedName)) *Executor {
	base, stop := context.WithCancel(context.Background())
	return &Executor{pools: pools, wake: wake, work: map[Key]*work{}, base: base, stop: stop}
}

// Start implements manager.Runnable: it waits for the end of the manager, then cancels the work and waits for it.
func (e *Executor) Start(ctx context.Context) error {
	<-ctx.Done()
	e.stop()
	e.running.Wait()
	return nil
}

// Ensure starts the activity unless it was started before, and returns its result once it has ended. A result is handed
// out once: asking again starts the activity again, so that an error is tried again by the caller that gets it. An
// activity that needs more than a namespace may hold ends at once with a fairshare.TooLargeError.
func (e *Executor) Ensure(key Key, turn types.NamespacedName, need Need, fn Func) (Result, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	w, ok := e.work[key]
	if ok && w.done {
		delete(e.work, key)
		w.held.Release()
		return w.result, true
	}
	if ok || e.base.Err() != nil {
		return Result{}, false
	}
	share, err := e.requestShare(key, turn.Namespace, need)
	if err != nil {
		return Result{Err: err}, true
	}
	ctx, cancel := context.WithCancelCause(fairshare.NewContext(e.base, share))
	w = &work{cancel: cancel}
	e.work[key] = w
	e.running.Add(1)
	go e.run(ctx, key, turn, w, share, fn)
	return Result{}, false
}

// Hold counts memory for a namespace that outlives an activity. It returns nil where the namespace has no room for it.
func (e *Executor) Hold(namespace string, bytes int64) *fairshare.Share {
	return e.pools.Models.TryHold(namespace, fairshare.Amount{Bytes: bytes})
}

// Known reports whether an activity was started and its result was not handed out.
func (e *Executor) Known(key Key) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	_, ok := e.work[key]
	return ok
}

// Cancel ends every activity of the Turn and drops the results of ended ones. It does not wait.
func (e *Executor) Cancel(turn types.UID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for key, w := range e.work {
		if key.Turn != turn {
			continue
		}
		w.cancel(invocation.ErrCallEnded)
		w.result.Share.Release()
		w.held.Release()
		delete(e.work, key)
	}
}

// Len returns the number of activities that run, wait for a slot, or have a result that was not fetched.
func (e *Executor) Len() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.work)
}

func (e *Executor) run(
	ctx context.Context, key Key, turn types.NamespacedName, w *work, share *fairshare.Share, fn Func,
) {
	defer e.running.Done()
	defer w.cancel(nil)
	result := call(ctx, share, fn)
	kept := retainShare(share, result)
	var held *fairshare.Share
	if result.Err != nil {
		result.Share = kept
	} else {
		held = kept
	}
	e.mu.Lock()
	w.result, w.held, w.done = result, held, true
	current := e.work[key] == w
	e.mu.Unlock()
	if !current {
		kept.Release()
		return
	}
	if e.base.Err() == nil {
		e.wake(turn)
	}
}

// retainShare releases the resources that an ended activity does not hold any more. It returns the rest; nil for none.
func retainShare(share *fairshare.Share, result Result) *fairshare.Share {
	var bytes int64
	var keeper Keeper
	if errors.As(result.Err, &keeper) {
		bytes = keeper.Bytes()
	} else if sized, ok := result.Value.(Sized); ok && result.Err == nil {
		bytes = sized.Bytes()
	}
	if bytes == 0 {
		share.Release()
		return nil
	}
	share.Shrink(fairshare.Amount{Bytes: bytes})
	return share
}

func call(ctx context.Context, share *fairshare.Share, fn Func) (result Result) {
	if err := share.Wait(ctx); err != nil {
		return Result{Err: err}
	}
	defer func() {
		if p := recover(); p != nil {
			result = Result{Err: &PanicError{Value: p, Stack: debug.Stack()}}
		}
	}()
	value, err := fn(ctx)
	return Result{Value: value, Err: err}
}

// requestShare requests the Share of an activity. Requests are made in the order of Ensure.
func (e *Executor) requestShare(key Key, namespace string, need Need) (*fairshare.Share, error) {
	pool := e.pools.Models
	if key.Call != "" && !need.Conversation {
		pool = e.pools.Tools
	}
	return pool.Request(fairshare.Request{
		Namespace: namespace, Amount: fairshare.Amount{Places: 1, Bytes: need.Bytes}, Continues: need.Continues,
	})
}
