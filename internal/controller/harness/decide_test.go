package harness

import (
	"reflect"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/config"
)

func named(name string, spec v1alpha1.HarnessSpec) *v1alpha1.Harness {
	return &v1alpha1.Harness{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}
}

// ready are the conditions of an object that is there.
func ready(presence config.Presence) []metav1.Condition {
	status := metav1.ConditionFalse
	if presence == config.Usable {
		status = metav1.ConditionTrue
	}
	return []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: status}}
}

func TestDecide(t *testing.T) {
	root := named("root", v1alpha1.HarnessSpec{ConfigLayer: v1alpha1.ConfigLayer{
		ModelRef: &v1alpha1.LocalReference{Name: "big"}, Tools: []v1alpha1.LocalReference{{Name: "count"}},
	}})
	archivedRoot := root.DeepCopy()
	archivedRoot.Spec.Lifecycle = v1alpha1.LifecycleArchived
	leaf := named("leaf", v1alpha1.HarnessSpec{Lifecycle: v1alpha1.LifecycleActive})
	override := named(
		"leaf",
		v1alpha1.HarnessSpec{ConfigLayer: v1alpha1.ConfigLayer{ModelRef: &v1alpha1.LocalReference{Name: "small"}}},
	)
	archived := named("leaf", v1alpha1.HarnessSpec{Lifecycle: v1alpha1.LifecycleArchived})
	seen := func(big, small, count config.Presence) config.Resolved {
		var r config.Resolved
		for name, presence := range map[string]config.Presence{"big": big, "small": small} {
			if presence != config.Missing {
				m := v1alpha1.Model{ObjectMeta: metav1.ObjectMeta{Name: name}}
				m.Status.Conditions = ready(presence)
				r.Models = append(r.Models, m)
			}
		}
		if count != config.Missing {
			tool := &v1alpha1.Tool{ObjectMeta: metav1.ObjectMeta{Name: "count"}}
			tool.Status.Conditions = ready(count)
			r.Tools = map[string]*v1alpha1.Tool{"count": tool}
		}
		return r
	}
	all := seen(config.Usable, config.Usable, config.Usable)
	parentGone := &config.ChainError{Problem: config.ParentNotFound, Leaf: "leaf", Missing: "root", Path: []string{"leaf"}}
	cycle := &config.ChainError{Problem: config.ChainCycle, Leaf: "leaf", Path: []string{"leaf", "leaf"}}

	for name, test := range map[string]struct {
		harness *v1alpha1.Harness
		above   []*v1alpha1.Harness
		err     *config.ChainError
		seen    config.Resolved
		reason  string
		message string
		chain   []string
	}{
		"all is there": {
			harness: leaf, above: []*v1alpha1.Harness{root}, seen: all, reason: v1alpha1.ReasonReady, chain: []string{
				"root", "leaf",
			},
		},
		"no parent, nothing named": {harness: leaf, reason: v1alpha1.ReasonReady, chain: []string{"leaf"}},
		"an archived ancestor": {
			harness: leaf, above: []*v1alpha1.Harness{archivedRoot}, seen: all, reason: v1alpha1.ReasonReady, chain: []string{
				"root", "leaf",
			},
		},
		"archived": {
			harness: archived, above: []*v1alpha1.Harness{root}, seen: all,
			reason: v1alpha1.ReasonArchived, message: "lifecycle", chain: []string{"root", "leaf"},
		},
		"archived comes first":  {harness: archived, err: parentGone, reason: v1alpha1.ReasonArchived},
		"the parent is missing": {harness: leaf, err: parentGone, reason: v1alpha1.ReasonHarnessNotFound, message: `"root"`},
		"a cycle":               {harness: leaf, err: cycle, reason: v1alpha1.ReasonChainTooLong, message: "leaf -> leaf"},
		"an ancestor's tool was deleted": {
			harness: leaf, above: []*v1alpha1.Harness{root}, seen: seen(config.Usable, config.Usable, config.Missing),
			reason: v1alpha1.ReasonToolNotFound, message: `"count"`, chain: []string{"root", "leaf"},
		},
		"an ancestor's model was deleted": {
			harness: leaf, above: []*v1alpha1.Harness{root}, seen: seen(config.Missing, config.Usable, config.Usable),
			reason: v1alpha1.ReasonModelNotFound, message: `"big"`, chain: []string{"root", "leaf"},
		},
		"a replaced model may be gone": {
			harness: override, above: []*v1alpha1.Harness{root}, seen: seen(config.Missing, config.Usable, config.Usable),
			reason: v1alpha1.ReasonReady, chain: []string{"root", "leaf"},
		},
		"the model is not ready": {
			harness: override, above: []*v1alpha1.Harness{root}, seen: seen(config.Usable, config.NotReady, config.Usable),
			reason: v1alpha1.ReasonModelNotReady, message: `"small"`, chain: []string{"root", "leaf"},
		},
		"a tool is not ready": {
			harness: leaf, above: []*v1alpha1.Harness{root}, seen: seen(config.Usable, config.Usable, config.NotReady),
			reason: v1alpha1.ReasonToolNotReady, message: `"count"`, chain: []string{"root", "leaf"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			resolved := &test.seen
			resolved.Part, resolved.HarnessName, resolved.Harness = true, test.harness.Name, test.harness
			resolved.Chain, resolved.ChainError = append(test.above, test.harness), test.err
			layers := make([]v1alpha1.ConfigLayer, 0, len(resolved.Chain))
			for _, harness := range resolved.Chain {
				layers = append(layers, harness.Spec.ConfigLayer)
			}
			resolved.Effective = config.Fold(layers...)
			reason, message := decide(test.harness.Spec, resolved)
			if reason != test.reason || message == "" || !strings.Contains(message, test.message) {
				t.Errorf("decide = %s, %q, want %s with %s", reason, message, test.reason, test.message)
			}
			if got := names(resolved); !reflect.DeepEqual(got, test.chain) {
				t.Errorf("names = %v, want %v", got, test.chain)
			}
		})
	}
}
