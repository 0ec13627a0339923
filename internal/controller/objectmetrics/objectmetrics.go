// Package objectmetrics counts the existing objects for metrics: by phase, never by name.
package objectmetrics

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

var (
	// turns is labelled by phase: Queued, Reason, Act, WaitingForToolResults, Waiting, Succeeded, Failed, Cancelled.
	turns = prometheus.NewDesc("capstan_turns", "Number of Turns, by phase.", []string{"phase"}, nil)
	// sessions is labelled by phase: Pending, Started, Active, Idle, WaitingForToolResults.
	sessions = prometheus.NewDesc("capstan_sessions", "Number of Sessions, by phase.", []string{"phase"}, nil)
	// journalBytes is the size of all journals, according to the status of the Sessions.
	journalBytes = prometheus.NewDesc("capstan_journal_bytes",
		"Size of the journals of all Sessions in bytes, as of the end of their last Turns.", nil, nil)
	slotsHeld    = prometheus.NewDesc("capstan_turn_slots_held", "Active Turns.", nil, nil)
	slotsWaiting = prometheus.NewDesc("capstan_turn_slots_waiting",
		"Sessions waiting for a slot for their Turn.", nil, nil)
	activities = prometheus.NewDesc("capstan_activities",
		"Model calls, requests of HTTP tools and reads of pod logs in progress, or with an unread result.", nil, nil)
)

var turnPhases = []v1alpha1.TurnPhase{
	v1alpha1.TurnPhaseQueued, v1alpha1.TurnPhaseReason, v1alpha1.TurnPhaseAct, v1alpha1.TurnPhaseWaitingForToolResults,
	v1alpha1.TurnPhaseSucceeded, v1alpha1.TurnPhaseFailed, v1alpha1.TurnPhaseCancelled, v1alpha1.TurnPhaseWaiting,
}

var sessionPhases = []v1alpha1.SessionPhase{
	v1alpha1.SessionPhasePending,
	v1alpha1.SessionPhaseStarted,
	v1alpha1.SessionPhaseActive,
	v1alpha1.SessionPhaseIdle,
	v1alpha1.SessionPhaseWaitingForToolResults,
}

// Collector counts on demand, from the cache.
type Collector struct {
	// Cache has all Turns and Sessions.
	Cache client.Reader
	// Held and Waiting count the slots of active Turns and the Sessions that wait for one, Activities the running
	// activities.
	Held, Waiting, Activities func() int
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(out chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{turns, sessions, journalBytes, slotsHeld, slotsWaiting, activities} {
		out <- desc
	}
}

// Collect implements prometheus.Collector. Objects that are new and have no phase yet count as Queued and Pending.
// Without a cache that can be read, the counts are left out.
func (c *Collector) Collect(out chan<- prometheus.Metric) {
	gauge := func(desc *prometheus.Desc, value int64, labels ...string) {
		out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(value), labels...)
	}
	gauge(slotsHeld, int64(c.Held()))
	gauge(slotsWaiting, int64(c.Waiting()))
	gauge(activities, int64(c.Activities()))
	ctx := context.Background()
	var allTurns v1alpha1.TurnList
	var allSessions v1alpha1.SessionList
	for _, list := range []client.ObjectList{&allTurns, &allSessions} {
		if err := c.Cache.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			ctrl.Log.WithName("metrics").Error(err, "Failed to count objects")
			return
		}
	}
	byTurnPhase := map[v1alpha1.TurnPhase]int64{}
	for i := range allTurns.Items {
		byTurnPhase[orDefault(allTurns.Items[i].Status.Phase, v1alpha1.TurnPhaseQueued)]++
	}
	for _, phase := range turnPhases {
		gauge(turns, byTurnPhase[phase], string(phase))
	}
	bySessionPhase, bytes := map[v1alpha1.SessionPhase]int64{}, int64(0)
	for i := range allSessions.Items {
		bySessionPhase[orDefault(allSessions.Items[i].Status.Phase, v1alpha1.SessionPhasePending)]++
		bytes += allSessions.Items[i].Status.Journal.Bytes
	}
	for _, phase := range sessionPhases {
		gauge(sessions, bySessionPhase[phase], string(phase))
	}
	gauge(journalBytes, bytes)
}

func orDefault[T ~string](value, otherwise T) T {
	if value == "" {
		return otherwise
	}
	return value
}
