package harness

import (
	"reflect"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/controller/reference"
	"github.com/capstan-dev/capstan/internal/runtime/config"
)

func named(name string, spec v1alpha1.HarnessSpec) *v1alpha1.Harness {
	return &v1alpha1.Harness{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}
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
	seen := func(big, small, count config.Presence) reference.Seen {
		return reference.Seen{
			Models: map[string]config.Presence{"big": big, "small": small}, Tools: map[string]config.Presence{"count": count},
		}
	}
	all := seen(config.Usable, config.Usable, config.Usable)
	parentGone := &config.ChainError{Problem: config.ParentNotFound, Leaf: "leaf", Missing: "root", Path: []string{"leaf"}}
	cycle := &config.ChainError{Problem: config.ChainCycle, Leaf: "leaf", Path: []string{"leaf", "leaf"}}

	for name, test := range map[string]struct {
		harness *v1alpha1.Harness
		above   []*v1alpha1.Harness
		err     *config.ChainError
		seen    reference.Seen
		reason  string
		says    string
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
			reason: v1alpha1.ReasonArchived, says: "lifecycle", chain: []string{"root", "leaf"},
		},
		"archived comes first":  {harness: archived, err: parentGone, reason: v1alpha1.ReasonArchived},
		"the parent is missing": {harness: leaf, err: parentGone, reason: v1alpha1.ReasonHarnessNotFound, says: `"root"`},
		"a cycle":               {harness: leaf, err: cycle, reason: v1alpha1.ReasonChainTooLong, says: "leaf -> leaf"},
		"an ancestor's tool is gone": {
			harness: leaf, above: []*v1alpha1.Harness{root}, seen: seen(config.Usable, config.Usable, config.Missing),
			reason: v1alpha1.ReasonToolNotFound, says: `"count"`, chain: []string{"root", "leaf"},
		},
		"an ancestor's model is gone": {
			harness: leaf, above: []*v1alpha1.Harness{root}, seen: seen(config.Missing, config.Usable, config.Usable),
			reason: v1alpha1.ReasonModelNotFound, says: `"big"`, chain: []string{"root", "leaf"},
		},
		"a replaced model may be gone": {
			harness: override, above: []*v1alpha1.Harness{root}, seen: seen(config.Missing, config.Usable, config.Usable),
			reason: v1alpha1.ReasonReady, chain: []string{"root", "leaf"},
		},
		"the model is not ready": {
			harness: override, above: []*v1alpha1.Harness{root}, seen: seen(config.Usable, config.NotReady, config.Usable),
			reason: v1alpha1.ReasonModelNotReady, says: `"small"`, chain: []string{"root", "leaf"},
		},
		"a tool is not ready": {
			harness: leaf, above: []*v1alpha1.Harness{root}, seen: seen(config.Usable, config.Usable, config.NotReady),
			reason: v1alpha1.ReasonToolNotReady, says: `"count"`, chain: []string{"root", "leaf"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := observation{chain: append(test.above, test.harness), chainError: test.err, seen: test.seen}
			reason, message := decide(test.harness.Spec, o)
			if reason != test.reason || message == "" || !strings.Contains(message, test.says) {
				t.Errorf("decide = %s, %q, want %s with %s", reason, message, test.reason, test.says)
			}
			if got := o.names(); !reflect.DeepEqual(got, test.chain) {
				t.Errorf("names = %v, want %v", got, test.chain)
			}
		})
	}
}
