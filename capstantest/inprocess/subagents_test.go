package inprocess_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest/inprocess"
)

// team has a lead, whose model calls the agent helper, and the helper, whose model calls work.
const team = `
apiVersion: capstan.dev/v1alpha1
kind: Model
metadata: {name: helping}
spec:
  provider: Simulated
  simulation:
    response: {text: "I was told: {{input}} I found: {{tool:look}}"}
    toolCalls: {sequence: [{calls: [{name: look}]}, {}]}
---
apiVersion: capstan.dev/v1alpha1
kind: Harness
metadata: {name: helper}
spec: {systemPrompt: You help., modelRef: {name: helping}, tools: [{name: look}, {name: pay}, {name: ask}]}
---
apiVersion: capstan.dev/v1alpha1
kind: Tool
metadata: {name: helper}
spec: {description: Helps., agent: {harnessRef: {name: helper}}}
---
apiVersion: capstan.dev/v1alpha1
kind: Tool
metadata: {name: self}
spec: {description: Another one like you., agent: {}}
---
apiVersion: capstan.dev/v1alpha1
kind: Harness
metadata: {name: lead}
spec: {systemPrompt: You lead., tools: [{name: helper}, {name: self}, {name: ask}]}
---
apiVersion: capstan.dev/v1alpha1
kind: Session
metadata: {name: led}
spec: {harnessRef: {name: lead}}
`

// asking is a model that calls a tool with a message and repeats the result.
func asking(tool string, calls int) v1alpha1.Simulation {
	script := calling(nil)
	message := `{"message":"Look it up."}`
	var step v1alpha1.SimulatedStep
	for range calls {
		step.Calls = append(step.Calls, v1alpha1.SimulatedToolCall{Name: tool, RawArguments: &message})
	}
	script.Response.Text = "{{tool:" + tool + "}}"
	script.ToolCalls.Sequence = []v1alpha1.SimulatedStep{step, {}}
	return script
}

// led is a Turn of the lead.
func led(name string) *v1alpha1.Turn {
	turn := message(name, "Go.")
	turn.Spec.SessionRef.Name = "led"
	return turn
}

// Rules: SPAWN-01, SPAWN-02, SPAWN-03, SPAWN-05.
func TestACallRunsAsASubAgent(t *testing.T) {
	runtime := start(t, inprocess.WithYAML(team), inprocess.WithDefaultSession("led"),
		inprocess.WithSimulation(asking("helper", 1)),
		inprocess.WithTool("look", func(inprocess.Call) (string, string, int) { return "a needle", "", 0 }))
	turn := run(t, runtime, led("demo-1"))
	if want := "I was told: Look it up. I found: a needle"; turn.Status.Output != want {
		t.Fatalf("the output is %q, want %q: %+v", turn.Status.Output, want, turn.Status)
	}
	call := turn.Status.ToolCalls[0]
	if call.Executor != v1alpha1.ToolExecutorAgent || call.State != v1alpha1.ToolCallStateSucceeded ||
		call.SubAgent == nil {
		t.Fatalf("the call is %+v", call)
	}
	own := runtime.Turn(call.SubAgent.Name)
	of := own.Spec.Origin.SubAgentOf()
	if of == nil || of.Turn.UID != turn.UID || of.CallID != call.ID || of.Depth != 1 || of.Root.Name != "led" {
		t.Errorf("its origin is %+v", own.Spec.Origin)
	}
	totals, sum := call.SubAgent.Totals, turn.Status.Summary.SubAgents
	if totals == nil || totals.ModelCalls != 2 || totals.Usage != own.Status.Summary.Usage {
		t.Errorf("the totals of the call are %+v, want those of %+v", totals, own.Status.Summary)
	}
	if sum == nil || sum.Calls != 1 || sum.ModelCalls != 2 || turn.Status.Summary.ModelCalls != 2 {
		t.Errorf("the totals of the Turn are %+v", turn.Status.Summary)
	}
	events, err := runtime.Events(t.Context(), "led")
	if err != nil {
		t.Fatal(err)
	}
	var kinds []string
	for _, e := range events {
		if strings.HasPrefix(e.Type, "subagent.") {
			kinds = append(kinds, e.Type)
		}
	}
	if strings.Join(kinds, " ") != "subagent.spawned subagent.completed" {
		t.Errorf("the events are %v", kinds)
	}
	messages, err := runtime.Messages(t.Context(), call.SubAgent.Name)
	if err != nil || len(messages) == 0 || messages[0].PlainText() != "Look it up." {
		t.Errorf("the conversation of the sub-agent is %v, %v", messages, err)
	}
}

// Rules: SPAWN-05.
func TestSubAgentsAreBounded(t *testing.T) {
	runtime := start(t, inprocess.WithYAML(team), inprocess.WithDefaultSession("led"),
		inprocess.WithSimulation(asking("self", 1)))
	turn := run(t, runtime, led("demo-1"))
	if reason(turn) != "True EndTurn" {
		t.Fatalf("the Turn is %+v", turn.Status)
	}
	depth := int32(0)
	for turn.Status.ToolCalls[0].SubAgent != nil {
		turn = runtime.Turn(turn.Status.ToolCalls[0].SubAgent.Name)
		depth++
	}
	if depth != 3 || turn.Status.ToolCalls[0].Reason != v1alpha1.ToolCallReasonSubAgentLimit {
		t.Errorf("%d levels, then %+v", depth, turn.Status.ToolCalls[0])
	}
	many := start(t, inprocess.WithYAML(team), inprocess.WithDefaultSession("led"),
		inprocess.WithSimulation(asking("helper", 33)),
		inprocess.WithTool("look", func(inprocess.Call) (string, string, int) { return "a needle", "", 0 }))
	turn = run(t, many, led("demo-1"))
	last := turn.Status.ToolCalls[32]
	if turn.Status.Summary.SubAgents.Calls != 32 || last.Reason != v1alpha1.ToolCallReasonSubAgentLimit {
		t.Errorf("the Turn has %+v, its last call is %+v", turn.Status.Summary.SubAgents, last)
	}
}

func TestAFailedSubAgentIsAFailedCall(t *testing.T) {
	failing := strings.Replace(team, `{text: "I was told: {{input}} I found: {{tool:look}}"}`,
		"{type: Error, text: No., code: provider_quota_exhausted}", 1)
	failing = strings.Replace(failing, "toolCalls: {sequence: [{calls: [{name: look}]}, {}]}", "", 1)
	runtime := start(t, inprocess.WithYAML(failing), inprocess.WithDefaultSession("led"),
		inprocess.WithSimulation(asking("helper", 1)))
	turn := run(t, runtime, led("demo-1"))
	call := turn.Status.ToolCalls[0]
	if call.State != v1alpha1.ToolCallStateFailed || call.Reason != v1alpha1.ToolCallReasonSubAgentFailed ||
		!strings.Contains(call.Preview, "provider_quota_exhausted") || reason(turn) != "True EndTurn" {
		t.Errorf("the call is %+v", call)
	}
}

func TestATurnWaitsForASubAgentThatWaits(t *testing.T) {
	waiting := strings.Replace(team, "calls: [{name: look}]", "calls: [{name: ask}]", 1)
	waiting = strings.Replace(waiting, "{{tool:look}}", "{{tool:ask}}", 1)
	runtime := start(t, inprocess.WithYAML(waiting), inprocess.WithDefaultSession("led"),
		inprocess.WithSimulation(asking("helper", 1)))
	turn := run(t, runtime, led("demo-1"))
	if turn.Status.Phase != v1alpha1.TurnPhaseWaiting || turn.Status.WaitsFor[0].Type != v1alpha1.WaitTypeSubAgent {
		t.Fatalf("the Turn is %+v", turn.Status)
	}
	own := turn.Status.ToolCalls[0].SubAgent.Name
	if _, err := runtime.Answer(t.Context(), own, "1-0", "a needle"); err != nil {
		t.Fatal(err)
	}
	turn, err := runtime.Await(t.Context(), "demo-1")
	if err != nil || !strings.HasSuffix(turn.Status.Output, "a needle") {
		t.Errorf("the Turn is %+v, %v", turn.Status, err)
	}
}

func TestTheEndOfATurnCancelsItsSubAgents(t *testing.T) {
	working := make(chan struct{})
	runtime := start(t, inprocess.WithYAML(team), inprocess.WithDefaultSession("led"),
		inprocess.WithSimulation(asking("helper", 1)),
		inprocess.WithTool("look", func(call inprocess.Call) (string, string, int) {
			close(working)
			<-call.Context.Done()
			return "", "", 1
		}))
	ended := make(chan *v1alpha1.Turn)
	go func() {
		turn, _ := runtime.RunTurn(context.WithoutCancel(t.Context()), led("demo-1"))
		ended <- turn
	}()
	<-working
	if _, err := runtime.Cancel(t.Context(), "demo-1"); err != nil {
		t.Fatal(err)
	}
	turn := <-ended
	call := turn.Status.ToolCalls[0]
	if reason(turn) != "False Cancelled" || call.State != v1alpha1.ToolCallStateUnknown {
		t.Errorf("the Turn is %+v", turn.Status)
	}
	if own := runtime.Turn(call.SubAgent.Name); reason(own) != "False Cancelled" {
		t.Errorf("the sub-agent is %+v", own.Status)
	}
}

// Rules: SPAWN-01, VEC-23.
func TestAnotherRuntimeFindsTheSubAgent(t *testing.T) {
	store := inprocess.NewMemoryStore()
	paid, paying := atomic.Int32{}, make(chan struct{})
	life, die := context.WithCancel(t.Context())
	costly := strings.Replace(team, "calls: [{name: look}]", "calls: [{name: look}, {name: pay}]", 1)
	first := startIn(life, t, inprocess.WithStore(store), inprocess.WithYAML(costly), inprocess.WithDefaultSession("led"),
		inprocess.WithSimulation(asking("helper", 1)),
		inprocess.WithTool("look", func(inprocess.Call) (string, string, int) { return "a needle", "", 0 }),
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
	if left, err := first.RunTurn(t.Context(), led("demo-1")); !errors.Is(err, inprocess.ErrStopped) {
		t.Fatalf("the first runtime gave %+v, %v", left, err)
	}
	second := start(t, inprocess.WithStore(store), inprocess.WithYAML(costly), inprocess.WithDefaultSession("led"),
		inprocess.WithSimulation(asking("helper", 1)),
		inprocess.WithTools(func(call inprocess.Call) (string, string, int) {
			if call.Tool == "pay" {
				paid.Add(1)
			}
			return "a needle", "", 0
		}))
	turn := run(t, second, led("demo-1"))
	if paid.Load() != 1 || !strings.HasSuffix(turn.Status.Output, "a needle") {
		t.Errorf("paid %d times; the Turn is %+v", paid.Load(), turn.Status)
	}
	own := second.Turn(turn.Status.ToolCalls[0].SubAgent.Name)
	if call := own.Status.ToolCalls[1]; call.State != v1alpha1.ToolCallStateUnknown {
		t.Errorf("the call of the sub-agent is %+v", call)
	}
}

// printing is a Capability with a blueprint, whose model repeats its prompt's config by its own calls.
const printing = `
apiVersion: capstan.dev/v1alpha1
kind: Capability
metadata: {name: research}
spec:
  hooks: [{name: guard, event: UserPromptSubmit, cel: {expression: 'data.message != "Forbidden."'}}]
  blueprints:
  - name: reader
    description: Reads papers.
    systemPrompt: You read.
    tools: [{name: look}]
    modelPolicy: Fixed
    modelRef: {name: helping}
    configSchema: {type: object, properties: {depth: {type: integer}}, required: [depth]}
---
apiVersion: capstan.dev/v1alpha1
kind: Session
metadata: {name: printed}
spec: {harnessRef: {name: lead}, blueprint: {capability: research, name: reader, config: {depth: 2}}}
---
apiVersion: capstan.dev/v1alpha1
kind: Session
metadata: {name: spawning}
spec: {harnessRef: {name: lead}, capabilities: [{name: research}, {builtin: subagents}]}
`

// Rules: BP-02, BP-03, GAP-09.
func TestASessionIsABlueprint(t *testing.T) {
	runtime := start(t, inprocess.WithYAML(team+"---"+printing), inprocess.WithSimulation(calling()),
		inprocess.WithDefaultSession("printed"))
	found, err := runtime.LoadContext(t.Context(), "printed")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(found.SystemPrompt, "You read.\n\n<config>\n{\"depth\":2}\n</config>") ||
		len(found.Tools) != 1 || found.Tools[0].Name != "look" || found.Model.Name != "helping" || len(found.Hooks) != 1 {
		t.Errorf("the model is called with %+v", found)
	}
	turn, err := runtime.RunText(t.Context(), "printed", "Go.")
	if err != nil || !strings.HasPrefix(turn.Status.Output, "I was told: Go.") {
		t.Errorf("the Turn ended as %+v, %v", turn.Status, err)
	}
	turn, err = runtime.RunText(t.Context(), "printed", "Forbidden.")
	if err != nil || reason(turn) != "False BlockedByUserPromptHook" {
		t.Errorf("the Turn ended as %+v, %v", turn.Status, err)
	}
}

// Rules: BP-04, SPAWN-01, SPAWN-05.
func TestAModelStartsASubAgentOnABlueprint(t *testing.T) {
	script := asking("spawn_reader", 1)
	arguments := `{"message":"Look it up.","config":{"depth":3}}`
	script.ToolCalls.Sequence[0].Calls[0].RawArguments = &arguments
	runtime := start(t, inprocess.WithYAML(team+"---"+printing), inprocess.WithSimulation(script),
		inprocess.WithDefaultSession("spawning"))
	turn, err := runtime.RunText(t.Context(), "spawning", "Go.")
	if err != nil || !strings.HasPrefix(turn.Status.Output, "I was told: Look it up.") {
		t.Fatalf("the Turn ended as %+v, %v", turn.Status, err)
	}
	call := turn.Status.ToolCalls[0]
	child, err := runtime.LoadContext(t.Context(), call.SubAgent.Name)
	if err != nil || !strings.Contains(child.SystemPrompt, `{"depth":3}`) {
		t.Errorf("the sub-agent is called with %+v, %v", child, err)
	}
	if call.Executor != v1alpha1.ToolExecutorAgent || call.SideEffect != v1alpha1.SideEffectAtMostOnce {
		t.Errorf("the call is %+v", call)
	}
}

// Rules: SPAWN-05.
func TestAModelStartsASubAgentLikeItself(t *testing.T) {
	runtime := start(t, inprocess.WithYAML(team+"---"+printing), inprocess.WithSimulation(asking("spawn_subagent", 1)),
		inprocess.WithDefaultSession("spawning"))
	turn, err := runtime.RunText(t.Context(), "spawning", "Go.")
	if err != nil || turn.Status.ToolCalls[0].State != v1alpha1.ToolCallStateSucceeded {
		t.Fatalf("the Turn ended as %+v, %v", turn.Status, err)
	}
	child, err := runtime.LoadContext(t.Context(), turn.Status.ToolCalls[0].SubAgent.Name)
	if err != nil || !strings.HasPrefix(child.SystemPrompt, "You lead.") || child.Session.Spec.Blueprint != nil ||
		len(child.Capabilities) != 0 {
		t.Errorf("the sub-agent is called with %+v, %v", child, err)
	}
}
