package turn

import (
	"cmp"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/text/currency"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/modelcall"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
)

var (
	// statusWrites counts writes of Turn status. Label kind: waiting, plan, transition, pods, retry, approval,
	// withdrawal, progress, observed, stalled, backoff.
	statusWrites = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "capstan_turn_status_writes_total",
		Help: "Writes of Turn status, by purpose.",
	}, []string{"kind"})
	// conflicts counts writes that failed because of another write.
	conflicts = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "capstan_turn_status_conflicts_total",
		Help: "Writes of Turn status that failed with a conflict.",
	})
	// staleReads counts passes that saw an older version than the last own write.
	staleReads = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "capstan_turn_stale_reads_total",
		Help: "Reconciles of a Turn that were postponed because the cache lagged behind a write of the manager.",
	})
	// liveReads counts the reads past the cache after it lagged for too long.
	liveReads = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "capstan_turn_live_reads_total",
		Help: "Reads of Turns past the cache because it lagged behind a write of the manager for too long.",
	})
	// queueWait is the time from the creation of a Turn to its start.
	queueWait = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "capstan_turn_queue_seconds",
		Help:    "Time from the creation of a Turn to its beginning.",
		Buckets: prometheus.ExponentialBuckets(0.01, 4, 10),
	})
	// turnDuration is the time from the start of a Turn to its end. Label phase: Succeeded, Failed, Cancelled.
	turnDuration = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "capstan_turn_duration_seconds",
		Help:    "Time from the beginning of a Turn to its end, by phase.",
		Buckets: prometheus.ExponentialBuckets(0.1, 4, 10),
	}, []string{"phase"})
	// turnEndings counts Turns that have ended. Label phase: Succeeded, Failed, Cancelled. Label reason: that of the
	// condition Succeeded, which is a stop reason, an error code of ERR-01 or of package turnstate, AlreadyRan or
	// NameReused.
	turnEndings = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "capstan_turns_finished_total",
		Help: "Finished Turns, by phase and the reason of the condition Succeeded.",
	}, []string{"phase", "reason"})
	// turnPasses and turnWrites are the passes and status writes of this process for a Turn.
	turnPasses = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "capstan_turn_reconciles",
		Help:    "Reconciles of a Turn, observed when it ends.",
		Buckets: prometheus.ExponentialBuckets(4, 2, 10),
	})
	turnWrites = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "capstan_turn_writes",
		Help:    "Writes to the API server for a Turn without those of its Session, observed when it ends.",
		Buckets: prometheus.ExponentialBuckets(2, 2, 10),
	})
	// toolDuration is the time that the container of a tool call ran, or its request. Labels as in toolEndings.
	toolDuration = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "capstan_tool_call_duration_seconds",
		Help:    "Run time of the container or the request of a tool call, by executor, state and reason of the call.",
		Buckets: prometheus.ExponentialBuckets(0.25, 4, 9),
	}, []string{"executor", "state", "reason"})
	// toolEndings counts the ends of tool calls that the manager runs. Labels: executor (Job, HTTP, Builtin), state
	// (Succeeded, Failed, NotExecuted, Unknown) and reason, one of the reasons that package tool defines.
	toolEndings = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "capstan_tool_calls_total",
		Help: "Finished tool calls, by executor, state and reason.",
	}, []string{"executor", "state", "reason"})
	// firstToken is the time from the beginning of a model call to the first content of its response. Label provider: one
	// of v1alpha1.ModelProvider.
	firstToken = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "capstan_model_time_to_first_token_seconds",
		Help:    "Time from the beginning of a model call to the first content of its response, by provider.",
		Buckets: prometheus.ExponentialBuckets(0.05, 2, 14),
	}, []string{"provider"})
	// modelCalls counts the ends of model calls, and modelDuration how long they took. Labels: provider, one of
	// v1alpha1.ModelProvider; api, one of v1alpha1.ModelAPI or empty; outcome, "response" or one of v1alpha1.ErrorCode.
	modelCalls = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "capstan_model_calls_total",
		Help: "Ended calls of Models, by provider, API and outcome.",
	}, []string{"provider", "api", "outcome"})
	modelDuration = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "capstan_model_call_duration_seconds",
		Help:    "Duration of calls of Models with all attempts and the pauses between them, by provider, API and outcome.",
		Buckets: prometheus.ExponentialBuckets(0.1, 2, 14),
	}, []string{"provider", "api", "outcome"})
	// modelTokens counts tokens. Label type: input, output, and cache_read and cache_write, which are part of input.
	modelTokens = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "capstan_model_tokens_total",
		Help: "Tokens of responses of Models, by provider, API and type. cache_read and cache_write are part of input.",
	}, []string{"provider", "api", "type"})
	// modelCost adds up the cost of the model calls of ended Turns. Label currency: users set it, so that only
	// currencies of the closed list of package currency count.
	modelCost = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "capstan_model_cost_total",
		Help: "Cost of the model calls of finished Turns, by currency.",
	}, []string{"currency"})
)

func init() {
	metrics.Registry.MustRegister(
		statusWrites,
		conflicts,
		staleReads,
		liveReads,
		queueWait,
		turnDuration,
		turnEndings,
		turnPasses,
		turnWrites,
		toolEndings,
		toolDuration,
		firstToken,
		modelCalls,
		modelDuration,
		modelTokens,
		modelCost,
	)
}

// ObserveFirstToken counts the time to the first content of a response.
func ObserveFirstToken(provider v1alpha1.ModelProvider, after time.Duration) {
	firstToken.WithLabelValues(string(provider)).Observe(after.Seconds())
}

// outcomeResponse is the label of a model call that has returned a response.
const outcomeResponse = "response"

// ObserveModelCall counts the end of the call of a Model.
func ObserveModelCall(e modelcall.Ended) {
	provider, api := string(e.Provider), string(e.API)
	outcome := cmp.Or(string(e.Code), outcomeResponse)
	modelCalls.WithLabelValues(provider, api, outcome).Inc()
	modelDuration.WithLabelValues(provider, api, outcome).Observe(e.Took.Seconds())
	if e.Code != "" {
		return
	}
	for kind, count := range map[string]int64{
		"input": e.Usage.InputTokens, "output": e.Usage.OutputTokens, "cache_read": e.Usage.CacheReadTokens,
		"cache_write": e.Usage.CacheWriteTokens,
	} {
		modelTokens.WithLabelValues(provider, api, kind).Add(float64(max(count, 0)))
	}
}

// countEnd counts the end of a Turn, once it is in status.
func countEnd(s *scope) {
	turn, phase := s.turn, string(s.turn.Status.Phase)
	if succeeded := meta.FindStatusCondition(turn.Status.Conditions, v1alpha1.ConditionSucceeded); succeeded != nil {
		turnEndings.WithLabelValues(phase, succeeded.Reason).Inc()
		countCost(succeeded.Reason, turn.Status.Summary)
	}
	if sum := turn.Status.Summary; sum != nil && sum.StartedAt != nil && sum.FinishedAt != nil {
		turnDuration.WithLabelValues(phase).Observe(sum.FinishedAt.Sub(sum.StartedAt.Time).Seconds())
	}
	turnPasses.Observe(float64(s.memory.passes))
	turnWrites.Observe(float64(s.memory.writes))
}

// countCost counts the cost of a Turn's model calls. A Turn that took over the outcome of an earlier Turn has cost
// nothing.
func countCost(reason string, sum *v1alpha1.TurnSummary) {
	if sum == nil || reason == v1alpha1.ReasonAlreadyRan {
		return
	}
	for _, c := range sum.Cost {
		unit, err := currency.ParseISO(c.Currency)
		if err != nil {
			continue
		}
		// The metric is a float and not exact, unlike the sums in status.
		if amount, err := strconv.ParseFloat(c.Amount, 64); err == nil {
			modelCost.WithLabelValues(unit.String()).Add(amount)
		}
	}
}

// countCall counts the end of a tool call that the manager has run.
func countCall(executor v1alpha1.ToolExecutor, outcome tool.Outcome) {
	how, state := string(executor), string(outcome.State)
	toolEndings.WithLabelValues(how, state, outcome.Reason).Inc()
	if !outcome.StartedAt.IsZero() && !outcome.FinishedAt.IsZero() {
		toolDuration.WithLabelValues(how, state, outcome.Reason).Observe(outcome.FinishedAt.Sub(outcome.StartedAt).Seconds())
	}
}
