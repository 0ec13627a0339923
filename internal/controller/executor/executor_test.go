package executor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/internal/runtime/fairshare"
)

var turnA = types.NamespacedName{Namespace: "ns", Name: "a"}

func pools(size int64) Pools {
	pool := func() *fairshare.Pool {
		return fairshare.NewPool(fairshare.Options{Total: fairshare.Amount{Places: size}})
	}
	return Pools{Models: pool(), Tools: pool()}
}

func newExecutor(t *testing.T, size int64) (*Executor, chan types.NamespacedName) {
	t.Helper()
	woken := make(chan types.NamespacedName, 64)
	e := NewExecutor(pools(size), func(n types.NamespacedName) { woken <- n })
	ctx, cancel := context.WithCancel(context.Background())
	stopped := make(chan struct{})
	go func() { defer close(stopped); _ = e.Start(ctx) }()
	t.Cleanup(func() { cancel(); <-stopped })
	return e, woken
}

func TestResultIsHandedOutOnceAndWakesTheTurn(t *testing.T) {
	e, woken := newExecutor(t, 1)
	key := Key{Turn: "a", Step: 1}
	runs := 0
	fn := func(context.Context) (any, error) { runs++; return runs, nil }
	if _, done := e.Ensure(key, turnA, Need{}, fn); done {
		t.Fatal("a result before the work was done")
	}
	if got := <-woken; got != turnA {
		t.Fatalf("woke %v", got)
	}
	if !e.Known(key) || e.Known(Key{Turn: "a", Step: 2}) {
		t.Fatal("the activity that was started is not the one that is known")
	}
	if r, done := e.Ensure(key, turnA, Need{}, fn); !done || r.Value != 1 {
		t.Fatalf("got %v, %v; want the first run's result", r, done)
	}
	if e.Known(key) {
		t.Fatal("an activity is known whose result was handed out")
	}
	if _, done := e.Ensure(key, turnA, Need{}, fn); done {
		t.Fatal("the result was handed out twice")
	}
	<-woken
	if r, _ := e.Ensure(key, turnA, Need{}, fn); r.Value != 2 {
		t.Fatalf("got %v; want a second run", r.Value)
	}
}

func TestRunningActivityIsNotStartedTwice(t *testing.T) {
	e, woken := newExecutor(t, 4)
	key := Key{Turn: "a", Step: 1}
	started, release := make(chan struct{}, 4), make(chan struct{})
	fn := func(context.Context) (any, error) { started <- struct{}{}; <-release; return nil, nil }
	for range 3 {
		e.Ensure(key, turnA, Need{}, fn)
	}
	<-started
	close(release)
	<-woken
	if len(started) != 0 {
		t.Fatalf("started %d more times", len(started))
	}
}

func TestNoMoreThanSizeRunAtOnce(t *testing.T) {
	e, woken := newExecutor(t, 2)
	started, release := make(chan struct{}, 8), make(chan struct{})
	fn := func(context.Context) (any, error) { started <- struct{}{}; <-release; return nil, nil }
	for step := range int32(5) {
		e.Ensure(Key{Turn: "a", Step: step}, turnA, Need{}, fn)
	}
	<-started
	<-started
	if len(started) != 0 {
		t.Fatal("a third activity started while two run")
	}
	close(release)
	for range 5 {
		<-woken
	}
	if len(started) != 3 {
		t.Fatalf("%d of the waiting activities ran, want 3", len(started))
	}
}

func TestCancelEndsTheActivitiesOfOneTurnOnly(t *testing.T) {
	e, woken := newExecutor(t, 4)
	started, ended := make(chan types.UID, 2), make(chan types.UID, 2)
	block := func(turn types.UID) Func {
		return func(ctx context.Context) (any, error) {
			started <- turn
			<-ctx.Done()
			ended <- turn
			return nil, ctx.Err()
		}
	}
	e.Ensure(Key{Turn: "a", Step: 1}, turnA, Need{}, block("a"))
	e.Ensure(Key{Turn: "b", Step: 1}, types.NamespacedName{Name: "b"}, Need{}, block("b"))
	// Work that is cancelled before its goroutine got a place never runs: only what runs can be seen to end.
	<-started
	<-started
	e.Cancel("a")
	if got := <-ended; got != "a" {
		t.Fatalf("ended %s", got)
	}
	if e.Len() != 1 {
		t.Fatalf("%d activities are left, want the other Turn's", e.Len())
	}
	if len(woken) != 0 {
		t.Fatal("a cancelled activity woke its Turn")
	}
}

func TestActivityThatIsCancelledWhileItWaitsForAPlaceNeverRuns(t *testing.T) {
	e, woken := newExecutor(t, 1)
	started, release, ran := make(chan struct{}), make(chan struct{}), make(chan struct{}, 1)
	e.Ensure(
		Key{Turn: "a"},
		turnA,
		Need{},
		func(context.Context) (any, error) { close(started); <-release; return nil, nil },
	)
	<-started
	e.Ensure(Key{Turn: "b"}, turnA, Need{}, func(context.Context) (any, error) { ran <- struct{}{}; return nil, nil })
	e.Cancel("b")
	close(release)
	<-woken
	// The executor's end waits for every goroutine that it began.
	e.stop()
	e.running.Wait()
	if len(ran) != 0 {
		t.Fatal("a cancelled activity ran once a place was free")
	}
}

func TestPanicIsAnError(t *testing.T) {
	e, woken := newExecutor(t, 1)
	key := Key{Turn: "a"}
	fn := func(context.Context) (any, error) { panic("boom") }
	e.Ensure(key, turnA, Need{}, fn)
	<-woken
	r, _ := e.Ensure(key, turnA, Need{}, fn)
	if r.Err == nil || !strings.Contains(r.Err.Error(), "boom") {
		t.Fatalf("got %v", r.Err)
	}
}

func TestStoppedExecutorStartsNothing(t *testing.T) {
	e := NewExecutor(pools(1), func(types.NamespacedName) {})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := e.Start(ctx); err != nil {
		t.Fatal(err)
	}
	fn := func(context.Context) (any, error) { return nil, errors.New("ran") }
	e.Ensure(Key{Turn: "a"}, turnA, Need{}, fn)
	if e.Len() != 0 {
		t.Fatal("an activity was started after the end")
	}
}

// keeper is an error that keeps bytes.
type keeper int64

func (k keeper) Error() string { return "kept" }
func (k keeper) Bytes() int64  { return int64(k) }

func TestWhatAnErrorKeepsIsHeldUntilItIsDropped(t *testing.T) {
	e, woken := newExecutor(t, 1)
	key := Key{Turn: "a", Step: 1}
	keeps := func(context.Context) (any, error) { return nil, fmt.Errorf("appending: %w", keeper(3)) }
	held := func() fairshare.Amount { return e.pools.Models.Held() }

	e.Ensure(key, turnA, Need{Bytes: 8}, keeps)
	<-woken
	if held() != (fairshare.Amount{Bytes: 3}) {
		t.Errorf("an activity that has ended holds %+v, want the 3 bytes that its error keeps", held())
	}
	result, _ := e.Ensure(key, turnA, Need{}, keeps)
	result.Share.Release()
	if held() != (fairshare.Amount{}) {
		t.Errorf("after it was dropped, %+v are held", held())
	}

	e.Ensure(key, turnA, Need{Bytes: 8}, keeps)
	<-woken
	e.Cancel("a")
	if held() != (fairshare.Amount{}) {
		t.Errorf("of a result that was not requested, %+v are held", held())
	}

	began, end := make(chan struct{}), make(chan struct{})
	e.Ensure(key, turnA, Need{Bytes: 8}, func(ctx context.Context) (any, error) { close(began); <-end; return keeps(ctx) })
	<-began
	e.Cancel("a")
	close(end)
	e.running.Wait()
	if held() != (fairshare.Amount{}) {
		t.Errorf("of a result that comes after the activity was cancelled, %+v are held", held())
	}
}

// sized is a value of so many bytes.
type sized int64

func (s sized) Bytes() int64 { return int64(s) }

func TestAValueCountsUntilItIsHandedOut(t *testing.T) {
	e, woken := newExecutor(t, 1)
	key := Key{Turn: "a", Step: 1, Call: "1-0"}
	expect := func(when string, want fairshare.Amount) {
		t.Helper()
		if held := e.pools.Tools.Held(); held != want {
			t.Errorf("%s, %+v are held, want %+v", when, held, want)
		}
	}
	for _, test := range []struct {
		name  string
		value any
		want  fairshare.Amount
	}{
		{"a value that has a size", sized(3), fairshare.Amount{Bytes: 3}},
		{"an empty value", sized(0), fairshare.Amount{}},
		{"a value without a size", "text", fairshare.Amount{}},
	} {
		returns := func(context.Context) (any, error) { return test.value, nil }
		e.Ensure(key, turnA, Need{Bytes: 8}, returns)
		<-woken
		expect("after the end of "+test.name, test.want)
		if result, done := e.Ensure(key, turnA, Need{}, returns); !done || result.Share != nil {
			t.Errorf("%s has the result %+v", test.name, result)
		}
		expect("once it was handed out, of "+test.name, fairshare.Amount{})
		e.Ensure(key, turnA, Need{Bytes: 8}, returns)
		<-woken
		e.Cancel("a")
		expect("once it was cancelled, of "+test.name, fairshare.Amount{})
	}
	e.Ensure(key, turnA, Need{Bytes: 8}, func(context.Context) (any, error) { return sized(3), errors.New("failed") })
	<-woken
	expect("after an error", fairshare.Amount{})
}

// What reads a conversation needs the memory that model calls have, also where it is part of a tool call.
func TestAConversationIsReadAmongTheModelCalls(t *testing.T) {
	for name, test := range map[string]struct {
		need          Need
		models, tools int64
	}{
		"a tool call":             {Need{}, 0, 1},
		"one that reads":          {Need{Conversation: true, Bytes: 7}, 1, 0},
		"one that reads too much": {Need{Conversation: true, Bytes: 9}, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			both := pools(1)
			both.Models = fairshare.NewPool(fairshare.Options{Total: fairshare.Amount{Places: 1, Bytes: 8}})
			woken, held := make(chan types.NamespacedName, 1), make(chan [2]int64, 1)
			e := NewExecutor(both, func(n types.NamespacedName) { woken <- n })
			_, _ = e.Ensure(Key{Turn: "a", Step: 1, Call: "1-0", Attempt: 1}, turnA, test.need,
				func(context.Context) (any, error) {
					held <- [2]int64{both.Models.Held().Places, both.Tools.Held().Places}
					return nil, nil
				})
			if test.models+test.tools == 0 {
				result, done := e.Ensure(Key{Turn: "a", Step: 1, Call: "1-0", Attempt: 1}, turnA, test.need, nil)
				if large := new(fairshare.TooLargeError); !done || !errors.As(result.Err, &large) {
					t.Errorf("it ends with %+v, %v", result, done)
				}
				return
			}
			<-woken
			if got := <-held; got != [2]int64{test.models, test.tools} {
				t.Errorf("it holds %v places of model and tool calls", got)
			}
		})
	}
}
