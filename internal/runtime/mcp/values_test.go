package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/capstan-dev/capstan/internal/runtime/mcp"
	"github.com/capstan-dev/capstan/internal/testing/site"
)

// many is an array of empty arrays, as JSON: once decoded, it takes seventy times as much memory.
func many(bytes int) json.RawMessage {
	return json.RawMessage("[" + strings.Repeat("[],", bytes/3) + "[]]")
}

func TestAResponseOfManySmallValuesIsNotDecoded(t *testing.T) {
	bomb := site.MCPTool{
		Tool: sdk.Tool{Name: "bomb", InputSchema: json.RawMessage(`{"type":"object"}`)},
		Run: func(context.Context, json.RawMessage) *sdk.CallToolResult {
			return &sdk.CallToolResult{StructuredContent: many(mcp.MaxResponseBytes - 4096)}
		},
	}
	listed := site.Echo("listed")
	listed.InputSchema = json.RawMessage(`{"type":"object","default":` + string(many(mcp.MaxPageBytes-4096)) + `}`)
	text := site.MCPTool{Tool: bomb.Tool, Run: func(context.Context, json.RawMessage) *sdk.CallToolResult {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: strings.Repeat(`,["`, 30_000)}}}
	}}
	for _, g := range []site.Generation{site.Stateful, site.Stateless} {
		t.Run(string(g), func(t *testing.T) {
			var failed *mcp.Error
			s := site.NewMCP(t, g, bomb)
			_, err := mcp.Call(t.Context(), s.Egress(), reach(s), mcp.Request{Tool: "bomb", Key: "key"})
			if !errors.As(err, &failed) {
				t.Errorf("the call ends with %v", err)
			}
			s = site.NewMCP(t, g, listed)
			if _, err := mcp.List(t.Context(), s.Egress(), reach(s)); !errors.As(err, &failed) {
				t.Errorf("the list ends with %v", err)
			}
			s = site.NewMCP(t, g, text)
			result, err := mcp.Call(t.Context(), s.Egress(), reach(s), mcp.Request{Tool: "bomb", Key: "key"})
			if err != nil || len(result.Text) != 90_000 {
				t.Errorf("a call with a text of punctuation ends with %v", err)
			}
		})
	}
}
