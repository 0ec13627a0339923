package inprocess_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest/inprocess"
	"github.com/capstan-dev/capstan/internal/runtime/background"
	"github.com/capstan-dev/capstan/internal/runtime/record/memory"
	"github.com/capstan-dev/capstan/internal/runtime/record/recordtest"
)

// building has a Session whose model may build in the background.
const building = `
apiVersion: capstan.dev/v1alpha1
kind: Tool
metadata: {name: build}
spec:
  description: Builds.
  inputSchema: {type: object, properties: {target: {type: string}}}
  job: {image: i, command: [/build], background: Allow}
---
apiVersion: capstan.dev/v1alpha1
kind: Tool
metadata: {name: deploy}
spec: {description: Deploys., policy: RequiresApproval, job: {image: i, command: [/deploy], background: Allow}}
---
apiVersion: capstan.dev/v1alpha1
kind: Harness
metadata: {name: builder}
spec:
  systemPrompt: You build.
  capabilities: [{builtin: background_tasks}]
  tools: [{name: build}, {name: deploy}, {name: pay}]
---
apiVersion: capstan.dev/v1alpha1
kind: Session
metadata: {name: built}
spec: {harnessRef: {name: builder}}
`

// spawning is a model that starts each tool in the background when it is told to build, and repeats its message
// otherwise.
func spawning(tools ...string) v1alpha1.Simulation {
	var calls []v1alpha1.SimulatedToolCall
	for i, name := range tools {
		arguments := background.Wrap(name, fmt.Sprintf(`{"target":"%d"}`, i))
		calls = append(calls, v1alpha1.SimulatedToolCall{Name: background.SpawnTool, RawArguments: &arguments})
	}
	return v1alpha1.Simulation{
		Response: &v1alpha1.SimulatedResponse{Text: "{{input}} {{tool:" + background.SpawnTool + "}}"},
		ToolCalls: &v1alpha1.SimulatedToolCalls{Conditional: []v1alpha1.SimulatedRule{
			{Contains: "Build it.", Sequence: []v1alpha1.SimulatedStep{{Calls: calls}, {}}},
		}},
	}
}

func builds(name string) *v1alpha1.Turn {
	turn := message(name, "Build it.")
	turn.Spec.SessionRef.Name = "built"
	turn.Spec.SubmittedBy = "ana"
	return turn
}

// taskOf returns the id of the task that a call has started.
func taskOf(t testing.TB, runtime *inprocess.Runtime, turn *v1alpha1.Turn, call int) string {
	t.Helper()
	messages, err := runtime.Messages(t.Context(), turn.Spec.SessionRef.Name)
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, m := range messages {
		var result struct {
			ID string `json:"task_id"`
		}
		if json.Unmarshal([]byte(m.PlainText()), &result) == nil && result.ID != "" {
			ids = append(ids, result.ID)
		}
	}
	if call >= len(ids) {
		t.Fatalf("the tasks are %v: %+v", ids, turn.Status.ToolCalls)
	}
	return ids[call]
}

// Rules: TOOL-20, TASK-01.
func TestATaskOutlivesItsTurnAndItsEndIsAMessage(t *testing.T) {
	ended := make(chan struct{})
	var runs atomic.Int32
	runtime := start(t, inprocess.WithYAML(building), inprocess.WithDefaultSession("built"),
		inprocess.WithSimulation(spawning("build")),
		inprocess.WithTool("build", func(call inprocess.Call) (string, string, int) {
			runs.Add(1)
			<-ended
			return "built " + call.Arguments, "", 0
		}))
	turn := run(t, runtime, builds("demo-1"))
	call := turn.Status.ToolCalls[0]
	if call.Executor != v1alpha1.ToolExecutorTask || call.Background != "build" ||
		call.State != v1alpha1.ToolCallStateSucceeded || call.Name != background.SpawnTool {
		t.Fatalf("the call is %+v", call)
	}
	id := taskOf(t, runtime, turn, 0)
	close(ended)
	delivered, err := runtime.AwaitTask(t.Context(), id)
	if err != nil || delivered.Status.Phase != v1alpha1.TurnPhaseSucceeded {
		t.Fatalf("delivered by %+v, %v", delivered, err)
	}
	of := delivered.Spec.Origin.TaskOf()
	if of == nil || of.ID != id || of.Turn.UID != turn.UID || of.Root.UID != turn.UID ||
		delivered.Spec.SubmittedBy != "ana" || delivered.Spec.Delivery != v1alpha1.DeliverySteer {
		t.Errorf("its spec is %+v", delivered.Spec)
	}
	if text := delivered.Spec.Input; !strings.Contains(text, "has ended: succeeded") ||
		!strings.Contains(text, ">\nbuilt {\"target\":\"0\"}\n</tool-output ") {
		t.Errorf("the message is %q", text)
	}
	if runs.Load() != 1 {
		t.Errorf("it ran %d times", runs.Load())
	}
}

func TestATaskThatItsProcessHasLeftIsUnknown(t *testing.T) {
	store, records := inprocess.NewMemoryStore(), inprocess.NewMemoryRecords()
	life, end := context.WithCancel(t.Context())
	var runs atomic.Int32
	options := []inprocess.Option{
		inprocess.WithYAML(building), inprocess.WithDefaultSession("built"), inprocess.WithStore(store),
		inprocess.WithRecords(records), inprocess.WithSimulation(spawning("build")),
		inprocess.WithTool("build", func(call inprocess.Call) (string, string, int) {
			runs.Add(1)
			<-call.Context.Done()
			return "", "", 1
		}),
	}
	first := startIn(life, t, options...)
	turn := run(t, first, builds("demo-1"))
	id := taskOf(t, first, turn, 0)
	end()
	second := start(t, options...)
	another := builds("demo-2")
	another.Spec.Input = "Anything new?"
	run(t, second, another)
	delivered, err := second.AwaitTask(t.Context(), id)
	if err != nil || !strings.Contains(delivered.Spec.Input, "The outcome of this tool call is unknown") {
		t.Errorf("delivered by %+v, %v", delivered, err)
	}
	if runs.Load() != 1 {
		t.Errorf("it ran %d times", runs.Load())
	}
}

func TestNoMoreThanFiveTasksAreActive(t *testing.T) {
	ended := make(chan struct{})
	defer close(ended)
	runtime := start(t, inprocess.WithYAML(building), inprocess.WithDefaultSession("built"),
		inprocess.WithSimulation(spawning("build", "build", "build", "build", "build", "build")),
		inprocess.WithTool("build", func(inprocess.Call) (string, string, int) {
			<-ended
			return "", "", 0
		}))
	turn := run(t, runtime, builds("demo-1"))
	refused := 0
	for _, call := range turn.Status.ToolCalls {
		if call.State == v1alpha1.ToolCallStateNotExecuted && call.Reason == v1alpha1.ToolCallReasonBackgroundLimit {
			refused++
		}
	}
	if refused != 1 {
		t.Errorf("%d of 6 calls were refused: %+v", refused, turn.Status.ToolCalls)
	}
}

func TestATaskNeedsTheApprovalOfItsTool(t *testing.T) {
	runtime := start(t, inprocess.WithYAML(building), inprocess.WithDefaultSession("built"),
		inprocess.WithSimulation(spawning("deploy")),
		inprocess.WithTool("deploy", func(inprocess.Call) (string, string, int) { return "deployed", "", 0 }))
	turn := run(t, runtime, builds("demo-1"))
	call := turn.Status.ToolCalls[0]
	if turn.Status.Phase != v1alpha1.TurnPhaseWaitingForToolResults ||
		call.Policy != v1alpha1.ToolPolicyRequiresApproval || call.CallDigest == "" {
		t.Fatalf("the Turn is %+v", turn.Status)
	}
}

func TestAToolThatForbidsItIsNotRunInTheBackground(t *testing.T) {
	runtime := start(t, inprocess.WithYAML(building), inprocess.WithDefaultSession("built"),
		inprocess.WithSimulation(spawning("pay", "missing")))
	turn := run(t, runtime, builds("demo-1"))
	for i, reason := range []string{v1alpha1.ToolCallReasonInvalidArguments, v1alpha1.ToolCallReasonInvalidArguments} {
		if call := turn.Status.ToolCalls[i]; call.State != v1alpha1.ToolCallStateNotExecuted || call.Reason != reason {
			t.Errorf("call %d is %+v", i, call)
		}
	}
}

// A task must end however often its records cannot be written: nothing else looks at it.
// Rules: TASK-01.
func TestATaskEndsAlthoughItsRecordsFail(t *testing.T) {
	for name, at := range map[string]int{"its start": 1, "its end": 2, "its delivery": 3} {
		t.Run(name, func(t *testing.T) {
			records := recordtest.Wrap(memory.New())
			var writes, lost atomic.Int32
			written := make(chan struct{})
			records.Intercept(func(c recordtest.Call) recordtest.Fault {
				// The operation that is hit fails, and its next try once more.
				switch {
				case c.Method != recordtest.WriteIndex:
				case int(writes.Load()) == at && lost.Add(1) <= 4:
					return recordtest.Fault{Before: recordtest.Fail}
				default:
					if int(writes.Add(1)) == at+1 {
						close(written)
					}
				}
				return recordtest.Fault{}
			})
			var runs atomic.Int32
			runtime := start(t, inprocess.WithYAML(building), inprocess.WithDefaultSession("built"),
				inprocess.WithSimulation(spawning("build")), inprocess.WithRecords(records),
				inprocess.WithTool("build", func(inprocess.Call) (string, string, int) {
					runs.Add(1)
					return "built", "", 0
				}))
			id := taskOf(t, runtime, run(t, runtime, builds("demo-1")), 0)
			delivered, err := runtime.AwaitTask(t.Context(), id)
			if err != nil || !strings.Contains(delivered.Spec.Input, "has ended: succeeded") || runs.Load() != 1 {
				t.Errorf("it ran %d times and was delivered by %+v, %v", runs.Load(), delivered, err)
			}
			// The Turn that delivers a task may end before its record is written.
			select {
			case <-written:
			case <-time.After(time.Minute):
				t.Errorf("of the %d writes after the first %d none was made again", lost.Load(), at)
			}
		})
	}
}

func TestTheTasksOfASessionEndWithIt(t *testing.T) {
	stopped := make(chan struct{})
	runtime := start(t, inprocess.WithYAML(building), inprocess.WithDefaultSession("built"),
		inprocess.WithSimulation(spawning("build")),
		inprocess.WithTool("build", func(call inprocess.Call) (string, string, int) {
			<-call.Context.Done()
			close(stopped)
			return "", "", 1
		}))
	id := taskOf(t, runtime, run(t, runtime, builds("demo-1")), 0)
	if _, err := runtime.EndSession(t.Context(), "built"); err != nil {
		t.Fatal(err)
	}
	<-stopped
	if turn := runtime.Turn(background.Name(id)); turn != nil {
		t.Errorf("delivered by %+v", turn.Spec)
	}
}
