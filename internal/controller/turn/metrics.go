package turn

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

var (
	// statusWrites counts writes of Turn status. Label kind: waiting, plan, transition, pods, retry, progress.
	statusWrites = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "capstan_turn_status_writes_total",
		Help: "Writes of Turn status, by what they were for.",
	}, []string{"kind"})
	// conflicts counts writes that lost against another writer.
	conflicts = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "capstan_turn_status_conflicts_total",
		Help: "Writes of Turn status that were refused because the Turn had changed.",
	})
	// staleReads counts passes that saw less than this process had written.
	staleReads = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "capstan_turn_stale_reads_total",
		Help: "Passes over a Turn that were put off because the cache lagged our own write.",
	})
	// liveReads counts the reads past the cache that followed when it lagged for too long.
	liveReads = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "capstan_turn_live_reads_total",
		Help: "Reads of Turns past the cache because it lagged our own write for too long.",
	})
	// toolEndings counts the ends of tool calls run as Jobs. Labels: state (Succeeded, Failed, NotExecuted, Unknown) and reason, one of
	// the reasons that package tool defines.
	toolEndings = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "capstan_tool_calls_total",
		Help: "Tool calls that have ended, by state and reason.",
	}, []string{"state", "reason"})
)

func init() {
	metrics.Registry.MustRegister(statusWrites, conflicts, staleReads, liveReads, toolEndings)
}
