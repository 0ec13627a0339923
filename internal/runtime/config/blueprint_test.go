package config

import (
	"net/url"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/leftout"
)

// research is a Capability with a blueprint, its tools and a hook.
func research(change func(*v1alpha1.Blueprint)) *v1alpha1.Capability {
	b := v1alpha1.Blueprint{
		Name: "reader", Description: "Reads papers.", SystemPrompt: " Read. ", Tools: refs("look"),
		ConfigSchema: &v1alpha1.JSON{Raw: []byte(`{"type":"object","properties":{"depth":{"type":"integer"}},` +
			`"additionalProperties":false}`)},
	}
	if change != nil {
		change(&b)
	}
	return bundle("research", v1alpha1.CapabilitySpec{
		SystemPrompt: "Research.", Hooks: []v1alpha1.Hook{celHook("guard")}, Blueprints: []v1alpha1.Blueprint{b},
	})
}

// asBlueprint resolves a Session that is the blueprint reader, below a Harness with a layer of its own.
func asBlueprint(t *testing.T, source namespaced, config string, change func(*v1alpha1.SessionSpec)) *Resolved {
	t.Helper()
	session := &v1alpha1.Session{Spec: v1alpha1.SessionSpec{
		HarnessRef: v1alpha1.LocalReference{Name: "base"},
		Blueprint:  &v1alpha1.BlueprintReference{Capability: "research", Name: "reader"},
	}}
	if config != "" {
		session.Spec.Blueprint.Config = &v1alpha1.JSON{Raw: []byte(config)}
	}
	if change != nil {
		change(&session.Spec)
	}
	r, err := Resolve(t.Context(), source, session)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// busy is the layer of a Harness with much of its own.
func busy() v1alpha1.ConfigLayer {
	return v1alpha1.ConfigLayer{
		SystemPrompt: "Be brief.", Tools: refs("count"), Hooks: []v1alpha1.Hook{celHook("own")}, MaxIterations: number(7),
		Capabilities:  []v1alpha1.CapabilityReference{{Builtin: "current_time"}},
		NetworkAccess: &v1alpha1.NetworkAccess{Allowed: []v1alpha1.NetworkPattern{"example.org"}},
	}
}

// Rules: BP-02, BP-03, GAP-09.
func TestASessionIsItsBlueprintAndKeepsWhatGuardsIt(t *testing.T) {
	r := asBlueprint(t, bundled(busy(), research(nil)), `{"depth":2}`, nil)
	if reason, message := r.Problem(); reason != "" {
		t.Fatalf("%s: %s", reason, message)
	}
	if e := r.Effective; e.SystemPrompt != "Read.\n\n<config>\n{\"depth\":2}\n</config>" || e.MaxIterations != 20 {
		t.Errorf("the Session is %+v", e)
	}
	if all := r.Definitions(); len(all) != 1 || all[0].Name != "look" || len(r.Prompts()) != 0 {
		t.Errorf("the tools are %+v, the prompts %+v", all, r.Prompts())
	}
	if len(r.Hooks) != 2 || r.Hooks[0].ID != "harness/base:own" || r.Hooks[1].ID != "object/research:guard" {
		t.Errorf("the hooks are %+v", r.Hooks)
	}
	elsewhere := &url.URL{Scheme: "https", Host: "a.example"}
	if r.Effective.Network.Presence(r.Tools["look"], Usable) != Usable || r.Effective.Network.Permits(elsewhere) {
		t.Errorf("the network is %+v", r.Effective.Network)
	}
	own := asBlueprint(t, bundled(busy(), research(func(b *v1alpha1.Blueprint) { b.MaxIterations = number(5) })), "", nil)
	if own.Effective.MaxIterations != 5 {
		t.Errorf("the limit is %d", own.Effective.MaxIterations)
	}
	own = asBlueprint(t, bundled(busy(), research(nil)), "", func(s *v1alpha1.SessionSpec) { s.MaxIterations = number(3) })
	if own.Effective.MaxIterations != 3 {
		t.Errorf("the limit is %d", own.Effective.MaxIterations)
	}
}

// Rules: BP-02.
func TestTheModelOfABlueprint(t *testing.T) {
	ready := []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue}}
	named := &v1alpha1.TurnControls{ModelRef: ref("m")}
	for name, test := range map[string]struct {
		policy   v1alpha1.BlueprintModel
		config   string
		controls *v1alpha1.TurnControls
		want     string
	}{
		"inherited":               {"", "", nil, "m"},
		"fixed":                   {v1alpha1.BlueprintModelFixed, "", nil, "big"},
		"fixed, whatever is said": {v1alpha1.BlueprintModelFixed, "", named, "big"},
		"default":                 {v1alpha1.BlueprintModelDefault, `{"depth":1}`, nil, "big"},
		"default, and the config": {v1alpha1.BlueprintModelDefault, `{"depth":1,"model":"small"}`, nil, "small"},
		"default, and a message":  {v1alpha1.BlueprintModelDefault, "", named, "m"},
	} {
		t.Run(name, func(t *testing.T) {
			source := bundled(busy(), research(func(b *v1alpha1.Blueprint) {
				if b.ModelPolicy = test.policy; test.policy != "" {
					b.ModelRef = ref("big")
				}
			}))
			for _, model := range []string{"big", "small"} {
				source.models = append(source.models, v1alpha1.Model{
					ObjectMeta: metav1.ObjectMeta{Name: model}, Status: v1alpha1.ModelStatus{Conditions: ready},
				})
			}
			r := asBlueprint(t, source, test.config, nil)
			if reason, message := r.Problem(); reason != "" {
				t.Fatalf("%s: %s", reason, message)
			}
			if got, ok := r.Model(test.controls); !ok || got.Name != test.want {
				t.Errorf("the Model is %+v", got)
			}
		})
	}
}

// Rules: BP-01, BP-04.
func TestABlueprintThatCannotBeUsedIsNamed(t *testing.T) {
	agent := func(b *v1alpha1.Blueprint) { b.Tools = refs("helper") }
	for name, test := range map[string]struct {
		bundle  *v1alpha1.Capability
		config  string
		reason  string
		message string
	}{
		"the Capability is missing": {
			bundle("other", v1alpha1.CapabilitySpec{}), "", v1alpha1.ReasonCapabilityNotFound, `"research"`,
		},
		"it is missing": {
			bundle("research", v1alpha1.CapabilitySpec{}), "", v1alpha1.ReasonBlueprintInvalid, `has no blueprint "reader"`,
		},
		"an invalid config": {
			research(nil), `{"depth":"x"}`, v1alpha1.ReasonBlueprintInvalid, "does not match the configSchema",
		},
		"a config that is too large": {
			research(nil), `{"depth":"` + strings.Repeat("x", 2048) + `"}`, v1alpha1.ReasonBlueprintInvalid,
			"more than 2048 bytes",
		},
		"a model in the config, where it is inherited": {
			research(nil), `{"model":"m"}`, v1alpha1.ReasonBlueprintInvalid, "does not match",
		},
		"a Tool that starts sub-agents": {research(agent), "", v1alpha1.ReasonBlueprintInvalid, `has the Tool "helper"`},
		"a Tool that is missing": {
			research(func(b *v1alpha1.Blueprint) { b.Tools = refs("none") }), "", v1alpha1.ReasonToolNotFound, `"none"`,
		},
		"a Model that is missing": {
			research(func(b *v1alpha1.Blueprint) { b.ModelPolicy, b.ModelRef = v1alpha1.BlueprintModelFixed, ref("none") }), "",
			v1alpha1.ReasonModelNotFound, `"none"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			source := bundled(busy(), test.bundle)
			helper := source.tools["look"].DeepCopy()
			helper.Name, helper.Spec.Agent = "helper", &v1alpha1.AgentTool{}
			source.tools["helper"] = helper
			r := asBlueprint(t, source, test.config, nil)
			if reason, message := r.Problem(); reason != test.reason || !strings.Contains(message, test.message) {
				t.Errorf("the problem is %s: %s", reason, message)
			}
			if blocker := r.Blocker(); test.reason == v1alpha1.ReasonBlueprintInvalid && (blocker == nil ||
				blocker.Sentence() != "Execution stopped because the blueprint cannot be used.") {
				t.Errorf("the blocker is %+v", blocker)
			}
			if test.config != "" || test.bundle.Name != "research" || len(test.bundle.Spec.Blueprints) == 0 {
				return
			}
			own, err := ResolveCapability(t.Context(), source, test.bundle)
			if err != nil {
				t.Fatal(err)
			}
			if reason, message := own.Problem(); reason != test.reason {
				t.Errorf("the Capability itself: %s: %s", reason, message)
			}
		})
	}
}

// Rules: BP-04, SPAWN-05.
func TestTheModelStartsSubAgentsOnBlueprints(t *testing.T) {
	layer := naming("research")
	layer.Capabilities = append(layer.Capabilities, v1alpha1.CapabilityReference{Builtin: "subagents"})
	r := resolvedFrom(t, bundled(v1alpha1.ConfigLayer{}, research(nil)), layer)
	if reason, message := r.Problem(); reason != "" {
		t.Fatalf("%s: %s", reason, message)
	}
	all := r.Definitions()
	if len(all) != 2 || all[0].Name != "spawn_subagent" || all[1].Name != "spawn_reader" {
		t.Fatalf("the tools are %+v", all)
	}
	for _, d := range all {
		if d.Executor != v1alpha1.ToolExecutorAgent || d.SideEffect != v1alpha1.SideEffectAtMostOnce || d.Object() == nil {
			t.Errorf("%s is %+v", d.Name, d)
		}
		if err := configs.Usable(d.InputSchema); err != nil {
			t.Errorf("%s has the schema %s: %v", d.Name, d.InputSchema, err)
		}
	}
	valid := `{"message":"Read.","config":{"depth":1}}`
	if err := configs.Validate(all[1].InputSchema, valid); err != nil {
		t.Error(err)
	}
	for _, arguments := range []string{`{"message":"Read.","config":{"depth":"x"}}`, `{"config":{"depth":1}}`} {
		if configs.Validate(all[1].InputSchema, arguments) == nil {
			t.Errorf("%s is accepted", arguments)
		}
	}
	if all[0].Digest() == all[1].Digest() || configs.Validate(all[0].InputSchema, valid) == nil {
		t.Error("a sub-agent without a blueprint has a config")
	}
	withRef := agentSchema(
		&v1alpha1.JSON{Raw: []byte(`{"type":"object","properties":{"a":{"$ref":"#/$defs/a"}},"required":["a"]}`)},
	)
	if err := configs.Usable(withRef); err != nil {
		t.Errorf("the schema with a reference is %s: %v", withRef, err)
	}
}

func TestTheLongTextsOfABlueprintAreLeftOutOfCaches(t *testing.T) {
	o := research(func(b *v1alpha1.Blueprint) { b.SystemPrompt = strings.Repeat("x", 16<<10) })
	LeaveOutCapability(o)
	r := asBlueprint(t, bundled(busy(), o), `{"depth":2}`, nil)
	if !leftout.Is(r.Effective.SystemPrompt) || leftout.Bytes(r.Effective.SystemPrompt) < 16<<10 {
		t.Errorf("the prompt is %.80q", r.Effective.SystemPrompt)
	}
	large := &v1alpha1.BlueprintReference{
		Config: &v1alpha1.JSON{Raw: []byte(`{"a":"` + strings.Repeat("x", 1<<20) + `"}`)},
	}
	LeaveOutBlueprintConfig(large)
	LeaveOutBlueprintConfig(nil)
	if len(large.Config.Raw) > 64 {
		t.Errorf("the cache keeps %d bytes", len(large.Config.Raw))
	}
}
