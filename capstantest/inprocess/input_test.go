package inprocess_test

import (
	"strings"
	"sync/atomic"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest/inprocess"
	sites "github.com/capstan-dev/capstan/internal/testing/site"
)

// ordering is a Runtime whose model calls the tool order of a server once, which asks for a size.
func ordering(t *testing.T, order sites.MCPTool, more ...inprocess.Option) *inprocess.Runtime {
	t.Helper()
	server := sites.NewMCP(t, sites.Stateless, order)
	options := append(reaching(server.Server), searching(server.URL, ""),
		inprocess.WithSimulation(calling([]string{"mcp_search__order"})))
	return start(t, append(options, more...)...)
}

// sized is an answer to the question for a size.
func sized(content string) v1alpha1.InputAnswer {
	return v1alpha1.InputAnswer{
		ID: "size", Action: v1alpha1.InputActionAccept, Content: &v1alpha1.JSON{Raw: []byte(content)},
	}
}

// Rules: CLIENT-03, MCP-02.
func TestAToolAsksTheUserAndContinuesWithTheAnswer(t *testing.T) {
	runtime := ordering(t, sites.Asking("order"))
	turn := run(t, runtime, message("demo-1", "Go."))
	call := turn.Status.ToolCalls[0]
	if turn.Status.Phase != v1alpha1.TurnPhaseWaitingForToolResults || call.State != v1alpha1.ToolCallStateWaiting ||
		call.Reason != v1alpha1.ReasonInput || call.Input == nil || call.Input.Round != 1 || len(call.CallDigest) != 64 {
		t.Fatalf("the Turn is %+v", turn.Status)
	}
	if wait := turn.Status.WaitsFor; len(wait) != 1 || wait[0].Type != v1alpha1.WaitTypeInput ||
		!strings.Contains(wait[0].Message, "callDigest "+call.CallDigest) ||
		!strings.Contains(wait[0].Message, `input with id "size"`) {
		t.Errorf("it waits for %+v", wait)
	}
	_, err := runtime.Answer(t.Context(), "demo-1", "1-0", "large")
	refused(t, err, v1alpha1.ReasonInputExpected)
	_, err = runtime.Decide(t.Context(), "demo-1", "1-0", v1alpha1.DecisionApprove)
	refused(t, err, v1alpha1.ReasonNoApprovalNeeded)
	_, err = runtime.AnswerInput(t.Context(), "demo-1", "1-0", sized(`{"size":"huge"}`))
	refused(t, err, v1alpha1.ReasonInvalidInput)
	other := sized(`{"size":"large"}`)
	other.ID = "colour"
	_, err = runtime.AnswerInput(t.Context(), "demo-1", "1-0", other)
	refused(t, err, v1alpha1.ReasonNoInputExpected)
	turn, err = runtime.AnswerInput(t.Context(), "demo-1", "1-0", sized(`{"size":"large"}`))
	if err != nil || reason(turn) != "True EndTurn" {
		t.Fatalf("after the answer: %+v, %v", turn, err)
	}
	call = turn.Status.ToolCalls[0]
	if call.State != v1alpha1.ToolCallStateSucceeded || call.Input != nil || call.CallDigest != "" ||
		!strings.Contains(call.Preview, `"action":"accept","content":{"size":"large"}`) {
		t.Errorf("the call is %+v", call)
	}
	_, err = runtime.AnswerInput(t.Context(), "demo-1", "1-0", sized(`{"size":"large"}`))
	refused(t, err, v1alpha1.ReasonCallClosed)
}

func TestAToolMayAskAgainAndNotForEver(t *testing.T) {
	var requests atomic.Int32
	order := sites.Echo("order")
	order.Answer = func(params *sdk.CallToolParamsRaw) *sdk.CallToolResult {
		requests.Add(1)
		return &sdk.CallToolResult{
			RequestState: params.RequestState + "x", InputRequests: sdk.InputRequestMap{"size": sites.SizeQuestion()},
		}
	}
	runtime := ordering(t, order)
	turn := run(t, runtime, message("demo-1", "Go."))
	digests := map[string]bool{}
	for rounds := int32(1); turn.Status.Phase == v1alpha1.TurnPhaseWaitingForToolResults; rounds++ {
		call := turn.Status.ToolCalls[0]
		if call.Input == nil || call.Input.Round != rounds || digests[call.CallDigest] {
			t.Fatalf("in round %d the call is %+v", rounds, call)
		}
		digests[call.CallDigest] = true
		var err error
		if turn, err = runtime.AnswerInput(t.Context(), "demo-1", "1-0", v1alpha1.InputAnswer{
			ID: "size", Action: v1alpha1.InputActionDecline,
		}); err != nil {
			t.Fatal(err)
		}
	}
	call := turn.Status.ToolCalls[0]
	if call.State != v1alpha1.ToolCallStateFailed || call.Reason != v1alpha1.ToolCallReasonToolError ||
		!strings.Contains(call.Preview, "too often") || len(digests) != 8 || requests.Load() != 9 {
		t.Errorf("after %d rounds and %d requests the call is %+v", len(digests), requests.Load(), call)
	}
}

// Rules: CLIENT-06.
func TestNoToolAsksWhereNoClientAnswers(t *testing.T) {
	order := sites.Asking("order")
	ask := order.Answer
	order.Answer = func(params *sdk.CallToolParamsRaw) *sdk.CallToolResult {
		offered, _ := params.Meta[sdk.MetaKeyClientCapabilities].(map[string]any)
		if _, may := offered["elicitation"]; !may {
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "medium, as always"}}}
		}
		return ask(params)
	}
	runtime := ordering(t, order, inprocess.WithYAML(`
apiVersion: capstan.dev/v1alpha1
kind: Session
metadata: {name: alone}
spec:
  harnessRef: {name: base}
  mcpServers: [{name: search}]
  hints: {setup_connection: false}
  clientTools: FollowHints
`))
	alone := message("demo-1", "Go.")
	alone.Spec.SessionRef.Name = "alone"
	turn := run(t, runtime, alone)
	if call := turn.Status.ToolCalls[0]; reason(turn) != "True EndTurn" || call.Preview != "medium, as always" {
		t.Errorf("the call is %+v", call)
	}
}

// A message does not end the wait: the tool has begun.
// Rules: CLIENT-05.
func TestAMessageThatIsSteeredIntoATurnDoesNotEndTheWaitForInput(t *testing.T) {
	runtime := ordering(t, sites.Asking("order"))
	run(t, runtime, message("demo-1", "Go."))
	steer := message("demo-2", "Hurry up.")
	steer.Spec.Delivery = v1alpha1.DeliverySteer
	ended := make(chan *v1alpha1.Turn, 1)
	go func() {
		turn, err := runtime.RunTurn(t.Context(), steer)
		if err != nil {
			t.Error(err)
		}
		ended <- turn
	}()
	turn, err := runtime.AnswerInput(t.Context(), "demo-1", "1-0", sized(`{"size":"small"}`))
	if err != nil || turn.Status.ToolCalls[0].State != v1alpha1.ToolCallStateSucceeded {
		t.Fatalf("after the answer: %+v, %v", turn, err)
	}
	<-ended
}

func TestACancelledTurnTellsThatTheToolWasWaiting(t *testing.T) {
	runtime := ordering(t, sites.Asking("order"))
	run(t, runtime, message("demo-1", "Go."))
	turn, err := runtime.Cancel(t.Context(), "demo-1")
	if err != nil {
		t.Fatal(err)
	}
	call := turn.Status.ToolCalls[0]
	if call.State != v1alpha1.ToolCallStateUnknown || call.Input != nil ||
		!strings.Contains(call.Preview, "waiting for input") {
		t.Errorf("the call is %+v", call)
	}
}
