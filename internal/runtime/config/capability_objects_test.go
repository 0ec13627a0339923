package config

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/leftout"
)

// bundle is a Capability of a name.
func bundle(name string, spec v1alpha1.CapabilitySpec) *v1alpha1.Capability {
	return &v1alpha1.Capability{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}
}

// needing is a spec with dependencies on Capabilities.
func needing(names ...string) v1alpha1.CapabilitySpec {
	var spec v1alpha1.CapabilitySpec
	for _, name := range names {
		spec.Dependencies = append(spec.Dependencies, v1alpha1.CapabilityDependency{Name: name})
	}
	return spec
}

// celHook is a hook that allows everything.
func celHook(name string) v1alpha1.Hook {
	return v1alpha1.Hook{
		Name: name, Event: v1alpha1.HookEventPreToolUse, CEL: &v1alpha1.CELHook{Expression: "true"},
	}
}

// bundled is a namespace with a Harness base whose layer is given, a Model and Capabilities.
func bundled(layer v1alpha1.ConfigLayer, bundles ...*v1alpha1.Capability) namespaced {
	ready := []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue}}
	o := namespaced{
		harnesses: map[string]*v1alpha1.Harness{"base": {
			ObjectMeta: metav1.ObjectMeta{Name: "base"}, Spec: v1alpha1.HarnessSpec{ConfigLayer: layer},
		}},
		models: []v1alpha1.Model{{
			ObjectMeta: metav1.ObjectMeta{Name: "m", Annotations: map[string]string{
				v1alpha1.AnnotationDefaultModel: "true",
			}},
			Status: v1alpha1.ModelStatus{Conditions: ready},
		}},
		tools: map[string]*v1alpha1.Tool{}, bundles: map[string]*v1alpha1.Capability{},
	}
	for _, name := range []string{"look", "count"} {
		o.tools[name] = &v1alpha1.Tool{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Status: v1alpha1.ToolStatus{Conditions: ready},
		}
	}
	for _, b := range bundles {
		o.bundles[b.Name] = b
	}
	return o
}

// naming is a layer that names Capabilities.
func naming(names ...string) v1alpha1.ConfigLayer {
	var layer v1alpha1.ConfigLayer
	for _, name := range names {
		layer.Capabilities = append(layer.Capabilities, v1alpha1.CapabilityReference{Name: name})
	}
	return layer
}

func resolvedFrom(t *testing.T, source Source, own v1alpha1.ConfigLayer) *Resolved {
	t.Helper()
	r, err := Resolve(t.Context(), source, &v1alpha1.Session{Spec: v1alpha1.SessionSpec{
		HarnessRef: v1alpha1.LocalReference{Name: "base"}, ConfigLayer: own,
	}})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Rules: CAP-04, CFG-03.
func TestACapabilityBringsAllThatItHas(t *testing.T) {
	low := bundle("low", v1alpha1.CapabilitySpec{
		SystemPrompt: " Count. ", Tools: refs("count"),
		InitialFiles: []v1alpha1.InitialFile{{Path: "/a", Content: "low"}, {Path: "/b", Content: "low"}},
	})
	high := bundle("high", v1alpha1.CapabilitySpec{
		SystemPrompt: "Look.", Tools: refs("look"), ConfigSchema: &v1alpha1.JSON{Raw: []byte(`{"type":"object"}`)},
		Dependencies: []v1alpha1.CapabilityDependency{{Name: "low"}, {Builtin: "current_time"}},
		InitialFiles: []v1alpha1.InitialFile{{Path: "/a", Content: "high"}, {Path: "/c", Content: "high"}},
	})
	own := naming("high")
	own.Capabilities[0].Config = &v1alpha1.JSON{Raw: []byte(`{"x":1}`)}
	own.Tools = refs("look")
	own.InitialFiles = []v1alpha1.InitialFile{{Path: "/c", Content: "session"}}
	r := resolvedFrom(t, bundled(v1alpha1.ConfigLayer{}, low, high), own)
	if reason, message := r.Problem(); reason != "" {
		t.Fatalf("%s: %s", reason, message)
	}
	if got := fmt.Sprint(r.Prompts()); got != `[{object/low Count. } {object/high Look. {"x":1}}]` {
		t.Errorf("the prompts are %s", got)
	}
	var tools []string
	for _, d := range r.Definitions() {
		tools = append(tools, d.Name)
	}
	if got := strings.Join(tools, " "); got != "look count get_current_time" {
		t.Errorf("the tools are %s", got)
	}
	var files []string
	for _, f := range r.Effective.InitialFiles {
		files = append(files, f.Path+" "+f.Content)
	}
	if got := strings.Join(files, ", "); got != "/a high, /b low, /c session" {
		t.Errorf("the files are %s", got)
	}
}

// Rules: HOOK-04, HOOK-05, PHASE-08.
func TestTheHooksOfACapabilityPrecedeThoseOfTheLayerThatBringsIt(t *testing.T) {
	guard := bundle("guard", v1alpha1.CapabilitySpec{Hooks: []v1alpha1.Hook{celHook("one"), celHook("two")}})
	top := naming("guard")
	top.Hooks = []v1alpha1.Hook{celHook("own")}
	own := v1alpha1.ConfigLayer{Hooks: []v1alpha1.Hook{celHook("own")}}
	ids := func(r *Resolved) string {
		var all []string
		for _, h := range r.Hooks {
			all = append(all, h.ID)
		}
		return strings.Join(all, " ")
	}
	const all = "object/guard:one object/guard:two harness/base:own session:own"
	if got := ids(resolvedFrom(t, bundled(top, guard), own)); got != all {
		t.Errorf("the hooks are %s", got)
	}
	muting := top
	muting.DisabledHooks = []string{"object/guard:one"}
	if got := ids(resolvedFrom(t, bundled(muting, guard), own)); got != strings.TrimPrefix(all, "object/guard:one ") {
		t.Errorf("the layer that brings it leaves %s", got)
	}
	own.DisabledHooks = []string{"object/guard:one"}
	// A lower layer may name it again, and still not mute it.
	own.Capabilities = naming("guard").Capabilities
	r := resolvedFrom(t, bundled(top, guard), own)
	if reason, message := r.Problem(); reason != v1alpha1.ReasonHookInvalid || ids(r) != all {
		t.Errorf("a lower layer leaves %s: %s %s", ids(r), reason, message)
	}
}

// Hooks are muted by disabledHooks of a layer, and by nothing that a capability has.
// Rules: HOOK-05, VEC-17.
func TestTheConfigurationOfACapabilityMutesNothing(t *testing.T) {
	muting := &v1alpha1.JSON{Raw: []byte(`{"disabled_contributions":["object/guard:one","session:own"]}`)}
	guard := bundle("guard", v1alpha1.CapabilitySpec{
		ConfigSchema: &v1alpha1.JSON{Raw: []byte(`{"type":"object"}`)}, Hooks: []v1alpha1.Hook{celHook("one")},
	})
	own := naming("guard")
	own.Capabilities[0].Config = muting
	own.Hooks = []v1alpha1.Hook{celHook("own")}
	r := resolvedFrom(t, bundled(v1alpha1.ConfigLayer{}, guard), own)
	if reason, message := r.Problem(); reason != "" || len(r.Hooks) != 2 || r.Hooks[0].ID != "object/guard:one" ||
		r.Hooks[1].ID != "session:own" {
		t.Errorf("the hooks are %+v: %s %s", r.Hooks, reason, message)
	}
	own.Capabilities[0] = v1alpha1.CapabilityReference{Builtin: "current_time", Config: muting}
	r = resolvedFrom(t, bundled(v1alpha1.ConfigLayer{}), own)
	if reason, message := r.Problem(); reason != v1alpha1.ReasonCapabilityInvalid || len(r.Hooks) != 1 {
		t.Errorf("the hooks are %+v: %s %s", r.Hooks, reason, message)
	}
}

// Rules: BLK-03, CAP-02, CAP-03, CFG-10, GAP-11.
func TestACapabilityThatCannotBeUsedIsNamed(t *testing.T) {
	yes, archived := true, v1alpha1.CapabilitySpec{Lifecycle: v1alpha1.LifecycleArchived}
	high := v1alpha1.CapabilitySpec{RiskLevel: v1alpha1.CapabilityRiskHigh}
	hooked := v1alpha1.CapabilitySpec{Hooks: []v1alpha1.Hook{celHook("one")}}
	schema := func(text string) v1alpha1.CapabilitySpec {
		return v1alpha1.CapabilitySpec{ConfigSchema: &v1alpha1.JSON{Raw: []byte(text)}}
	}
	ref := func(config string, optional *bool, risk v1alpha1.CapabilityRisk) v1alpha1.ConfigLayer {
		layer := naming("a")
		if config != "" {
			layer.Capabilities[0].Config = &v1alpha1.JSON{Raw: []byte(config)}
		}
		layer.Capabilities[0].Optional, layer.Capabilities[0].MaxRisk = optional, risk
		return layer
	}
	const typed = `{"type":"object","properties":{"x":{"type":"integer"}},"required":["x"]}`
	for name, test := range map[string]struct {
		layer   v1alpha1.ConfigLayer
		bundles []*v1alpha1.Capability
		reason  string
		message string
		blocked string
	}{
		"all is well": {layer: naming("a"), bundles: []*v1alpha1.Capability{bundle("a", needing("b")), bundle("b", hooked)}},
		"missing": {
			naming("a"), nil, v1alpha1.ReasonCapabilityNotFound,
			`Capability "a" does not exist. Create it, or remove it from capabilities.`,
			"Execution stopped because the assigned capability was deleted.",
		},
		"a missing dependency": {
			naming("a"),
			[]*v1alpha1.Capability{bundle("a", needing("b"))},
			v1alpha1.ReasonCapabilityNotFound,
			`Capability "b", on which capability "object/a" depends, does not exist. Create it, or remove it from ` +
				"dependencies of the other.",
			"Execution stopped because the assigned capability was deleted.",
		},
		"archived": {
			naming("a"),
			[]*v1alpha1.Capability{bundle("a", archived)},
			v1alpha1.ReasonArchived,
			`Capability "a" is archived. Set its lifecycle to Active, or remove it from capabilities.`,
			"Execution stopped because the assigned capability was archived.",
		},
		"a cycle": {
			naming("a"),
			[]*v1alpha1.Capability{bundle("a", needing("b")), bundle("b", needing("a"))},
			v1alpha1.ReasonCapabilityInvalid, `"object/a" depends on itself (object/a -> object/b -> object/a)`,
			"Execution stopped because a capability cannot be used.",
		},
		"optional and missing":  {layer: ref("", &yes, "")},
		"optional and archived": {layer: ref("", &yes, ""), bundles: []*v1alpha1.Capability{bundle("a", archived)}},
		"optional without a dependency": {
			layer: ref("", &yes, ""), bundles: []*v1alpha1.Capability{bundle("a", needing("b"))},
		},
		"optional with hooks": {
			ref("", &yes, ""),
			[]*v1alpha1.Capability{bundle("a", needing("b")), bundle("b", hooked)},
			v1alpha1.ReasonCapabilityInvalid, `"object/a" brings hooks, and cannot be optional`,
			"Execution stopped because a capability cannot be used.",
		},
		"a risk that is accepted": {
			layer: ref("", nil, v1alpha1.CapabilityRiskHigh), bundles: []*v1alpha1.Capability{bundle("a", high)},
		},
		"a risk that is not accepted": {
			naming("a"),
			[]*v1alpha1.Capability{bundle("a", high)},
			v1alpha1.ReasonCapabilityRisk,
			`"object/a" has the risk High, and a layer names it with maxRisk Medium`,
			"Execution stopped because a capability cannot be used.",
		},
		"a risk of a dependency that is not accepted": {
			ref("", nil, v1alpha1.CapabilityRiskHigh),
			[]*v1alpha1.Capability{bundle("a", needing("b")), bundle("b", high)},
			v1alpha1.ReasonCapabilityRisk,
			`"object/b" has the risk High, and capability "object/a" names it with maxRisk Medium`,
			"Execution stopped because a capability cannot be used.",
		},
		"a config": {layer: ref(`{"x":1}`, nil, ""), bundles: []*v1alpha1.Capability{bundle("a", schema(typed))}},
		"a config without a schema": {
			ref(`{}`, nil, ""),
			[]*v1alpha1.Capability{bundle("a", v1alpha1.CapabilitySpec{})},
			v1alpha1.ReasonCapabilityInvalid, `"object/a" has an invalid config: the Capability has no configSchema`,
			"Execution stopped because a capability cannot be used.",
		},
		"a config that violates the schema": {
			ref(`{"x":"1"}`, nil, ""),
			[]*v1alpha1.Capability{bundle("a", schema(typed))},
			v1alpha1.ReasonCapabilityInvalid, "it does not match the configSchema:",
			"Execution stopped because a capability cannot be used.",
		},
		"no config where the schema demands one": {
			naming("a"),
			[]*v1alpha1.Capability{bundle("a", schema(typed))},
			v1alpha1.ReasonCapabilityInvalid, "it does not match the configSchema:",
			"Execution stopped because a capability cannot be used.",
		},
		"a schema that is none": {
			naming("a"),
			[]*v1alpha1.Capability{bundle("a", schema(`{"type":"array"}`))},
			v1alpha1.ReasonCapabilityInvalid, `configSchema of Capability "a" cannot be used: `,
			"Execution stopped because a capability cannot be used.",
		},
		// Rules: VEC-14.
		"a hook that cannot run": {
			naming("a"),
			[]*v1alpha1.Capability{bundle("a", v1alpha1.CapabilitySpec{Hooks: []v1alpha1.Hook{{
				Name: "x", Event: v1alpha1.HookEventPreToolUse, CEL: &v1alpha1.CELHook{Expression: "1 +"},
			}}})},
			v1alpha1.ReasonHookInvalid, `Hook "object/a:x" is invalid`,
			"Execution stopped because a hook is invalid.",
		},
		"a tool that is missing": {
			naming("a"),
			[]*v1alpha1.Capability{bundle("a", v1alpha1.CapabilitySpec{Tools: refs("none")})},
			v1alpha1.ReasonToolNotFound, `Tool "none" does not exist`, "",
		},
		"files that contradict each other": {
			naming("a"), []*v1alpha1.Capability{bundle("a", v1alpha1.CapabilitySpec{
				InitialFiles: []v1alpha1.InitialFile{{Path: "/a"}, {Path: "/a/b"}},
			})}, v1alpha1.ReasonInitialFilesInvalid, "initialFiles of object/a cannot be used", "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := resolvedFrom(t, bundled(v1alpha1.ConfigLayer{}, test.bundles...), test.layer)
			reason, message := r.Problem()
			if reason != test.reason || !strings.Contains(message, test.message) {
				t.Errorf("the problem is %s: %s", reason, message)
			}
			blocked := ""
			if b := r.Blocker(); b != nil {
				blocked = b.Sentence()
			}
			if blocked != test.blocked {
				t.Errorf("the Turn is blocked with %q, want %q", blocked, test.blocked)
			}
		})
	}
}

// Rules: CAP-03.
func TestACapabilityIsReadyByItself(t *testing.T) {
	required := `{"type":"object","required":["x"]}`
	own := bundle("a", needing("b"))
	own.Spec.ConfigSchema = &v1alpha1.JSON{Raw: []byte(required)}
	own.Spec.RiskLevel = v1alpha1.CapabilityRiskHigh
	below := bundle("b", v1alpha1.CapabilitySpec{
		Dependencies: []v1alpha1.CapabilityDependency{{Builtin: "current_time"}},
	})
	r, err := ResolveCapability(t.Context(), bundled(v1alpha1.ConfigLayer{}, below), own)
	if err != nil {
		t.Fatal(err)
	}
	if reason, message := r.Problem(); reason != "" {
		t.Errorf("%s: %s", reason, message)
	}
	if got := r.Dependencies(); !slices.Equal(got, []string{"current_time", "object/b"}) {
		t.Errorf("the dependencies are %v", got)
	}
	r, err = ResolveCapability(t.Context(), bundled(v1alpha1.ConfigLayer{}), own)
	if err != nil {
		t.Fatal(err)
	}
	if reason, message := r.Problem(); reason != v1alpha1.ReasonCapabilityNotFound || !strings.Contains(message, `"b"`) {
		t.Errorf("%s: %s", reason, message)
	}
}

// Rules: CAP-03.
func TestTheCapabilitiesThatAreReadAreBounded(t *testing.T) {
	yes := true
	var layer v1alpha1.ConfigLayer
	source := bundled(layer)
	for i := range 16 {
		name := fmt.Sprintf("c-%d", i)
		layer.Capabilities = append(layer.Capabilities, v1alpha1.CapabilityReference{Name: name, Optional: &yes})
		b := bundle(name, v1alpha1.CapabilitySpec{})
		for j := range 8 {
			b.Spec.Dependencies = append(b.Spec.Dependencies,
				v1alpha1.CapabilityDependency{Name: fmt.Sprintf("none-%d-%d", i, j)})
		}
		source.bundles[name] = b
	}
	r := resolvedFrom(t, source, layer)
	if reason, message := r.Problem(); reason != v1alpha1.ReasonCapabilityInvalid ||
		!strings.Contains(message, "more than 64 capabilities") {
		t.Errorf("%s: %s", reason, message)
	}
	if n := len(r.Objects); n > 64 {
		t.Errorf("%d Capabilities are kept", n)
	}
}

func TestTheLongTextsOfACapabilityAreLeftOutOfCaches(t *testing.T) {
	large := strings.Repeat("x", 64<<10)
	o := bundle("a", v1alpha1.CapabilitySpec{
		Description: large, SystemPrompt: large, InitialFiles: []v1alpha1.InitialFile{{Path: "/a", Content: large}},
		ConfigSchema: &v1alpha1.JSON{Raw: []byte(`{"type":"object","title":"` + large + `"}`)},
	})
	LeaveOutCapability(o)
	LeaveOutCapability(o)
	if !leftout.Is(o.Spec.SystemPrompt) || !FilesLeftOut(o.Spec.InitialFiles) || o.Spec.Description != "" {
		t.Errorf("the cache keeps %d bytes", leftout.Size(o.Spec))
	}
	r := resolvedFrom(t, bundled(v1alpha1.ConfigLayer{}, o), naming("a"))
	reason, message := r.Problem()
	if reason != v1alpha1.ReasonCapabilityInvalid || !strings.Contains(message, "more than 8192 bytes") {
		t.Errorf("%s: %s", reason, message)
	}
}

// Rules: HOOK-06.
func TestTheHooksOfACapabilityAtTheEndOfASessionAreKept(t *testing.T) {
	end := celHook("end")
	end.Event = v1alpha1.HookEventSessionEnd
	guard := bundle("guard", v1alpha1.CapabilitySpec{Hooks: []v1alpha1.Hook{celHook("one"), end}})
	r := resolvedFrom(t, bundled(v1alpha1.ConfigLayer{}, guard), naming("guard"))
	if len(r.EndHooks) != 1 || r.EndHooks[0].ID != "object/guard:end" || r.EndHooks[0].Hook.CEL == nil {
		t.Errorf("the hooks are %+v", r.EndHooks)
	}
}
