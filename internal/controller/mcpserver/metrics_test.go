package mcpserver

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/capstan-dev/capstan/internal/runtime/mcp"
	"github.com/capstan-dev/capstan/internal/testing/site"
)

func TestTheClientsAreMeasured(t *testing.T) {
	s := site.NewMCP(t, site.Stateless, site.Echo("echo"))
	clients := mcp.NewClients(s.Egress(), mcp.ClientsOptions{})
	t.Cleanup(clients.Close)
	for range 2 {
		_, err := clients.Call(t.Context(), mcp.Caller{Namespace: "ns"}, mcp.Server{URL: s.URL}, mcp.Request{Tool: "echo"})
		if err != nil {
			t.Fatal(err)
		}
	}
	want := `
# HELP capstan_mcp_clients Clients of MCPServers that are kept between calls.
# TYPE capstan_mcp_clients gauge
capstan_mcp_clients 1
# HELP capstan_mcp_clients_made_total Clients of MCPServers that were made for calls, with a handshake each.
# TYPE capstan_mcp_clients_made_total counter
capstan_mcp_clients_made_total 1
# HELP capstan_mcp_clients_outdated_total Kept clients of MCPServers whose session the server did not know any more.
# TYPE capstan_mcp_clients_outdated_total counter
capstan_mcp_clients_outdated_total 0
# HELP capstan_mcp_streams MCPServers whose notices are listened to.
# TYPE capstan_mcp_streams gauge
capstan_mcp_streams 0
`
	if err := testutil.CollectAndCompare(&Collector{Clients: clients}, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}
