package main

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/capstan-dev/capstan/internal/version"
)

// buildInfo returns a metric that is always 1 and whose labels are the build.
func buildInfo(v version.Info) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name:        "capstan_build_info",
		Help:        "The build of the manager, in labels. The value is always 1.",
		ConstLabels: prometheus.Labels{"version": v.Version, "commit": v.Commit, "go": v.Go},
	}, func() float64 { return 1 })
}
