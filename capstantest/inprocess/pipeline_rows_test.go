package inprocess_test

import (
	"context"
	"encoding/json"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/capstantest/clock"
	"github.com/capstan-dev/capstan/internal/runtime/event"
	sites "github.com/capstan-dev/capstan/internal/testing/site"
)

// started are the stages of a call that starts at most once.
var started = []string{
	"plan 1-0", "claim 1-0", "execute 1-0", "settle 1-0", "tool.started 1-0", "tool.completed 1-0",
}

// hooked is the Session demo with a hook at calls of the tool pay, which takes a sum.
func hooked(event, expression string) string {
	return payAs("inputSchema: {type: object, properties: {sum: {type: integer}}}, "+job) +
		"{apiVersion: capstan.dev/v1alpha1, kind: Session, metadata: {name: demo}, spec: {harnessRef: {name: base}, " +
		"hooks: [{name: guard, event: " + event + ", matcher: {toolName: pay}, onError: Block, cel: {expression: '" +
		expression + "'}}]}}\n"
}

// hookedPipeline has the stages of hooks before and after a call (HOOK-20).
var hookedPipeline = []pipelineRow{
	{
		stage: "a hook that blocks the call", call: "pay", objects: hooked("PreToolUse", `"too much"`),
		reached: []string{"refuse 1-0", "tool.completed 1-0"},
		state:   v1alpha1.ToolCallStateNotExecuted, reason: v1alpha1.ToolCallReasonBlockedByHook,
		status: event.StatusError, text: "too much",
	},
	{
		stage: "a hook before the call that fails", call: "pay", objects: hooked("PreToolUse", "data.missing"),
		reached: []string{"refuse 1-0", "tool.completed 1-0"},
		state:   v1alpha1.ToolCallStateNotExecuted, reason: v1alpha1.ToolCallReasonBlockedByHook,
		status: event.StatusError, text: "guard",
	},
	{
		stage: "a hook that rewrites the arguments", call: "pay", stdout: "paid {arguments}",
		objects: hooked("PreToolUse", `{"decision": "mutate", "patch": {"arguments": {"sum": 7}}}`),
		reached: started,
		state:   v1alpha1.ToolCallStateSucceeded, reason: v1alpha1.ToolCallReasonCompleted,
		status: event.StatusSuccess, text: `paid {"sum":7}`,
	},
	{
		stage: "rewritten arguments that violate the schema", call: "pay", stdout: "paid",
		objects: hooked("PreToolUse", `{"decision": "mutate", "patch": {"arguments": {"sum": "much"}}}`),
		reached: []string{"refuse 1-0", "tool.completed 1-0"},
		state:   v1alpha1.ToolCallStateNotExecuted, reason: v1alpha1.ToolCallReasonInvalidArguments,
		status: event.StatusError, text: "The tool was not executed: ",
	},
	{
		stage: "a hook after the call that changes its result", call: "pay", stdout: "paid",
		objects: hooked("PostToolUse", `{"decision": "mutate", "patch": {"additional_context": "in cash"}}`),
		reached: started,
		state:   v1alpha1.ToolCallStateSucceeded, reason: v1alpha1.ToolCallReasonCompleted,
		status: event.StatusSuccess, text: "in cash",
	},
	{
		stage: "a hook after the call that fails", call: "pay", stdout: "paid",
		objects: hooked("PostToolUse", "data.missing"),
		reached: started,
		state:   v1alpha1.ToolCallStateFailed, reason: v1alpha1.ToolCallReasonFailedByHook,
		status: event.StatusError, text: "guard",
	},
}

// helping is the tool pay as a sub-agent, which calls the tool look and responds as given.
func helping(response string) string {
	return payAs("agent: {harnessRef: {name: helper}}") + `
{apiVersion: capstan.dev/v1alpha1, kind: Harness, metadata: {name: helper}, spec: {
  systemPrompt: You help., modelRef: {name: helping}, tools: [{name: look}]}}
---
{apiVersion: capstan.dev/v1alpha1, kind: Model, metadata: {name: helping}, spec: {provider: Simulated, simulation: {
  response: ` + response + `, toolCalls: {sequence: [{calls: [{name: look}]}, {}]}}}}
`
}

// remotePipeline has the stages of calls that servers and sub-agents carry out.
var remotePipeline = []pipelineRow{
	{
		stage: "a tool of a server", call: "mcp_search__find", serve: finding("found", false),
		reached: started,
		state:   v1alpha1.ToolCallStateSucceeded, reason: v1alpha1.ToolCallReasonCompleted,
		status: event.StatusSuccess, text: "found",
	},
	{
		stage: "a tool of a server that fails", call: "mcp_search__find", serve: finding("lost", true),
		reached: started,
		state:   v1alpha1.ToolCallStateFailed, reason: v1alpha1.ToolCallReasonToolError,
		status: event.StatusError, text: "lost",
	},
	{
		stage: "a tool that a server does not list", call: "mcp_search__gone", serve: finding("found", false),
		reached: []string{"refuse 1-0", "tool.completed 1-0"},
		state:   v1alpha1.ToolCallStateNotExecuted, reason: v1alpha1.ToolCallReasonToolNotFound,
		status: event.StatusError, text: "Tool definition not found: mcp_search__gone",
	},
	{
		// Its Session is its claim, and its own journal has its outcome.
		stage: "a sub-agent", call: "pay", arguments: `{"message": "Look."}`, stdout: "a needle",
		objects: helping(`{text: "I found {{tool:look}}"}`),
		reached: []string{"plan 1-0", "execute 1-0", "tool.started 1-0", "tool.completed 1-0"},
		state:   v1alpha1.ToolCallStateSucceeded, reason: v1alpha1.ToolCallReasonCompleted,
		status: event.StatusSuccess, text: "I found a needle",
	},
	{
		stage: "a sub-agent without a message", call: "pay",
		objects: helping(`{text: "I found {{tool:look}}"}`),
		reached: []string{"refuse 1-0", "tool.completed 1-0"},
		state:   v1alpha1.ToolCallStateNotExecuted, reason: v1alpha1.ToolCallReasonInvalidArguments,
		status: event.StatusError, text: "The tool was not executed: ",
	},
}

// finding is a tool of a server that returns a text, as a result or as an error.
func finding(text string, fails bool) func(*trace, *clock.Clock) sites.MCPTool {
	return func(tr *trace, now *clock.Clock) sites.MCPTool {
		find := sites.Echo("find")
		find.Run = func(context.Context, json.RawMessage) *sdk.CallToolResult {
			tr.add("execute", "1-0")
			now.Advance(pipelineRun)
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: text}}, IsError: fails}
		}
		return find
	}
}
