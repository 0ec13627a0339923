package model

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

const (
	defaultFirstContent   = 120 * time.Second
	reasoningFirstContent = 10 * time.Minute
	defaultIdle           = 120 * time.Second
	defaultCall           = 30 * time.Minute
)

// Timeouts bound one call of a Model. Content is text, reasoning or a tool call; a ping is not content.
type Timeouts struct {
	// FirstContent bounds the time until the first content, Idle that between two pieces of it, Call the whole.
	FirstContent, Idle, Call time.Duration
}

// Reasoner is a Driver that knows which models reason.
type Reasoner interface {
	// Reasons reports whether the model may reason before the first content of its response. It may send nothing
	// meanwhile.
	Reasons(r Request) bool
}

// TimeoutsOf returns the bounds of a call of the Model with its driver. It reports false where there are none: a
// simulated Model responds after its latency.
func TimeoutsOf(m *v1alpha1.Model, d Driver, r Request) (Timeouts, bool) {
	if m.Spec.Provider == v1alpha1.ModelProviderSimulated {
		return Timeouts{}, false
	}
	t := Timeouts{FirstContent: defaultFirstContent, Idle: defaultIdle, Call: defaultCall}
	if reasons(m, d, r) {
		t.FirstContent = reasoningFirstContent
	}
	if given := m.Spec.Timeouts; given != nil {
		t.FirstContent = orDefault(given.FirstContent, t.FirstContent)
		t.Idle = orDefault(given.Idle, t.Idle)
		t.Call = orDefault(given.Call, t.Call)
	}
	return t, true
}

// reasons reports whether the model may reason: because it is requested, even if the driver does not know the model, or
// by default.
func reasons(m *v1alpha1.Model, d Driver, r Request) bool {
	if p := m.Spec.Parameters; p != nil && p.ReasoningEffort != "" && p.ReasoningEffort != v1alpha1.ReasoningEffortNone {
		return true
	}
	known, ok := d.(Reasoner)
	return ok && known.Reasons(r)
}

func orDefault(given *metav1.Duration, d time.Duration) time.Duration {
	if given == nil || given.Duration <= 0 {
		return d
	}
	return given.Duration
}
