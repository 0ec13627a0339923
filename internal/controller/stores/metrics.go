package stores

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
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

func init() { metrics.Registry.MustRegister(deletions, deletedRows) }
