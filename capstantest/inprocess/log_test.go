package inprocess_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest/inprocess"
	"github.com/capstan-dev/capstan/internal/runtime/tool/builtin"
)

func init() {
	builtin.Register(builtin.Capability{Name: "test_broken", Tools: []builtin.Tool{
		{
			Name: "fail_inside", Description: "Fails.",
			Run: func(context.Context, builtin.Call) (any, error) { return nil, errors.New("no such table") },
		},
		{
			Name: "fail_once", Description: "Fails.", SideEffect: v1alpha1.SideEffectAtMostOnce,
			Run: func(context.Context, builtin.Call) (any, error) { panic("index out of range") },
		},
	}})
}

// logged is the text of a log.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(line)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// TestErrorsThatNoTurnShows are in the log, with the names that lead to the Turn and the tool.
func TestErrorsThatNoTurnShows(t *testing.T) {
	for call, cause := range map[string]string{"fail_inside": "no such table", "fail_once": "index out of range"} {
		t.Run(call, func(t *testing.T) {
			log := &logged{}
			runtime := start(t, inprocess.WithLog(slog.New(slog.NewTextHandler(log, nil))),
				inprocess.WithYAML(`{apiVersion: capstan.dev/v1alpha1, kind: Session, metadata: {name: demo}, spec: {
					harnessRef: {name: base}, capabilities: [{builtin: test_broken}]}}`),
				inprocess.WithSimulation(calling([]string{call})))
			turn := run(t, runtime, message("demo-1", "Go."))
			if got := turn.Status.ToolCalls[0]; got.Reason != v1alpha1.ToolCallReasonInternalError ||
				strings.Contains(got.Preview, cause) {
				t.Errorf("the call is %+v", got)
			}
			for _, word := range []string{"Failed to run a built-in tool", cause, "turn=demo-1", "call=1-0", "tool=" + call} {
				if !strings.Contains(log.String(), word) {
					t.Errorf("the log lacks %q: %s", word, log)
				}
			}
		})
	}
	t.Run("a step", func(t *testing.T) {
		log, store := &logged{}, &refusing{Store: inprocess.NewMemoryStore()}
		runtime := start(t, inprocess.WithLog(slog.New(slog.NewTextHandler(log, nil))), inprocess.WithStore(store),
			inprocess.WithSimulation(calling([]string{"look"})),
			inprocess.WithTools(func(inprocess.Call) (string, string, int) {
				store.left.Store(1)
				return "", "", 0
			}))
		if turn := run(t, runtime, message("demo-1", "Go.")); reason(turn) != "False ProcessingError" {
			t.Errorf("the Turn ended with %s", reason(turn))
		}
		if !strings.Contains(log.String(), "the disk is full") || !strings.Contains(log.String(), "turn=demo-1") {
			t.Errorf("the log is %s", log)
		}
	})
	if _, err := inprocess.New(t.Context(), inprocess.WithLog(nil)); err == nil {
		t.Error("a missing logger was accepted")
	}
}
