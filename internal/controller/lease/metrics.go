package lease

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// The values of label result.
const (
	resultReleased  = "released"
	resultFailed    = "failed"
	resultAbandoned = "abandoned"
)

// cleanups counts the ends of clean-ups. Label result: released, failed, abandoned.
var cleanups = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "capstan_lease_cleanups_total",
	Help: "Clean-ups of leased resources that have ended, by result.",
}, []string{"result"})

func init() {
	metrics.Registry.MustRegister(cleanups)
	for _, result := range []string{resultReleased, resultFailed, resultAbandoned} {
		cleanups.WithLabelValues(result)
	}
}
