package activity

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"

	"k8s.io/apimachinery/pkg/types"
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
}

// Func is the work. It ends soon after its context does.
type Func func(ctx context.Context) (any, error)

// Result is the end of an activity.
type Result struct {
	// Value that the work returned.
	Value any
	// Err that the work returned. A panic is an error as well.
	Err error
}

// Executor runs activities, at most as many at once as it was made for: so many of steps, and as many of tool calls, which share their places
// fairly between namespaces.
type Executor struct {
	steps chan struct{}
	calls *places
	wake  func(turn types.NamespacedName)

	mu      sync.Mutex
	work    map[Key]*work
	running sync.WaitGroup
	base    context.Context
	stop    context.CancelFunc
}

type work struct {
	cancel context.CancelFunc
	done   bool
	result Result
}

// NewExecutor makes an executor of the given size, at least 1, that calls wake whenever an activity has ended.
func NewExecutor(size int, wake func(turn types.NamespacedName)) *Executor {
	base, stop := context.WithCancel(context.Background())
	return &Executor{
		steps: make(chan struct{}, max(size, 1)),
		calls: newPlaces(max(size, 1)),
		wake:  wake,
		work:  map[Key]*work{},
		base:  base,
		stop:  stop,
	}
}

// Start implements manager.Runnable: it waits for the end of the manager, then cancels what runs and waits for it.
func (e *Executor) Start(ctx context.Context) error {
	<-ctx.Done()
	e.stop()
	e.running.Wait()
	return nil
}

// Ensure starts the activity unless it was started before, and returns its result once it has ended. A result is handed out once: asking
// again starts the activity anew, so that an error is tried again by whoever gets it.
func (e *Executor) Ensure(key Key, turn types.NamespacedName, fn Func) (Result, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	w, ok := e.work[key]
	if ok && w.done {
		delete(e.work, key)
		return w.result, true
	}
	if ok || e.base.Err() != nil {
		return Result{}, false
	}
	ctx, cancel := context.WithCancel(e.base)
	w = &work{cancel: cancel}
	e.work[key] = w
	e.running.Add(1)
	go e.run(ctx, key, turn, w, fn)
	return Result{}, false
}

// Cancel ends every activity of the Turn and forgets what has ended. It does not wait.
func (e *Executor) Cancel(turn types.UID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for key, w := range e.work {
		if key.Turn != turn {
			continue
		}
		w.cancel()
		delete(e.work, key)
	}
}

// Len is the number of activities that run, wait for a place, or have a result that nobody has asked for.
func (e *Executor) Len() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.work)
}

func (e *Executor) run(ctx context.Context, key Key, turn types.NamespacedName, w *work, fn Func) {
	defer e.running.Done()
	defer w.cancel()
	result := e.call(ctx, key, turn.Namespace, fn)
	e.mu.Lock()
	w.result, w.done = result, true
	current := e.work[key] == w
	e.mu.Unlock()
	if current && e.base.Err() == nil {
		e.wake(turn)
	}
}

func (e *Executor) call(ctx context.Context, key Key, namespace string, fn Func) (result Result) {
	if leave := e.enter(ctx, key, namespace); leave != nil {
		defer leave()
	}
	// A place and the end of the context may have come at once.
	if err := ctx.Err(); err != nil {
		return Result{Err: err}
	}
	defer func() {
		if p := recover(); p != nil {
			result = Result{Err: fmt.Errorf("activity panicked: %v\n%s", p, debug.Stack())}
		}
	}()
	value, err := fn(ctx)
	return Result{Value: value, Err: err}
}

// enter waits for a place, and gives what leaves it; nil when the context has ended first.
func (e *Executor) enter(ctx context.Context, key Key, namespace string) func() {
	if key.Call != "" {
		if !e.calls.take(ctx, namespace) {
			return nil
		}
		return func() { e.calls.leave(namespace) }
	}
	select {
	case e.steps <- struct{}{}:
		return func() { <-e.steps }
	case <-ctx.Done():
		return nil
	}
}
