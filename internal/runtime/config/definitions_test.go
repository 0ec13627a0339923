package config

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/tool/builtin/testmath"
	"github.com/capstan-dev/capstan/internal/runtime/tool/definition"
)

// The tools of a Turn are those of its definitions, and no others (TOOL-18).
func TestTheDefinitionsOfASession(t *testing.T) {
	made := func(name string) *v1alpha1.Tool {
		return &v1alpha1.Tool{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       v1alpha1.ToolSpec{Client: &v1alpha1.ClientTool{}},
		}
	}
	r := Resolved{
		Effective: Fold(
			v1alpha1.ConfigLayer{Tools: refs("b", "gone"), Capabilities: capabilities("unheard_of", testmath.Capability)},
			v1alpha1.ConfigLayer{Tools: refs("add"), Capabilities: capabilities("current_time", testmath.Capability)},
		),
		Tools: map[string]*v1alpha1.Tool{"b": made("b"), "add": made("add"), "other": made("other")},
	}
	var names []string
	for _, d := range r.Definitions() {
		names = append(names, string(d.Source.Kind)+" "+d.Name)
	}
	want := []string{
		"Tool b", "Tool add", "Builtin subtract", "Builtin multiply", "Builtin divide", "Builtin get_current_time",
	}
	if !slices.Equal(names, want) {
		t.Errorf("the definitions are %q, want %q", names, want)
	}
	if d := r.Definitions().Find("add"); d.Source.Kind != definition.KindTool || d.Object() == nil {
		t.Errorf("add is %+v", d)
	}
}
