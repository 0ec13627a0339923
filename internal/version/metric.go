package version

import "github.com/prometheus/client_golang/prometheus"

// Metric returns capstan_build_info, which is always 1 and whose labels are the build.
func (i Info) Metric() prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name:        "capstan_build_info",
		Help:        "The build of the manager, in labels. The value is always 1.",
		ConstLabels: prometheus.Labels{"version": i.Version, "commit": i.Commit, "go": i.Go},
	}, func() float64 { return 1 })
}
