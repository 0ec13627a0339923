package inprocess_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest/inprocess"
)

// Rules: RT-08.
func TestAnotherRuntimeContinuesATurn(t *testing.T) {
	store := inprocess.NewMemoryStore()
	script := calling([]string{"look", "pay"})
	life, die := context.WithCancel(t.Context())
	var looked, paid atomic.Int32
	paying := make(chan struct{})
	first := startIn(life, t, inprocess.WithStore(store), inprocess.WithSimulation(script),
		inprocess.WithTool("look", func(call inprocess.Call) (string, string, int) {
			looked.Add(1)
			<-call.Context.Done()
			return "", "", 1
		}),
		inprocess.WithTool("pay", func(call inprocess.Call) (string, string, int) {
			paid.Add(1)
			close(paying)
			<-call.Context.Done()
			return "", "", 1
		}))
	go func() {
		<-paying
		die()
	}()
	left, err := first.RunTurn(t.Context(), message("demo-1", "Go."))
	if !errors.Is(err, inprocess.ErrStopped) {
		t.Fatalf("the first runtime ended with %+v, %v", left, err)
	}
	second := start(t, inprocess.WithStore(store), inprocess.WithSimulation(script),
		inprocess.WithTools(func(call inprocess.Call) (string, string, int) {
			if call.Tool == "pay" {
				paid.Add(1)
			}
			return call.Tool, "", 0
		}))
	turn := run(t, second, message("demo-1", "Go."))
	if reason(turn) != "True EndTurn" || paid.Load() != 1 {
		t.Fatalf("the second runtime ended with %+v; paid %d times", turn.Status, paid.Load())
	}
	if look := turn.Status.ToolCalls[0]; look.State != v1alpha1.ToolCallStateSucceeded {
		t.Errorf("a Pure tool: %+v", look)
	}
	if pay := turn.Status.ToolCalls[1]; pay.State != v1alpha1.ToolCallStateUnknown ||
		pay.Reason != v1alpha1.ToolCallReasonManagerLost {
		t.Errorf("an AtMostOnce tool: %+v", pay)
	}
}

func TestAnotherRuntimeUsesTheResultsOfClients(t *testing.T) {
	store := inprocess.NewMemoryStore()
	script := calling([]string{"ask", "ask", "guarded"})
	life, die := context.WithCancel(t.Context())
	first := startIn(life, t, inprocess.WithStore(store), inprocess.WithSimulation(script))
	run(t, first, message("demo-1", "Go."))
	if _, err := first.Answer(t.Context(), "demo-1", "1-0", "One."); err != nil {
		t.Fatal(err)
	}
	die()
	second := start(t, inprocess.WithStore(store), inprocess.WithSimulation(script), inprocess.WithTools(returns("paid")))
	turn := run(t, second, message("demo-1", "Go."))
	if turn.Status.Phase != v1alpha1.TurnPhaseWaitingForToolResults || turn.Status.Summary.Calls != "1/3" {
		t.Fatalf("the second runtime ended with %+v", turn.Status)
	}
	if _, err := second.Answer(t.Context(), "demo-1", "1-1", "Two."); err != nil {
		t.Fatal(err)
	}
	turn, err := second.Decide(t.Context(), "demo-1", "1-2", v1alpha1.DecisionApprove)
	if err != nil || reason(turn) != "True EndTurn" || turn.Status.Summary.Calls != "3/3" {
		t.Errorf("at the end: %+v, %v", turn, err)
	}
}

func TestANameIsUsedOnce(t *testing.T) {
	store := inprocess.NewMemoryStore()
	first := start(t, inprocess.WithStore(store), inprocess.WithSimulation(calling()))
	run(t, first, message("demo-1", "Hello."))
	second := start(t, inprocess.WithStore(store), inprocess.WithSimulation(calling([]string{"ask"})))
	for name, runtime := range map[string]*inprocess.Runtime{"the same": first, "another": second} {
		again := run(t, runtime, message("demo-1", "Hello."))
		if reason(again) != "True AlreadyRan" || again.Status.Output != "Done." {
			t.Errorf("%s runtime, same message: %s", name, reason(again))
		}
		if other := run(t, runtime, message("demo-1", "Goodbye.")); reason(other) != "False NameReused" {
			t.Errorf("%s runtime, other message: %s", name, reason(other))
		}
	}
	waits := run(t, second, message("demo-2", "Hello."))
	if attached := run(t, second, message("demo-2", "Hello.")); attached.UID != waits.UID {
		t.Error("a Turn that is in progress was started again")
	}
	if _, err := second.RunTurn(t.Context(), message("demo-2", "Goodbye.")); err == nil {
		t.Error("a name that is in progress was used for another message")
	}
}

func TestASuspendedTurnIsNotRun(t *testing.T) {
	runtime := start(t, inprocess.WithSimulation(calling()))
	turn := message("demo-1", "Hello.")
	turn.Spec.Suspend = new(true)
	if _, err := runtime.RunTurn(t.Context(), turn); err == nil || !strings.Contains(err.Error(), "it is suspended") {
		t.Errorf("a suspended Turn: %v", err)
	}
	turn.Spec.Suspend = new(false)
	if resumed := run(t, runtime, turn); reason(resumed) != "True EndTurn" {
		t.Errorf("a Turn that was resumed: %s", reason(resumed))
	}
}

func TestTurnsOfASessionDoNotInterleave(t *testing.T) {
	const sessions, turns = 8, 6
	yaml := ""
	for i := range sessions {
		yaml += fmt.Sprintf(
			"---\n{apiVersion: capstan.dev/v1alpha1, kind: Session, metadata: {name: s-%d}, spec: {harnessRef: {name: base}}}\n",
			i,
		)
	}
	var mu sync.Mutex
	order := map[string][]string{}
	runtime := start(
		t,
		inprocess.WithYAML(yaml),
		inprocess.WithSimulation(calling([]string{"look", "look", "pay"}, []string{"look"})),
		inprocess.WithTools(func(call inprocess.Call) (string, string, int) {
			mu.Lock()
			defer mu.Unlock()
			if last := len(order[call.Session]) - 1; last < 0 || order[call.Session][last] != call.Turn {
				order[call.Session] = append(order[call.Session], call.Turn)
			}
			return "", "", 0
		}),
	)
	var all sync.WaitGroup
	for i := range sessions {
		for j := range turns {
			all.Go(func() {
				turn := message(fmt.Sprintf("t-%d-%d", i, j), "Go.")
				turn.Spec.SessionRef.Name = fmt.Sprintf("s-%d", i)
				ended, err := runtime.RunTurn(t.Context(), turn)
				if err != nil || reason(ended) != "True EndTurn" {
					t.Errorf("%s: %v", turn.Name, err)
				}
			})
		}
	}
	all.Wait()
	for session, ran := range order {
		if len(ran) != turns {
			t.Errorf("in %s the tools of Turns ran in the order %v", session, ran)
		}
	}
	messages, err := runtime.Messages(t.Context(), "s-0")
	if err != nil || len(messages) != turns*8 {
		t.Errorf("%d messages, %v", len(messages), err)
	}
}

func TestCancelling(t *testing.T) {
	hangs := make(chan struct{}, 1)
	runtime := start(t, inprocess.WithSimulation(calling([]string{"pay"})),
		inprocess.WithTools(func(call inprocess.Call) (string, string, int) {
			hangs <- struct{}{}
			<-call.Context.Done()
			return "", "", 1
		}))
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-hangs
		cancel()
	}()
	turn, err := runtime.RunTurn(ctx, message("demo-1", "Go."))
	if !errors.Is(err, context.Canceled) || reason(turn) != "False Cancelled" ||
		turn.Status.ToolCalls[0].State != v1alpha1.ToolCallStateUnknown {
		t.Errorf("by the context: %+v, %v", turn, err)
	}

	ended := make(chan *v1alpha1.Turn, 2)
	for _, name := range []string{"demo-2", "demo-3"} {
		go func() {
			turn, err := runtime.RunTurn(context.WithoutCancel(t.Context()), message(name, "Go."))
			if err != nil {
				t.Error(err)
			}
			ended <- turn
		}()
		await(t, runtime, name, func(*v1alpha1.Turn) bool { return true })
	}
	<-hangs
	queued, err := runtime.Cancel(t.Context(), "demo-3")
	if err != nil || reason(queued) != "False Cancelled" || queued.Status.Summary.StartedAt != nil {
		t.Errorf("in the queue: %+v, %v", queued, err)
	}
	if _, err := runtime.Cancel(t.Context(), "demo-2"); err != nil {
		t.Error(err)
	}
	for range 2 {
		if turn := <-ended; reason(turn) != "False Cancelled" {
			t.Errorf("%s ended with %s", turn.Name, reason(turn))
		}
	}
	spec := message("demo-4", "Go.")
	spec.Spec.DesiredState = v1alpha1.DesiredStateCancelled
	if turn := run(t, runtime, spec); reason(turn) != "False Cancelled" || turn.Status.Summary.StartedAt != nil {
		t.Errorf("by its spec: %s, %+v", reason(turn), turn.Status.Summary)
	}
}

// refusing is a Store that refuses to write entries.
type refusing struct {
	inprocess.Store
	left atomic.Int32
}

func (r *refusing) Create(ctx context.Context, s inprocess.LogSession, e *v1alpha1.JournalEntrySpec) error {
	if r.left.Add(-1) >= 0 {
		return fmt.Errorf("the disk is full: %w", inprocess.ErrRefused)
	}
	return r.Store.Create(ctx, s, e)
}

func TestAStepThatCannotBeClosedDoesNotLeaveItsSessionActive(t *testing.T) {
	// What an act step has come to is refused so often: the response of a model would be kept until it can be written.
	var refuse atomic.Int32
	store := &refusing{Store: inprocess.NewMemoryStore()}
	runtime := start(t, inprocess.WithStore(store), inprocess.WithSimulation(calling([]string{"look"})),
		inprocess.WithTools(func(inprocess.Call) (string, string, int) {
			store.left.Store(refuse.Load())
			return "", "", 0
		}))
	refuse.Store(1)
	if turn := run(t, runtime, message("demo-1", "Hello.")); reason(turn) != "False ProcessingError" {
		t.Errorf("the Turn ended with %s", reason(turn))
	}
	refuse.Store(1000)
	if _, err := runtime.RunTurn(t.Context(), message("demo-2", "Hello.")); !errors.Is(err, inprocess.ErrRefused) {
		t.Errorf("when nothing can be written: %v", err)
	}
	refuse.Store(0)
	store.left.Store(0)
	if turn := run(t, runtime, message("demo-3", "Hello.")); reason(turn) != "True EndTurn" {
		t.Errorf("afterwards: %s", reason(turn))
	}
	events, err := runtime.Events(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	failed := 0
	for _, e := range events {
		if e.Type == "turn.failed" {
			failed++
		}
	}
	if failed != 1 {
		t.Errorf("turn.failed came %d times", failed)
	}
}

func TestALogThatIsFull(t *testing.T) {
	runtime := start(
		t,
		inprocess.WithSimulation(calling([]string{"look"}, []string{"look"}, []string{"look"})),
		inprocess.WithTools(returns(string(make([]byte, 40_000)))),
		inprocess.WithYAML(
			"{apiVersion: capstan.dev/v1alpha1, kind: Session, metadata: {name: demo}, spec: {harnessRef: {name: base}, "+
				"journalLimit: 64Ki}}",
		),
	)
	if turn := run(t, runtime, message("demo-1", "Hello.")); reason(turn) != "False JournalFull" {
		t.Errorf("the Turn ended with %s", reason(turn))
	}
}
