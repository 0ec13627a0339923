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
