package mcp_test

import (
	"encoding/json"
	"errors"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/capstan-dev/capstan/internal/runtime/mcp"
	"github.com/capstan-dev/capstan/internal/testing/ratio"
	"github.com/capstan-dev/capstan/internal/testing/site"
)

// BenchmarkCall compares a call of a tool, with a client that is kept, with the same call by the SDK alone.
func BenchmarkCall(b *testing.B) {
	s := site.New(b, site.MCPHandler(site.Stateful, site.Echo("echo")).ServeHTTP)
	clients := mcp.NewClients(s.Egress(), mcp.ClientsOptions{})
	b.Cleanup(clients.Close)
	by := mcp.Caller{Namespace: "default", Server: "tools", Identity: "demo"}
	request := mcp.Request{Tool: "echo", Arguments: json.RawMessage(`{"a":1}`), Key: "k", Repeatable: true}
	bare, err := sdk.NewClient(&sdk.Implementation{Name: "bench", Version: "1"}, nil).Connect(b.Context(),
		&sdk.StreamableClientTransport{Endpoint: s.URL + "/mcp", HTTPClient: s.Client()}, nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = bare.Close() })
	ratio.Report(b, func() error {
		answer, err := bare.CallTool(b.Context(), &sdk.CallToolParams{Name: "echo", Arguments: request.Arguments})
		if err == nil && answer.IsError {
			err = errors.New("the tool failed")
		}
		return err
	}, func() error {
		result, err := clients.Call(b.Context(), by, reach(s), request)
		if err == nil && result.IsError {
			err = errors.New("the tool failed")
		}
		return err
	})
}
