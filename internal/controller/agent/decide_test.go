package agent

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/config"
)

// resolved is the configuration of an Agent that names the Model big and the Tool count.
func resolved(models []v1alpha1.Model, tools ...*v1alpha1.Tool) *config.Resolved {
	r := &config.Resolved{
		Part:      true,
		Effective: config.Effective{ModelRef: "big", Tools: []string{"count"}},
		Models:    models,
		Tools:     map[string]*v1alpha1.Tool{},
	}
	for _, tool := range tools {
		r.Tools[tool.Name] = tool
	}
	return r
}

func ready(status metav1.ConditionStatus) []metav1.Condition {
	return []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: status}}
}

func big(status metav1.ConditionStatus) []v1alpha1.Model {
	return []v1alpha1.Model{{
		ObjectMeta: metav1.ObjectMeta{Name: "big"}, Status: v1alpha1.ModelStatus{Conditions: ready(status)},
	}}
}

func count(status metav1.ConditionStatus) *v1alpha1.Tool {
	return &v1alpha1.Tool{
		ObjectMeta: metav1.ObjectMeta{Name: "count"}, Status: v1alpha1.ToolStatus{Conditions: ready(status)},
	}
}

// unbound is the configuration of an Agent with a list that cannot restrict the Tool.
func unbound() *config.Resolved {
	tool := count(metav1.ConditionTrue)
	tool.Spec.Job = &v1alpha1.JobTool{}
	r := resolved(nil, tool)
	r.Effective = config.Fold(v1alpha1.ConfigLayer{
		Tools:         []v1alpha1.LocalReference{{Name: "count"}},
		NetworkAccess: &v1alpha1.NetworkAccess{Allowed: []v1alpha1.NetworkPattern{"example.org"}},
	})
	return r
}

func TestDecide(t *testing.T) {
	usable, broken := metav1.ConditionTrue, metav1.ConditionFalse
	for name, test := range map[string]struct {
		spec     v1alpha1.AgentSpec
		resolved *config.Resolved
		reason   string
		message  string
	}{
		"nothing named": {resolved: &config.Resolved{Part: true}, reason: v1alpha1.ReasonReady},
		"all is there":  {resolved: resolved(big(usable), count(usable)), reason: v1alpha1.ReasonReady},
		"the model was deleted": {
			resolved: resolved(nil, count(usable)), reason: v1alpha1.ReasonModelNotFound, message: `"big"`,
		},
		"the model is not ready": {
			resolved: resolved(big(broken), count(usable)), reason: v1alpha1.ReasonModelNotReady, message: `"big"`,
		},
		"the tool was deleted": {resolved: resolved(big(usable)), reason: v1alpha1.ReasonToolNotFound, message: `"count"`},
		"the tool is not ready": {
			resolved: resolved(big(usable), count(broken)), reason: v1alpha1.ReasonToolNotReady, message: `"count"`,
		},
		"the tool is not held by the list": {
			resolved: unbound(), reason: v1alpha1.ReasonNetworkAccessUnenforceable, message: `"count"`,
		},
		"archived": {
			spec: v1alpha1.AgentSpec{Lifecycle: v1alpha1.LifecycleArchived}, resolved: resolved(nil),
			reason: v1alpha1.ReasonArchived, message: "lifecycle",
		},
	} {
		t.Run(name, func(t *testing.T) {
			reason, message := decide(test.spec, test.resolved)
			if reason != test.reason || message == "" || !strings.Contains(message, test.message) {
				t.Errorf("decide = %s, %q, want %s with %s", reason, message, test.reason, test.message)
			}
		})
	}
}
