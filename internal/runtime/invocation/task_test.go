package invocation

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/invocation/executor"
	"github.com/capstan-dev/capstan/internal/runtime/journal"
	"github.com/capstan-dev/capstan/internal/runtime/journal/memory"
	"github.com/capstan-dev/capstan/internal/runtime/tool/definition"
	"github.com/capstan-dev/capstan/internal/runtime/turnstate"
	"github.com/capstan-dev/capstan/internal/testing/site"
)

// tasked is a Turn with a call at a server that makes tasks of calls.
func tasked(s *site.Tasks, class v1alpha1.SideEffect) (turnstate.Turn, Call) {
	turn, call := acting(v1alpha1.ToolExecutorMCP, class)
	call.Name = "mcp_search__echo"
	d := definition.OfServer(offering(s.Site, class)).Find(call.Name)
	d.Pin(&call)
	return turn, Call{Call: call, Definition: d}
}

// process carries a call out in a process of its own, until end is called.
func process(t *testing.T, store journal.Store, s *site.Tasks, turn turnstate.Turn, c Call) (
	ended <-chan error, outcome *End, end context.CancelCauseFunc,
) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	c.Attempt = NewAttempt(&Line{})
	done, result := make(chan error, 1), &End{}
	run := onStore(t, store).reaching(s.Site)
	go func() {
		var err error
		*result, err = run.CarryOut(ctx, turn, c)
		done <- err
	}()
	return done, result, cancel
}

// inProgress waits until a server was asked for a task so many times.
func inProgress(t *testing.T, s *site.Tasks, times int) {
	t.Helper()
	for deadline := time.After(30 * time.Second); ; {
		if _, asked, _ := s.Counts(); asked >= times {
			return
		}
		select {
		case <-deadline:
			t.Fatal("the server is not asked for the task")
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// Rules: DUR-01, MCP-02.
func TestATaskOutlivesTheProcessThatHasMadeIt(t *testing.T) {
	s, store := site.NewTasks(t), memory.New()
	turn, c := tasked(s, v1alpha1.SideEffectAtMostOnce)
	for range 2 {
		_, asked, _ := s.Counts()
		ended, _, end := process(t, store, s, turn, c)
		inProgress(t, s, asked+1)
		end(errors.New("the process ends"))
		if err := <-ended; err == nil {
			t.Fatal("a call whose task continues has ended with its process")
		}
	}
	s.End(`"status":"completed","result":{"content":[{"type":"text","text":"done"}]}`)
	ended, result, _ := process(t, store, s, turn, c)
	if err := <-ended; err != nil || result.Outcome.State != v1alpha1.ToolCallStateSucceeded ||
		result.Outcome.Result == nil || *result.Outcome.Result != "done" {
		t.Fatalf("it ends with %+v, %v", result.Outcome, err)
	}
	if made, _, cancelled := s.Counts(); made != 1 || cancelled != 0 {
		t.Errorf("%d tasks were made, %d cancelled", made, cancelled)
	}
	if n := onStore(t, store).entries(); n != 3 {
		t.Errorf("the journal has %d entries, want those of the claim, the task and the outcome", n)
	}
}

// Rules: DUR-01, MCP-02.
func TestHowATaskEnds(t *testing.T) {
	for name, c := range map[string]struct {
		state     string
		forgotten bool
		want      v1alpha1.ToolCallState
		reason    string
		cancelled int
	}{
		"an error of the tool": {
			`"status":"completed","result":{"content":[{"type":"text","text":"no"}],"isError":true}`, false,
			v1alpha1.ToolCallStateFailed, v1alpha1.ToolCallReasonToolError, 0,
		},
		"an error of the server": {
			`"status":"failed","error":{"code":-32603,"message":"no"}`, false,
			v1alpha1.ToolCallStateFailed, v1alpha1.ToolCallReasonServerError, 0,
		},
		"cancelled by the server": {
			`"status":"cancelled"`, false, v1alpha1.ToolCallStateFailed, v1alpha1.ToolCallReasonToolError, 0,
		},
		"a question": {
			`"status":"input_required","inputRequests":{}`, false,
			v1alpha1.ToolCallStateFailed, v1alpha1.ToolCallReasonToolError, 1,
		},
		"forgotten": {"", true, v1alpha1.ToolCallStateUnknown, v1alpha1.ToolCallReasonTaskLost, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := site.NewTasks(t)
			s.End(c.state)
			if c.forgotten {
				s.Forget()
			}
			turn, call := tasked(s, v1alpha1.SideEffectAtMostOnce)
			ended, result, _ := process(t, memory.New(), s, turn, call)
			if err := <-ended; err != nil || result.Outcome.State != c.want || result.Outcome.Reason != c.reason {
				t.Errorf("it ends with %+v, %v", result.Outcome, err)
			}
			if _, _, cancelled := s.Counts(); cancelled != c.cancelled {
				t.Errorf("the task was cancelled %d times", cancelled)
			}
		})
	}
}

// Rules: MCP-02.
func TestATaskIsCancelledWithItsTurn(t *testing.T) {
	s := site.NewTasks(t)
	turn, c := tasked(s, v1alpha1.SideEffectAtMostOnce)
	ended, _, end := process(t, memory.New(), s, turn, c)
	inProgress(t, s, 1)
	end(executor.ErrCallEnded)
	if err := <-ended; err == nil {
		t.Error("a call that nobody waits for has an outcome")
	}
	if _, _, cancelled := s.Counts(); cancelled != 1 {
		t.Errorf("the task was cancelled %d times", cancelled)
	}
}

// Rules: DUR-01, MCP-02.
func TestACallThatWasSentIsNotCalledNotExecuted(t *testing.T) {
	s := site.NewTasks(t)
	turn, c := tasked(s, v1alpha1.SideEffectAtMostOnce)
	c.Attempt = NewAttempt(&Line{})
	run := newBench(t).reaching(s.Site)
	ctx, end := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := run.CarryOut(ctx, turn, c)
		done <- err
	}()
	inProgress(t, s, 1)
	end()
	if err := <-done; err == nil {
		t.Fatal("a call whose task continues has ended")
	}
	c.Definition = nil
	got, err := run.CarryOut(t.Context(), turn, c)
	if err != nil || got.Outcome.State != v1alpha1.ToolCallStateUnknown {
		t.Errorf("the same process continues after its MCPServer was changed: %+v, %v", got.Outcome, err)
	}
}

// Rules: MCP-02.
func TestTheIDOfATaskHasNoSecret(t *testing.T) {
	const key = "s3cr3t-of-the-task"
	s := site.NewTasks(t)
	s.Name("task-" + key)
	turn, c := tasked(s, v1alpha1.SideEffectAtMostOnce)
	server := c.Definition.Remote().Server.DeepCopy()
	server.Spec.Headers = []v1alpha1.HTTPHeader{
		{Name: "Authorization", SecretKeyRef: &v1alpha1.SecretKeyReference{Name: "a", Key: "b"}},
	}
	definition.SetDiscovered(&server.Status, &server.Spec)
	c.Definition = definition.OfServer(server).Find(c.Call.Name)
	c.Definition.Pin(&c.Call)
	c.Attempt = NewAttempt(&Line{})
	store := memory.New()
	run := onStore(t, store).reaching(s.Site)
	run.Secrets = func(context.Context, string, string) (*corev1.Secret, error) {
		return &corev1.Secret{Data: map[string][]byte{"b": []byte("Bearer " + key)}}, nil
	}
	got, err := run.CarryOut(t.Context(), turn, c)
	if err != nil || got.Outcome.State != v1alpha1.ToolCallStateUnknown ||
		got.Outcome.Reason != v1alpha1.ToolCallReasonTaskLost {
		t.Errorf("the call ends with %+v, %v", got.Outcome, err)
	}
	if _, asked, cancelled := s.Counts(); asked != 0 || cancelled != 1 {
		t.Errorf("the server was asked for the task %d times, and to cancel it %d times", asked, cancelled)
	}
}
