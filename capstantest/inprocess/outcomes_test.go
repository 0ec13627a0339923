package inprocess_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest/inprocess"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/journal/journaltest"
)

// partStore counts the parts with outcomes, and fails to store them while it refuses.
type partStore struct {
	inprocess.Store
	mu      sync.Mutex
	parts   int
	refuses bool
}

func (p *partStore) Create(ctx context.Context, s journal.Session, e *v1alpha1.JournalEntrySpec) error {
	p.mu.Lock()
	refuses := p.refuses && len(journaltest.Content(e).Outcomes) > 0
	if len(journaltest.Content(e).Outcomes) > 0 {
		p.parts++
	}
	p.mu.Unlock()
	if refuses {
		return errors.New("there is no space")
	}
	return p.Store.Create(ctx, s, e)
}

// resultTexts returns the tool results that the model reads.
func resultTexts(t *testing.T, r *inprocess.Runtime) []string {
	t.Helper()
	messages, err := r.Messages(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, m := range messages {
		if m.ToolName != "" {
			texts = append(texts, m.PlainText()+m.Error)
		}
	}
	return texts
}

func TestOutcomesOutliveTheRuntimeWhoseTurnWaits(t *testing.T) {
	long := strings.Repeat("y", 40<<10)
	for name, test := range map[string]struct {
		refuses bool
		looked  int32
	}{
		"the part is written": {looked: 1},
		"the part is refused": {refuses: true, looked: 2},
	} {
		t.Run(name, func(t *testing.T) {
			store := &partStore{Store: inprocess.NewMemoryStore(), refuses: test.refuses}
			script := calling([]string{"look", "pay", "ask"})
			var looked, paid atomic.Int32
			tools := inprocess.WithTools(func(call inprocess.Call) (string, string, int) {
				if call.Tool == "pay" {
					paid.Add(1)
				} else {
					looked.Add(1)
				}
				return call.Tool + long, "", 0
			})
			life, die := context.WithCancel(t.Context())
			first := startIn(life, t, inprocess.WithStore(store), inprocess.WithSimulation(script), tools)
			turn := run(t, first, message("demo-1", "Go."))
			shown := turn.Status.ToolCalls
			if turn.Status.Phase != v1alpha1.TurnPhaseWaitingForToolResults || turn.Status.Summary.Calls != "2/3" ||
				store.parts == 0 {
				t.Fatalf("the first runtime ended with %+v, %d parts", turn.Status, store.parts)
			}
			die()
			second := start(t, inprocess.WithStore(store), inprocess.WithSimulation(script), tools)
			turn = run(t, second, message("demo-1", "Go."))
			if !slices.EqualFunc(turn.Status.ToolCalls, shown, func(a, b v1alpha1.ToolCall) bool {
				return a.State == b.State && a.Reason == b.Reason && a.Preview == b.Preview
			}) {
				t.Errorf("the second runtime shows %+v, the first %+v", turn.Status.ToolCalls, shown)
			}
			turn, err := second.Answer(t.Context(), "demo-1", "1-2", "yes")
			if err != nil || reason(turn) != "True EndTurn" {
				t.Fatalf("at the end: %+v, %v", turn, err)
			}
			if got := resultTexts(t, second); !slices.Equal(got, []string{"look" + long, "pay" + long, "yes"}) {
				t.Errorf("the model received %.200q", got)
			}
			if looked.Load() != test.looked || paid.Load() != 1 {
				t.Errorf("looked %d times, paid %d times", looked.Load(), paid.Load())
			}
		})
	}
}

// A part that the store does not take does not end the Turn.
func TestATurnEndsWithOutcomesThatNoPartHolds(t *testing.T) {
	store := &partStore{Store: inprocess.NewMemoryStore(), refuses: true}
	r := start(
		t,
		inprocess.WithStore(store),
		inprocess.WithSimulation(calling([]string{"look", "ask"})),
		inprocess.WithTools(returns("seen")),
	)
	run(t, r, message("demo-1", "Go."))
	turn, err := r.Answer(t.Context(), "demo-1", "1-1", "yes")
	if err != nil || reason(turn) != "True EndTurn" || store.parts == 0 {
		t.Fatalf("at the end: %+v, %v, %d parts", turn, err, store.parts)
	}
	if got := resultTexts(t, r); !slices.Equal(got, []string{"seen", "yes"}) {
		t.Errorf("the model received %q", got)
	}
}

func TestAnEndInProcessTakesInTheOutcomesOfAWait(t *testing.T) {
	long := strings.Repeat("z", 40<<10)
	store := inprocess.NewMemoryStore()
	script := calling([]string{"look", "ask"})
	life, die := context.WithCancel(t.Context())
	first := startIn(
		life,
		t,
		inprocess.WithStore(store),
		inprocess.WithSimulation(script),
		inprocess.WithTools(returns(long)),
	)
	run(t, first, message("demo-1", "Go."))
	die()
	second := start(t, inprocess.WithStore(store), inprocess.WithSimulation(script), inprocess.WithTools(returns("again")))
	run(t, second, message("demo-1", "Go."))
	if turn, err := second.Cancel(t.Context(), "demo-1"); err != nil || turn.Status.Phase != v1alpha1.TurnPhaseCancelled {
		t.Fatalf("the Turn is %+v, %v", turn, err)
	}
	if got := resultTexts(t, second); len(got) == 0 || got[0] != long {
		t.Errorf("the model received %.200q", got)
	}
}

// Sixteen results of 64 KiB each would be 200 MiB. The cache of the journal takes 64 MiB of it at most.
func TestTurnsThatWaitInProcessHoldNoTexts(t *testing.T) {
	const turns, calls = 200, 16
	text := strings.Repeat("w", 64<<10)
	script := calling(append(slices.Repeat([]string{"look"}, calls), "ask"))
	script.Response = &v1alpha1.SimulatedResponse{Type: v1alpha1.SimulatedResponseTypeFixed, Text: "Done."}
	var sessions strings.Builder
	for i := range turns {
		fmt.Fprintf(
			&sessions,
			"---\napiVersion: capstan.dev/v1alpha1\nkind: Session\nmetadata: {name: s-%d}\nspec: {harnessRef: {name: base}}\n",
			i,
		)
	}
	r := start(
		t,
		inprocess.WithStore(journaltest.OnDisk(t.TempDir())),
		inprocess.WithYAML(sessions.String()),
		inprocess.WithSimulation(script),
		inprocess.WithTools(func(inprocess.Call) (string, string, int) { return strings.Clone(text), "", 0 }),
	)
	before := heap()
	for i := range turns {
		turn := message(fmt.Sprintf("demo-%d", i), "Go.")
		turn.Spec.SessionRef.Name = fmt.Sprintf("s-%d", i)
		if turn = run(t, r, turn); turn.Status.Phase != v1alpha1.TurnPhaseWaitingForToolResults {
			t.Fatalf("the Turn is %+v", turn.Status)
		}
	}
	if used := heap() - before; used > 100<<20 {
		t.Errorf("%d Turns that wait take %d MiB", turns, used>>20)
	}
	runtime.KeepAlive(r)
}

// heap returns the bytes in use after a collection.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}
