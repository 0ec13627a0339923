package budget

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// statusWrites counts writes of the status of Budgets: reservations and settlements, in groups.
var statusWrites = prometheus.NewCounter(prometheus.CounterOpts{
	Name: "capstan_budget_status_writes_total",
	Help: "Writes of the status of Budgets. One has all reservations and settlements that have gathered.",
})

// conflicts counts writes that another write has preceded.
var conflicts = prometheus.NewCounter(prometheus.CounterOpts{
	Name: "capstan_budget_conflicts_total",
	Help: "Writes of the status of Budgets that were repeated because another write came first.",
})

// forfeits counts reservations without a known outcome, which count in full.
var forfeits = prometheus.NewCounter(prometheus.CounterOpts{
	Name: "capstan_budget_forfeited_reservations_total",
	Help: "Reservations of earlier processes that count in full, because the outcome of their model calls is unknown.",
})

func init() {
	metrics.Registry.MustRegister(statusWrites, conflicts, forfeits)
}
