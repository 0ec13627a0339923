package session

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// sessionEnds counts Sessions that were deleted and had hooks at their end. Label hooks: Run, TimedOut,
// NamespaceTerminating, None.
var sessionEnds = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "capstan_session_ends_total",
	Help: "Deleted Sessions with the finalizer for hooks at their end, by what became of the hooks.",
}, []string{"hooks"})

func init() {
	metrics.Registry.MustRegister(sessionEnds)
}
