package inspect

import (
	"context"
	"reflect"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/config"
	"github.com/capstan-dev/capstan/internal/runtime/prompt"
)

// objects are those of a namespace.
type objects struct {
	harness *v1alpha1.Harness
	tools   map[string]*v1alpha1.Tool
	models  []v1alpha1.Model
}

func (o objects) Harness(context.Context, string) (*v1alpha1.Harness, error) { return o.harness, nil }

func (o objects) Agent(context.Context, string) (*v1alpha1.Agent, error) { return nil, nil }

func (o objects) Tool(_ context.Context, name string) (*v1alpha1.Tool, error) {
	return o.tools[name], nil
}

func (o objects) Capability(context.Context, string) (*v1alpha1.Capability, error) {
	return nil, nil
}

func (o objects) MCPServer(context.Context, string) (*v1alpha1.MCPServer, error) { return nil, nil }

func (o objects) Model(context.Context, string) (*v1alpha1.Model, error) { return nil, nil }

func (o objects) Models(context.Context) ([]v1alpha1.Model, error) { return o.models, nil }

var ready = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue}}

// whole is a namespace where nothing is missing.
func whole() objects {
	pay := &v1alpha1.Tool{ObjectMeta: metav1.ObjectMeta{Name: "pay"}, Spec: v1alpha1.ToolSpec{
		Description: "Pays.", Policy: v1alpha1.ToolPolicyRequiresApproval, Job: &v1alpha1.JobTool{Image: "i"},
	}}
	pay.Status.Conditions = ready
	model := v1alpha1.Model{
		ObjectMeta: metav1.ObjectMeta{
			Name: "main", Annotations: map[string]string{v1alpha1.AnnotationDefaultModel: "true"},
		},
		Spec: v1alpha1.ModelSpec{Provider: v1alpha1.ModelProviderAnthropic, Model: "a-model"},
	}
	model.Status.Conditions = ready
	return objects{
		harness: &v1alpha1.Harness{ObjectMeta: metav1.ObjectMeta{Name: "base"}},
		tools:   map[string]*v1alpha1.Tool{"pay": pay},
		models:  []v1alpha1.Model{model},
	}
}

func session() *v1alpha1.Session {
	limit := int32(7)
	return &v1alpha1.Session{
		ObjectMeta: metav1.ObjectMeta{Name: "demo", UID: "u-1"},
		Spec: v1alpha1.SessionSpec{
			HarnessRef: v1alpha1.LocalReference{Name: "base"}, Locale: "de-CH",
			ConfigLayer: v1alpha1.ConfigLayer{
				SystemPrompt: "Be brief.", MaxIterations: &limit,
				Tools: []v1alpha1.LocalReference{{Name: "pay"}},
				Capabilities: []v1alpha1.CapabilityReference{
					{Builtin: "current_time", Config: &v1alpha1.JSON{Raw: []byte(`{"timezone":"Asia/Tokyo"}`)}},
				},
				Hooks: []v1alpha1.Hook{{
					Name: "guard", Event: v1alpha1.HookEventPreToolUse, OnError: v1alpha1.HookErrorPolicyBlock,
					CEL: &v1alpha1.CELHook{Expression: "true"},
				}},
			},
		},
	}
}

func inspected(t *testing.T, in objects, s *v1alpha1.Session) *Context {
	t.Helper()
	resolved, err := config.Resolve(t.Context(), in, s)
	if err != nil {
		t.Fatal(err)
	}
	return Of(s, resolved, nil)
}

// Rules: INSPECT-01, VEC-27.
func TestASessionIsInspectedBeforeItsFirstMessage(t *testing.T) {
	c := inspected(t, whole(), session())
	if c.Problem != "" || c.Message != "" || len(c.Messages) != 0 || len(c.Chain) != 1 || c.ModelName != "a-model" ||
		c.Effective.MaxIterations != 7 || c.Locale != "de-CH" || c.User != prompt.User("u-1") ||
		!strings.HasPrefix(c.SystemPrompt, "Be brief.\n\n") || !strings.Contains(c.SystemPrompt, "de-CH") {
		t.Errorf("the context is %+v", c)
	}
	var tools [][]string
	for _, tool := range c.Tools {
		tools = append(tools, []string{
			tool.Name, tool.Kind, tool.Source, string(tool.Executor), string(tool.SideEffect), string(tool.Policy),
		})
	}
	want := [][]string{
		{"pay", "Tool", "pay", "Job", "AtMostOnce", "RequiresApproval"},
		{"get_current_time", "Builtin", "current_time", "Builtin", "Pure", ""},
	}
	if !reflect.DeepEqual(tools, want) {
		t.Errorf("the tools are %q, want %q", tools, want)
	}
	hooks := []Hook{{ID: "session:guard", Event: "pre_tool_use", Program: "cel", OnError: "block"}}
	if !reflect.DeepEqual(c.Hooks, hooks) {
		t.Errorf("the hooks are %+v, want %+v", c.Hooks, hooks)
	}
	if len(c.Capabilities) != 1 || c.Capabilities[0].ID != "current_time" || c.Capabilities[0].Risk != "Low" ||
		c.Capabilities[0].Config != `{"timezone":"Asia/Tokyo"}` || c.Capabilities[0].Description == "" {
		t.Errorf("the capabilities are %+v", c.Capabilities)
	}
}

// Rules: INSPECT-01.
func TestWhatIsMissingIsInspected(t *testing.T) {
	for name, test := range map[string]struct {
		change  func(*objects, *v1alpha1.Session)
		problem string
	}{
		"the Harness": {
			func(o *objects, _ *v1alpha1.Session) { o.harness = nil }, v1alpha1.ReasonHarnessNotFound,
		},
		"the Model": {
			func(o *objects, _ *v1alpha1.Session) { o.models = nil }, v1alpha1.ReasonModelNotFound,
		},
		"a Tool": {
			func(o *objects, _ *v1alpha1.Session) { delete(o.tools, "pay") }, v1alpha1.ReasonToolNotFound,
		},
		"a capability": {
			func(_ *objects, s *v1alpha1.Session) { s.Spec.Capabilities[0].Builtin = "flight" },
			v1alpha1.ReasonCapabilityNotFound,
		},
		"a valid hook": {
			func(_ *objects, s *v1alpha1.Session) { s.Spec.Hooks[0].CEL.Expression = "(" }, v1alpha1.ReasonHookInvalid,
		},
	} {
		t.Run(name, func(t *testing.T) {
			in, s := whole(), session()
			test.change(&in, s)
			c := inspected(t, in, s)
			if c.Problem != test.problem || c.Message == "" || !strings.HasPrefix(c.SystemPrompt, "Be brief.") {
				t.Errorf("the problem is %q (%s), want %q", c.Problem, c.Message, test.problem)
			}
		})
	}
}
