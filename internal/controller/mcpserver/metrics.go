package mcpserver

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/capstan-dev/capstan/internal/runtime/mcp"
)

var (
	keptClients = prometheus.NewDesc("capstan_mcp_clients", "Clients of MCPServers that are kept between calls.", nil, nil)
	madeClients = prometheus.NewDesc("capstan_mcp_clients_made_total",
		"Clients of MCPServers that were made for calls, with a handshake each.", nil, nil)
	outdatedClients = prometheus.NewDesc("capstan_mcp_clients_outdated_total",
		"Kept clients of MCPServers whose session the server did not know any more.", nil, nil)
	openStreams = prometheus.NewDesc("capstan_mcp_streams", "MCPServers whose notices are listened to.", nil, nil)
)

// Collector measures the clients of MCPServers.
type Collector struct {
	// Clients are those of calls.
	Clients *mcp.Clients
	// Listeners listen for notices; nil for none.
	Listeners *mcp.Listeners
}

// Describe implements prometheus.Collector.
func (*Collector) Describe(descriptions chan<- *prometheus.Desc) {
	descriptions <- keptClients
	descriptions <- madeClients
	descriptions <- outdatedClients
	descriptions <- openStreams
}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(out chan<- prometheus.Metric) {
	out <- prometheus.MustNewConstMetric(keptClients, prometheus.GaugeValue, float64(c.Clients.Kept()))
	out <- prometheus.MustNewConstMetric(openStreams, prometheus.GaugeValue, float64(c.Listeners.Open()))
	out <- prometheus.MustNewConstMetric(madeClients, prometheus.CounterValue, float64(c.Clients.Made()))
	out <- prometheus.MustNewConstMetric(outdatedClients, prometheus.CounterValue, float64(c.Clients.Outdated()))
}
