package stores

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/capstan-dev/capstan/internal/runtime/postgres"
)

// The values of label result.
const (
	resultDeleted   = "deleted"
	resultFailed    = "failed"
	resultForgotten = "forgotten"
)

var (
	deletions = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "capstan_database_session_deletions_total",
		Help: "Sessions whose rows were deleted, attempts that have failed, and deleted Sessions that were forgotten.",
	}, []string{"result"})
	deletedRows = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "capstan_database_deleted_rows_total", Help: "Rows of the database that were deleted with their Sessions.",
	})
)

func init() { metrics.Registry.MustRegister(deletions, deletedRows, statements) }

// The values of label pool.
const (
	PoolTurns   = "turns"
	PoolStreams = "streams"
)

var statements = prometheus.NewHistogramVec(prometheus.HistogramOpts{
	Name: "capstan_database_statement_duration_seconds",
	Help: "Duration of the statements that were sent to the database, by pool of connections, operation and outcome, " +
		"each try by itself.",
	Buckets: prometheus.ExponentialBuckets(0.0005, 3, 10),
}, []string{"pool", "operation", "outcome"})

// outcomes are the values of label outcome.
var outcomes = map[postgres.Outcome]string{
	postgres.OutcomeUnknown: "unknown", postgres.OutcomeAborted: "aborted", postgres.OutcomeRefused: "refused",
	postgres.OutcomeInvalid: "invalid",
}

// ObserveStatements returns the observer of the statements of a pool of connections.
func ObserveStatements(pool string) func(write bool, took time.Duration, err error) {
	return func(write bool, took time.Duration, err error) {
		operation, outcome := "read", "done"
		if write {
			operation = "write"
		}
		if err != nil {
			outcome = outcomes[postgres.OutcomeOf(err)]
		}
		statements.WithLabelValues(pool, operation, outcome).Observe(took.Seconds())
	}
}

var (
	connections = prometheus.NewDesc("capstan_database_connections",
		"Connections to the database, by pool and state.", []string{"pool", "state"}, nil)
	connectionLimit = prometheus.NewDesc("capstan_database_connections_limit",
		"The largest number of connections to the database, by pool.", []string{"pool"}, nil)
	opened = prometheus.NewDesc("capstan_database_connections_opened_total",
		"Connections to the database that were opened, by pool.", []string{"pool"}, nil)
)

// Connections measures pools of connections, by the value of label pool.
type Connections map[string]*postgres.DB

// Describe implements prometheus.Collector.
func (Connections) Describe(out chan<- *prometheus.Desc) {
	out <- connections
	out <- connectionLimit
	out <- opened
}

// Collect implements prometheus.Collector.
func (c Connections) Collect(out chan<- prometheus.Metric) {
	for pool, db := range c {
		state := db.Stat()
		for name, number := range map[string]int32{
			"in_use": state.AcquiredConns(), "idle": state.IdleConns(), "opening": state.ConstructingConns(),
		} {
			out <- prometheus.MustNewConstMetric(connections, prometheus.GaugeValue, float64(number), pool, name)
		}
		out <- prometheus.MustNewConstMetric(connectionLimit, prometheus.GaugeValue, float64(state.MaxConns()), pool)
		out <- prometheus.MustNewConstMetric(opened, prometheus.CounterValue, float64(state.NewConnsCount()), pool)
	}
}
