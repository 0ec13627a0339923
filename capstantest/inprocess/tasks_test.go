package inprocess_test

import (
	"testing"
	"time"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest/inprocess"
	sites "github.com/capstan-dev/capstan/internal/testing/site"
)

// Rules: MCP-02.
func TestATaskEndsACallOrIsCancelledWithItsTurn(t *testing.T) {
	s := sites.NewTasks(t)
	runtime := start(t, append(reaching(s.Server), searching(s.URL, ""),
		inprocess.WithSimulation(calling([]string{"mcp_search__echo"})))...)
	waitFor := func(what string, holds func() bool) {
		t.Helper()
		for deadline := time.After(30 * time.Second); !holds(); {
			select {
			case <-deadline:
				t.Fatal(what)
			case <-time.After(10 * time.Millisecond):
			}
		}
	}
	ended := make(chan *v1alpha1.Turn, 1)
	go func() {
		turn, err := runtime.RunTurn(t.Context(), message("demo-1", "Go."))
		if err != nil {
			t.Error(err)
		}
		ended <- turn
	}()
	waitFor("the server is not asked for the task", func() bool {
		_, asked, _ := s.Counts()
		return asked > 0
	})
	if _, err := runtime.Cancel(t.Context(), "demo-1"); err != nil {
		t.Fatal(err)
	}
	if turn := <-ended; turn.Status.Phase != v1alpha1.TurnPhaseCancelled {
		t.Errorf("the Turn is %s", turn.Status.Phase)
	}
	waitFor("the task is not cancelled", func() bool {
		_, _, cancelled := s.Counts()
		return cancelled == 1
	})
	s.End(`"status":"completed","result":{"content":[{"type":"text","text":"done"}]}`)
	turn := run(t, runtime, message("demo-2", "Again."))
	if call := turn.Status.ToolCalls[0]; call.State != v1alpha1.ToolCallStateSucceeded {
		t.Errorf("the call is %+v", call)
	}
}
