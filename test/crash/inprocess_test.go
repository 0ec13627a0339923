package crash_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest/inprocess"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/journal/format"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

// bentStore is a store of journals to which a runtime that is broken writes other entries than ours does.
type bentStore struct {
	inprocess.Store
	// change changes an entry. It reports whether the entry is written at all.
	change func(*journal.Entry) bool

	mu      sync.Mutex
	entries []version[*written]
}

// Create implements inprocess.Store.
func (s *bentStore) Create(ctx context.Context, session inprocess.LogSession, spec *v1alpha1.JournalEntrySpec) error {
	e, err := format.Decode(spec)
	if err != nil {
		return err
	}
	if !s.change(e) {
		return nil
	}
	if spec, err = format.Encode(e); err != nil {
		return err
	}
	if err := s.Store.Create(ctx, session, spec); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	owned := metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{UID: session.UID}}}
	s.entries = append(
		s.entries,
		version[*written]{
			int64(len(s.entries)) + 1,
			false,
			writtenOf(&v1alpha1.JournalEntry{ObjectMeta: owned, Spec: *spec}),
		},
	)
	return nil
}

// local is a conversation in process, with what is counted of it.
type local struct {
	t     *testing.T
	store *bentStore
	tool  *v1alpha1.Tool
	// dies reports whether the first process dies while its tool runs.
	dies bool

	mu     sync.Mutex
	starts map[string]int
	died   bool
}

// process starts a runtime, which ends by the function that it gives.
func (l *local) process() (*inprocess.Runtime, context.CancelFunc) {
	l.t.Helper()
	ctx, end := context.WithCancel(l.t.Context())
	l.t.Cleanup(end)
	harness := builder.Harness("base").Obj()
	harness.Spec.Tools = []v1alpha1.LocalReference{{Name: l.tool.Name}}
	session := (&run{}).newSession()
	session.Namespace = ""
	runtime, err := inprocess.New(
		ctx,
		inprocess.WithStore(l.store),
		inprocess.WithSimulation(builder.Script("It is {{tool:pay}}.", builder.Calls(l.tool.Name))),
		inprocess.WithObjects(
			l.tool.DeepCopy(),
			harness,
			session,
		),
		inprocess.WithTools(func(call inprocess.Call) (string, string, int) {
			l.mu.Lock()
			l.starts[call.ID]++
			dies := l.dies && !l.died
			l.died = true
			l.mu.Unlock()
			if dies {
				end()
				<-call.Context.Done()
			}
			return "paid", "", 0
		}),
	)
	if err != nil {
		l.t.Fatal(err)
	}
	return runtime, end
}

// play plays the conversation to its end, with a second process where the first one dies.
func (l *local) play() *v1alpha1.Turn {
	l.t.Helper()
	message := (&run{}).newTurn("demo-1")
	message.Namespace = ""
	for range 2 {
		runtime, _ := l.process()
		turn, err := runtime.RunTurn(l.t.Context(), message)
		if err == nil && turn.Status.Phase == v1alpha1.TurnPhaseWaitingForToolResults {
			turn, err = runtime.Decide(l.t.Context(), turn.Name, "1-0", v1alpha1.DecisionApprove)
		}
		if err == nil {
			return turn
		}
		if !errors.Is(err, inprocess.ErrStopped) {
			l.t.Fatal(err)
		}
	}
	l.t.Fatal("both processes have died")
	return nil
}

// violations are those of the invariants of the suite.
func (l *local) violations(turn *v1alpha1.Turn) error {
	e := &evidence{whole: true, requests: func(string) int { return 0 }}
	e.local = func(_ types.UID, call string) int { return l.starts[call] }
	e.entries = l.store.entries
	e.turns = []version[*v1alpha1.Turn]{{forever - 1, false, turn}}
	return e.violations()
}

func TestInvariantsCatchABrokenRuntimeInProcess(t *testing.T) {
	whole := func(*journal.Entry) bool { return true }
	pay := builder.JobTool("pay", v1alpha1.SideEffectAtMostOnce).Obj()
	for name, test := range map[string]struct {
		change             func(*journal.Entry) bool
		tool               *v1alpha1.Tool
		dies               bool
		invariant, message string
	}{
		"nothing is broken":                              {change: whole, tool: pay},
		"nothing is broken, and it dies":                 {change: whole, tool: pay, dies: true},
		"nothing is broken, and its outcome is recorded": {change: whole, tool: approved(pay.DeepCopy())},
		"a call that ran is recorded as not executed": {func(s *journal.Entry) bool {
			changeSettled(s, func(c *v1alpha1.ToolCall) { c.State = v1alpha1.ToolCallStateNotExecuted })
			return true
		}, pay, false, notExecutedNeverStarted, "was not executed"},
		"it writes no claim before it starts a call": {func(s *journal.Entry) bool {
			return s.Claimed == nil
		}, pay, true, startedOnce, "started 2 times"},
		"it starts a call without approval": {func(s *journal.Entry) bool {
			if s.Settled != nil {
				s.Settled.Decision = v1alpha1.DecisionReject
			}
			return true
		}, approved(pay.DeepCopy()), false, approvedBeforeStart, "the journal had no approval"},
		"it numbers its steps wrong": {func(s *journal.Entry) bool {
			if s.Final {
				s.Step++
			}
			return true
		}, pay, false, journalWhole, "whose step 1 is open"},
	} {
		t.Run(name, func(t *testing.T) {
			l := &local{
				t:      t,
				store:  &bentStore{Store: inprocess.NewMemoryStore(), change: test.change},
				tool:   test.tool,
				dies:   test.dies,
				starts: map[string]int{},
			}
			found := l.violations(l.play())
			if test.invariant == "" {
				if found != nil {
					t.Errorf("found %v", found)
				}
				return
			}
			if found == nil || !strings.Contains(found.Error(), test.invariant+": ") ||
				!strings.Contains(found.Error(), test.message) {
				t.Errorf("found %v, want %s and %q", found, test.invariant, test.message)
			}
		})
	}
}
