package site

import (
	"context"
	"encoding/json"
	"net/http"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// MCPTool is a tool of a server of the Model Context Protocol.
type MCPTool struct {
	sdk.Tool
	// Run returns the result of a call.
	Run func(ctx context.Context, arguments json.RawMessage) *sdk.CallToolResult
	// Answer returns the result of a request with its answers; nil for a tool that asks nothing.
	Answer func(params *sdk.CallToolParamsRaw) *sdk.CallToolResult
}

// Asking is a tool that asks the user for a size, and then returns what it was answered.
func Asking(name string) MCPTool {
	asking := Echo(name)
	asking.Answer = func(params *sdk.CallToolParamsRaw) *sdk.CallToolResult {
		if params.RequestState == "" {
			return &sdk.CallToolResult{RequestState: "cart-7", InputRequests: sdk.InputRequestMap{"size": SizeQuestion()}}
		}
		raw, err := json.Marshal(params.InputResponses)
		if err != nil {
			return &sdk.CallToolResult{IsError: true}
		}
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: params.RequestState + " " + string(raw)}}}
	}
	return asking
}

// SizeQuestion asks the user for one of two sizes.
func SizeQuestion() *sdk.ElicitParams {
	return &sdk.ElicitParams{
		Message: "Which size?", RequestedSchema: json.RawMessage(
			`{"type":"object","properties":{"size":{"type":"string","enum":["small","large"]}},"required":["size"]}`),
	}
}

// Echo is a tool that returns its arguments as a text.
func Echo(name string) MCPTool {
	return MCPTool{
		Tool: sdk.Tool{
			Name: name, Description: "Returns its arguments.", InputSchema: json.RawMessage(`{"type":"object"}`),
		},
		Run: func(_ context.Context, arguments json.RawMessage) *sdk.CallToolResult {
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: string(arguments)}}}
		},
	}
}

// Generation is one of the two forms of the protocol.
type Generation string

const (
	// Stateful servers have sessions, which begin with a handshake.
	Stateful Generation = "stateful"
	// Stateless servers have none: they respond to each request by itself.
	Stateless Generation = "stateless"
)

// MCPHandler serves tools with the SDK's own server of a generation.
func MCPHandler(g Generation, tools ...MCPTool) http.Handler {
	server := sdk.NewServer(&sdk.Implementation{Name: "tools", Version: "1"}, nil)
	for i := range tools {
		server.AddTool(&tools[i].Tool, func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			if tools[i].Answer != nil {
				return tools[i].Answer(r.Params), nil
			}
			return tools[i].Run(ctx, r.Params.Arguments), nil
		})
	}
	options := &sdk.StreamableHTTPOptions{Stateless: g == Stateless}
	return sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, options)
}

// NewMCP starts a server of the Model Context Protocol, which ends with the test.
func NewMCP(t testing.TB, g Generation, tools ...MCPTool) *Site {
	t.Helper()
	return New(t, MCPHandler(g, tools...).ServeHTTP)
}
