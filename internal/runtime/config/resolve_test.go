package config

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/tool/builtin"
)

// candidate is a Model made so many seconds after the first; annotation is that of the default, if any.
func candidate(name string, second int, annotation string) v1alpha1.Model {
	m := v1alpha1.Model{ObjectMeta: metav1.ObjectMeta{
		Name: name, CreationTimestamp: metav1.NewTime(time.Unix(1_700_000_000, 0).Add(time.Duration(second) * time.Second)),
	}}
	if annotation != "" {
		m.Annotations = map[string]string{v1alpha1.AnnotationDefaultModel: annotation}
	}
	return m
}

// Rules: CFG-07, MODEL-02.
func TestResolveModel(t *testing.T) {
	models := []v1alpha1.Model{
		candidate("old-default", 0, "true"), candidate("b-default", 5, "true"), candidate("a-default", 5, "true"),
		candidate("newest", 9, "false"), candidate("plain", 1, ""), candidate("other", 1, ""),
	}
	for name, test := range map[string]struct {
		controls, layered string
		models            []v1alpha1.Model
		want              string
	}{
		"the controls come first": {
			controls: "plain", layered: "other", models: models, want: "plain",
		},
		"then the layers": {layered: "other", models: models, want: "other"},
		"a name in the controls that is missing is skipped": {
			controls: "gone", layered: "other", models: models, want: "other",
		},
		"both missing gives the default": {
			controls: "gone", layered: "lost", models: models, want: "a-default",
		},
		"of several defaults the newest, then by name": {models: models, want: "a-default"},
		"the order of the list does not matter": {
			models: []v1alpha1.Model{models[2], models[1], models[0]}, want: "a-default",
		},
		"only the value true makes a default": {models: models[3:]},
		"no model at all":                     {controls: "gone"},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := ResolveModel(test.controls, test.layered, test.models)
			if ok != (test.want != "") || ok != (got != nil) {
				t.Fatalf("ResolveModel = %v, %t, want %q", got, ok, test.want)
			}
			if ok && got.Name != test.want {
				t.Errorf("ResolveModel = %s, want %s", got.Name, test.want)
			}
		})
	}
}

// someTool is a client's, with a Ready condition of a status.
func someTool(name string, ready metav1.ConditionStatus) *v1alpha1.Tool {
	tool := &v1alpha1.Tool{ObjectMeta: metav1.ObjectMeta{Name: name}}
	tool.Spec.Client = &v1alpha1.ClientTool{}
	if ready != "" {
		tool.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: ready}}
	}
	return tool
}

// unboundTool is a Job with access to the network, which no list can restrict.
func unboundTool(name string) *v1alpha1.Tool {
	tool := someTool(name, metav1.ConditionTrue)
	tool.Spec.Client, tool.Spec.Job = nil, &v1alpha1.JobTool{}
	return tool
}

func TestProblem(t *testing.T) {
	models := []v1alpha1.Model{someModel("ready", metav1.ConditionTrue), someModel("slow", metav1.ConditionFalse)}
	tools := map[string]*v1alpha1.Tool{
		"a":      someTool("a", metav1.ConditionTrue),
		"b":      someTool("b", metav1.ConditionTrue),
		"broken": someTool("broken", metav1.ConditionFalse),
		"torn":   someTool("torn", ""),
		"far":    unboundTool("far"),
		"wide":   unboundTool("wide"),
	}
	for name, test := range map[string]struct {
		effective Effective
		reason    string
		parts     []string
	}{
		"nothing named": {},
		"all usable":    {effective: Effective{ModelRef: "ready", Tools: []string{"a", "b"}}},
		"the model is missing": {
			effective: Effective{ModelRef: "gone", Tools: []string{"lost"}},
			reason:    v1alpha1.ReasonModelNotFound, parts: []string{`Model "gone"`, "Create it", `Tool "lost"`},
		},
		"the model is not ready": {
			effective: Effective{
				ModelRef: "slow", Tools: []string{"a"},
			}, reason: v1alpha1.ReasonModelNotReady, parts: []string{`Model "slow"`},
		},
		"a tool is missing": {
			effective: Effective{Tools: []string{"a", "lost"}},
			reason:    v1alpha1.ReasonToolNotFound, parts: []string{`Tool "lost"`, "Create it"},
		},
		"tools are missing": {
			effective: Effective{Tools: []string{"lost", "a", "gone"}},
			reason:    v1alpha1.ReasonToolNotFound, parts: []string{"2 Tools", `"lost", "gone"`},
		},
		"a tool is not ready": {
			effective: Effective{
				Tools: []string{"broken"},
			}, reason: v1alpha1.ReasonToolNotReady, parts: []string{`Tool "broken"`},
		},
		"tools are not ready": {
			effective: Effective{Tools: []string{"broken", "torn"}},
			reason:    v1alpha1.ReasonToolNotReady, parts: []string{"2 Tools", `"broken", "torn"`},
		},
		"missing comes before not ready": {
			effective: Effective{ModelRef: "slow", Tools: []string{"broken", "lost"}},
			reason:    v1alpha1.ReasonToolNotFound, parts: []string{`"lost"`, `"slow"`, `"broken"`},
		},
		"the model comes before the tools": {
			effective: Effective{
				ModelRef: "slow", Tools: []string{"broken"},
			}, reason: v1alpha1.ReasonModelNotReady, parts: []string{`"slow"`},
		},
		"a tool is not held by the list": {
			effective: Effective{Tools: []string{"a", "far"}}, reason: v1alpha1.ReasonNetworkAccessUnenforceable,
			parts: []string{
				`"far"`, "None", "exemptTools",
			},
		},
		"tools are not held by the list": {
			effective: Effective{
				Tools: []string{"wide", "far"},
			}, reason: v1alpha1.ReasonNetworkAccessUnenforceable, parts: []string{`"wide", "far"`},
		},
		"not ready comes before not held": {
			effective: Effective{
				Tools: []string{"far", "broken"},
			}, reason: v1alpha1.ReasonToolNotReady, parts: []string{`"broken"`},
		},
		"a capability is not known": {
			effective: Effective{ModelRef: "slow", Capabilities: used("current_time", "flight")},
			reason:    v1alpha1.ReasonCapabilityNotFound,
			parts: []string{
				"no capability", "names: flight.", strings.Join(builtin.Names(), ", "), `"slow"`,
			},
		},
		"the capabilities are known": {
			effective: Effective{Capabilities: used("stateless_todo_list", "current_time")},
		},
		"no model named needs none to exist": {effective: Effective{Tools: []string{"a"}}},
	} {
		t.Run(name, func(t *testing.T) {
			test.effective.Network = NetworkAccess{inForce: true}
			r := &Resolved{Part: true, Effective: test.effective, Models: models, Tools: tools}
			reason, message := r.Problem()
			if reason != test.reason || (reason == "") != (message == "") {
				t.Fatalf("Problem = %q, %q, want reason %q", reason, message, test.reason)
			}
			for _, part := range test.parts {
				if !strings.Contains(message, part) {
					t.Errorf("message %q does not contain %s", message, part)
				}
			}
		})
	}
}
