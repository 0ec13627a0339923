package turn

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/fairshare"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/journal/journaltest"
	"github.com/capstan-dev/capstan/internal/runtime/model"
	"github.com/capstan-dev/capstan/internal/testing/builder"
)

// caller is a model that makes the same calls in the first step of every Turn.
type caller []model.ToolCall

func (c caller) Generate(context.Context, model.Request) (*model.Response, error) {
	return &model.Response{ToolCalls: slices.Clone(c), FinishReason: model.FinishToolCalls}, nil
}

// heap returns the bytes in use after a collection.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// 30 Turns of one tenant, each with 16 results of 64 KiB beside the call of a client, would hold 30 MiB.
func TestTurnsThatWaitHoldLittleMemory(t *testing.T) {
	const turns, calls = 30, 16
	w := newWorld(t)
	w.store = journaltest.OnDisk(t.TempDir())
	w.respond = long
	w.begin(w.site("look", v1alpha1.SideEffectPure), builder.ClientTool("human").Obj())
	m := w.manager(0)
	made := caller(slices.Repeat([]model.ToolCall{{ProviderID: "p", Name: "look", Arguments: "{}"}}, calls))
	made = append(made, model.ToolCall{ProviderID: "h", Name: "human", Arguments: "{}"})
	m.Steps.Models = model.Registry{"Test": func(*v1alpha1.Model, model.Access) (model.Driver, error) { return made, nil }}
	m.Steps.Log = journal.New(w.store, journal.Options{Clock: w.present, CacheBytes: 1 << 20})
	m.Turns = fairshare.NewTurns(fairshare.TurnsOptions{Active: turns})
	names := make([]string, turns)
	for i := range names {
		names[i] = w.anotherSession(i)
	}
	before := heap()
	for _, name := range names {
		m.waitsAs(name)
	}
	texts := 0
	for _, name := range names {
		texts += m.textsInMemory(w.turnNamed(name))
	}
	if texts > turns*4<<10 {
		t.Errorf("%d Turns that wait have %d KiB of texts in memory", turns, texts>>10)
	}
	if used := heap() - before; used > 4<<20 {
		t.Errorf("%d Turns that wait take %d MiB", turns, used>>20)
	}
	runtime.KeepAlive(m)
}

// anotherSession creates a Session with an active Turn, whose name it returns.
func (w *world) anotherSession(i int) string {
	w.t.Helper()
	session := builder.Session(fmt.Sprintf("session-%d", i)).Obj()
	w.create(session)
	turn := w.newTurn(fmt.Sprintf("turn-%d", i), "Hello")
	turn.Spec.SessionRef.Name = session.Name
	w.create(turn)
	session.Status.ActiveTurn = &v1alpha1.ActiveTurn{Name: turn.Name, UID: turn.UID}
	w.updateStatus(session)
	return turn.Name
}

// waitsAs reconciles a Turn until it waits for ToolResults and has nothing to do any more.
func (m *manager) waitsAs(name string) {
	m.w.t.Helper()
	for range 200 {
		next, err := m.passOf(name)
		if err != nil {
			m.w.t.Fatal(err)
		}
		turn := m.w.turnNamed(name)
		switch {
		case m.Activities.Len() > 0:
			select {
			case <-m.woken:
			case <-time.After(10 * time.Second):
				m.w.t.Fatal("no activity ends")
			}
		case turn.Status.Phase == v1alpha1.TurnPhaseWaitingForToolResults && next.RequeueAfter == 0:
			return
		default:
			m.w.sleep(next.RequeueAfter)
		}
	}
	m.w.t.Fatalf("Turn %s is %+v", name, m.w.turnNamed(name).Status)
}
