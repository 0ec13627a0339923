// Package shares measures the resources that namespaces share: the waiting time for each, and how much is in use.
package shares

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/capstan-dev/capstan/internal/runtime/fairshare"
)

// The values of label resource.
const (
	ActiveTurns      = "active_turns"
	ModelCalls       = "model_calls"
	ToolRequests     = "tool_requests"
	APIRequests      = "api_requests"
	Passes           = "passes"
	RecordBytes      = "record_bytes"
	RecordOperations = "record_operations"
	Scripts          = "scripts"
	SQLCalls         = "sql_calls"
	Connections      = "database_connections"
	// ReaderConnections are those of event streams to the database.
	ReaderConnections = "database_reader_connections"
)

var waits = prometheus.NewHistogramVec(prometheus.HistogramOpts{
	Name:    "capstan_share_wait_seconds",
	Help:    "Waiting time for a share of a resource, by resource.",
	Buckets: append([]float64{0.001}, prometheus.ExponentialBuckets(0.01, 4, 9)...),
}, []string{"resource"})

func init() {
	metrics.Registry.MustRegister(waits)
}

// loggedWait is the shortest waiting time that is logged.
const loggedWait = 10 * time.Millisecond

// Waited returns the observer of the waiting time for a resource. Metrics have no label for a namespace, as there may
// be any number: the log at level debug has it.
func Waited(resource string) fairshare.Observer {
	observer := waits.WithLabelValues(resource)
	log := ctrl.Log.WithName("shares").V(1)
	return func(namespace string, waited time.Duration) {
		observer.Observe(waited.Seconds())
		if waited >= loggedWait {
			log.Info("Waited for a share", "resource", resource, "namespace", namespace, "seconds", waited.Seconds())
		}
	}
}

var (
	held  = prometheus.NewDesc("capstan_share_held", "Places in use, by resource.", []string{"resource"}, nil)
	lines = prometheus.NewDesc("capstan_share_waiting", "Requests waiting for a place, by resource.",
		[]string{"resource"}, nil)
	bytes = prometheus.NewDesc("capstan_conversation_bytes",
		"Memory reserved for model calls in progress and for responses that are not in the journal yet.", nil, nil)
)

// Collector counts the used slots of the activity Pools, and of those of the scripts of hooks, of the calls of SQL
// databases, of the connections to PostgreSQL and of those of event streams, which may be nil.
type Collector struct {
	Models, Tools, Scripts, SQLCalls, Connections, ReaderConnections *fairshare.Pool
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(out chan<- *prometheus.Desc) {
	out <- held
	out <- lines
	out <- bytes
}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(out chan<- prometheus.Metric) {
	gauge := func(desc *prometheus.Desc, value int64, labels ...string) {
		out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(value), labels...)
	}
	for _, p := range []struct {
		resource string
		pool     *fairshare.Pool
	}{
		{ModelCalls, c.Models},
		{ToolRequests, c.Tools},
		{Scripts, c.Scripts},
		{SQLCalls, c.SQLCalls},
		{Connections, c.Connections},
		{ReaderConnections, c.ReaderConnections},
	} {
		if p.pool == nil {
			continue
		}
		gauge(held, p.pool.Held().Places, p.resource)
		gauge(lines, int64(p.pool.Waiting()), p.resource)
	}
	gauge(bytes, c.Models.Held().Bytes)
}
