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
	// Reports are sent, before the result, to a client that wants to know the progress of a call.
	Reports []sdk.ProgressNotificationParams
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

// Connecting is a tool that needs a connection to a provider until connected reports that it exists.
func Connecting(name, provider string, connected func() bool) MCPTool {
	connecting := Echo(name)
	connecting.Run = func(_ context.Context, arguments json.RawMessage) *sdk.CallToolResult {
		if connected() {
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: string(arguments)}}}
		}
		return &sdk.CallToolResult{
			Meta:    sdk.Meta{"capstan.dev/connection-required": provider},
			Content: []sdk.Content{&sdk.TextContent{Text: "Not connected."}}, IsError: true,
		}
	}
	return connecting
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

// MCPServer returns the SDK's own server with tools.
func MCPServer(tools ...MCPTool) *sdk.Server {
	server := sdk.NewServer(&sdk.Implementation{Name: "tools", Version: "1"}, nil)
	for _, t := range tools {
		Offer(server, t)
	}
	return server
}

// Offer adds a tool to a server, or replaces the one of the same name.
func Offer(server *sdk.Server, t MCPTool) {
	server.AddTool(&t.Tool, func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		token := r.Params.GetProgressToken()
		for i := 0; i < len(t.Reports) && token != nil; i++ {
			report := t.Reports[i]
			report.ProgressToken = token
			if err := r.Session.NotifyProgress(ctx, &report); err != nil {
				return nil, err
			}
		}
		if t.Answer != nil {
			return t.Answer(r.Params), nil
		}
		return t.Run(ctx, r.Params.Arguments), nil
	})
}

// Serve serves a server with the SDK's own handler of a generation.
func Serve(g Generation, server *sdk.Server) http.Handler {
	options := &sdk.StreamableHTTPOptions{Stateless: g == Stateless}
	return sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return server }, options)
}

// MCPHandler serves tools with the SDK's own server of a generation.
func MCPHandler(g Generation, tools ...MCPTool) http.Handler { return Serve(g, MCPServer(tools...)) }

// NewMCP starts a server of the Model Context Protocol, which ends with the test.
func NewMCP(t testing.TB, g Generation, tools ...MCPTool) *Site {
	t.Helper()
	return New(t, MCPHandler(g, tools...).ServeHTTP)
}
