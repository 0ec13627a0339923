package kit_test

import (
	"context"
	"encoding/json"
	"net/http/httptest"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	. "github.com/onsi/ginkgo/v2"

	sites "github.com/capstan-dev/capstan/internal/testing/site"
)

// toolServer serves the tools of an MCPServer.
var toolServer *httptest.Server

// startToolServer starts a server that ends with the suite. Its tools are find, which returns its arguments, and lose,
// which fails.
func startToolServer() *httptest.Server {
	lose := sites.Echo("lose")
	lose.Run = func(context.Context, json.RawMessage) *sdk.CallToolResult {
		return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: "lost"}}, IsError: true}
	}
	server := httptest.NewTLSServer(sites.MCPHandler(sites.Stateless, sites.Echo("find"), lose))
	DeferCleanup(server.Close)
	return server
}
