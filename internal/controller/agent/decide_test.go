package agent

import (
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller/reference"
	"github.com/capstan-dev/capstan/internal/runtime/config"
)

func TestDecide(t *testing.T) {
	layer := v1alpha1.ConfigLayer{
		ModelRef: &v1alpha1.LocalReference{Name: "big"},
		Tools:    []v1alpha1.LocalReference{{Name: "count"}},
	}
	seen := func(big, count config.Presence) reference.Seen {
		return reference.Seen{
			Models: map[string]config.Presence{"big": big},
			Tools:  map[string]config.Presence{"count": count},
		}
	}
	for name, test := range map[string]struct {
		spec   v1alpha1.AgentSpec
		seen   reference.Seen
		reason string
		says   string
	}{
		"nothing named": {reason: v1alpha1.ReasonReady},
		"all is there": {
			spec: v1alpha1.AgentSpec{ConfigLayer: layer}, seen: seen(config.Usable, config.Usable), reason: v1alpha1.ReasonReady,
		},
		"the model is gone": {
			spec: v1alpha1.AgentSpec{ConfigLayer: layer}, seen: seen(config.Missing, config.Usable),
			reason: v1alpha1.ReasonModelNotFound, says: `"big"`,
		},
		"the model is not ready": {
			spec: v1alpha1.AgentSpec{ConfigLayer: layer}, seen: seen(config.NotReady, config.Usable),
			reason: v1alpha1.ReasonModelNotReady, says: `"big"`,
		},
		"the tool is gone": {
			spec: v1alpha1.AgentSpec{ConfigLayer: layer}, seen: seen(config.Usable, config.Missing),
			reason: v1alpha1.ReasonToolNotFound, says: `"count"`,
		},
		"the tool is not ready": {
			spec: v1alpha1.AgentSpec{ConfigLayer: layer}, seen: seen(config.Usable, config.NotReady),
			reason: v1alpha1.ReasonToolNotReady, says: `"count"`,
		},
		"the tool is not held by the list": {
			spec: v1alpha1.AgentSpec{ConfigLayer: layer}, seen: seen(config.Usable, config.Unbound),
			reason: v1alpha1.ReasonNetworkAccessUnenforceable, says: `"count"`,
		},
		"archived": {
			spec: v1alpha1.AgentSpec{
				ConfigLayer: layer, Lifecycle: v1alpha1.LifecycleArchived,
			}, seen: seen(config.Missing, config.Missing),
			reason: v1alpha1.ReasonArchived, says: "lifecycle",
		},
	} {
		t.Run(name, func(t *testing.T) {
			reason, message := decide(test.spec, test.seen)
			if reason != test.reason || message == "" || !strings.Contains(message, test.says) {
				t.Errorf("decide = %s, %q, want %s with %s", reason, message, test.reason, test.says)
			}
		})
	}
}
