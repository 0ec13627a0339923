package config

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/platform"
	"github.com/capstan-dev/capstan/internal/runtime/tool/definition"
)

// managing is a layer with the capability platform, and with the Model.
func managing(account string) v1alpha1.ConfigLayer {
	return v1alpha1.ConfigLayer{
		ModelRef: &v1alpha1.LocalReference{Name: "m"}, ServiceAccountName: account,
		Capabilities: []v1alpha1.CapabilityReference{
			{Builtin: platform.Capability, MaxRisk: v1alpha1.CapabilityRiskHigh},
		},
	}
}

// platformTools are the tools of the capability among others.
func platformTools(all definition.Set) definition.Set {
	return slices.DeleteFunc(slices.Clone(all), func(d *definition.Definition) bool {
		return d.BuiltinCapability() != platform.Capability
	})
}

// Rules: SVC-04.
func TestTheToolsOfThePlatformRunAsTheAccountOfTheLowestLayer(t *testing.T) {
	for name, test := range map[string]struct{ harness, session, want string }{
		"of the Session":           {"", "bot", "bot"},
		"of the Harness":           {"base-bot", "", "base-bot"},
		"of the Session over that": {"base-bot", "bot", "bot"},
		"none":                     {},
	} {
		t.Run(name, func(t *testing.T) {
			r := resolvedFrom(t, bundled(v1alpha1.ConfigLayer{ServiceAccountName: test.harness}), managing(test.session))
			if reason, message := r.Problem(); reason != "" {
				t.Fatalf("%s: %s", reason, message)
			}
			found := platformTools(r.Definitions())
			noted := strings.Contains(strings.Join(r.Notes(), " "), "no layer sets serviceAccountName")
			if (len(found) == 8) != (test.want != "") || noted != (test.want == "") {
				t.Errorf("there are %d tools, and the notes are %q", len(found), r.Notes())
			}
			for _, d := range found {
				if d.Executor != v1alpha1.ToolExecutorJob || d.Spec().Job.ServiceAccountName != test.want ||
					d.SideEffect == v1alpha1.SideEffectAtMostOnce {
					t.Errorf("%s is %+v", d.Name, d.Spec().Job)
				}
			}
		})
	}
}

// Rules: SVC-04.
func TestACallThatWasPlannedWithAnotherAccountDoesNotRun(t *testing.T) {
	of := func(account string) definition.Set {
		return platformTools(resolvedFrom(t, bundled(v1alpha1.ConfigLayer{}), managing(account)).Definitions())
	}
	planned := v1alpha1.ToolCall{Name: platform.SendTool}
	of("bot").Find(platform.SendTool).Pin(&planned)
	if of("bot").Planned(planned) == nil {
		t.Error("the call does not run with the same account")
	}
	if of("admin").Planned(planned) != nil {
		t.Error("the call runs with another account")
	}
}

// Rules: SVC-04, CFG-07.
func TestASessionThatActsAsAnAccountDoesNotUseTheDefaultModel(t *testing.T) {
	unnamed := func(layer v1alpha1.ConfigLayer) v1alpha1.ConfigLayer {
		layer.ModelRef = nil
		return layer
	}
	for name, test := range map[string]struct {
		harness, session v1alpha1.ConfigLayer
		used             bool
	}{
		"no Model is named": {session: unnamed(managing("bot"))},
		"the Harness names the account": {
			harness: v1alpha1.ConfigLayer{ServiceAccountName: "bot"}, session: unnamed(managing("")),
		},
		"the Session names the Model":     {session: managing("bot"), used: true},
		"a Harness names the Model":       {harness: managing(""), session: unnamed(managing("bot")), used: true},
		"without an account":              {session: unnamed(managing("")), used: true},
		"without the capability platform": {session: v1alpha1.ConfigLayer{ServiceAccountName: "bot"}, used: true},
	} {
		t.Run(name, func(t *testing.T) {
			r := resolvedFrom(t, bundled(test.harness), test.session)
			model, found := r.Model(nil)
			reason, message := r.Problem()
			missing := reason == v1alpha1.ReasonModelNotFound && strings.Contains(message, "the default Model is not used")
			if found != test.used || missing == test.used || test.used && reason != "" {
				t.Errorf("the Model is %v, and the problem %s: %s", model, reason, message)
			}
			if !found {
				if reason, again := r.NoModel(); reason != v1alpha1.ReasonModelNotFound || again != message {
					t.Errorf("Turns wait with %s: %s", reason, again)
				}
			}
		})
	}

	// The Model that a layer names was deleted while a Turn ran.
	gone := managing("bot")
	gone.ModelRef.Name = "gone"
	r := resolvedFrom(t, bundled(v1alpha1.ConfigLayer{}), gone)
	if model, found := r.Model(nil); found {
		t.Errorf("%s is called in place of a Model that is gone", model.Name)
	}
	asked := &v1alpha1.TurnControls{ModelRef: &v1alpha1.LocalReference{Name: "gone"}}
	if model, found := r.Model(asked); found {
		t.Errorf("%s is called in place of a Model that the message names", model.Name)
	}
	// The Model of the layer serves a message that names one that is gone.
	if model, found := resolvedFrom(t, bundled(v1alpha1.ConfigLayer{}), managing("bot")).Model(asked); !found ||
		model.Name != "m" {
		t.Errorf("%v is called", model)
	}
}

// Rules: SVC-04.
func TestChangesOfThePlatformMayNeedApproval(t *testing.T) {
	for config, want := range map[string]int{"": 0, `{}`: 0, `{"approval":"Never"}`: 0, `{"approval":"Changes"}`: 4} {
		layer := managing("bot")
		if config != "" {
			layer.Capabilities[0].Config = &v1alpha1.JSON{Raw: []byte(config)}
		}
		r := resolvedFrom(t, bundled(v1alpha1.ConfigLayer{}), layer)
		if reason, message := r.Problem(); reason != "" {
			t.Errorf("%s: %s: %s", config, reason, message)
		}
		asked := 0
		for _, d := range platformTools(r.Definitions()) {
			if d.Policy == v1alpha1.ToolPolicyRequiresApproval {
				asked++
			}
		}
		if asked != want {
			t.Errorf("%s: %d tools need approval, want %d", config, asked, want)
		}
	}
	layer := managing("bot")
	layer.Capabilities[0].Config = &v1alpha1.JSON{Raw: []byte(`{"approval":"changes"}`)}
	r := resolvedFrom(t, bundled(v1alpha1.ConfigLayer{}), layer)
	if reason, _ := r.Problem(); reason != v1alpha1.ReasonCapabilityInvalid || len(platformTools(r.Definitions())) > 0 {
		t.Errorf("a configuration that cannot be used has the reason %q, and tools", reason)
	}
}

// Rules: SVC-04.
func TestABlueprintHasNoToolsOfThePlatform(t *testing.T) {
	r := asBlueprint(t, bundled(managing("bot"), research(nil)), `{"depth":2}`, nil)
	if found := platformTools(r.Definitions()); len(found) > 0 || len(r.platformNotes()) > 0 {
		t.Errorf("the tools are %+v, and the notes %q", found, r.Notes())
	}
}

// Rules: SVC-04.
func TestThePlatformIsACapabilityOfAHighRisk(t *testing.T) {
	layer := managing("bot")
	layer.Capabilities[0].MaxRisk = v1alpha1.CapabilityRiskMedium
	r := resolvedFrom(t, bundled(v1alpha1.ConfigLayer{}), layer)
	if reason, message := r.Problem(); reason != v1alpha1.ReasonCapabilityRisk || r.Blocker() == nil {
		t.Errorf("%s: %s", reason, message)
	}
}

// Rules: SVC-04.
func TestTheSchemasOfThePlatformCanBeUsed(t *testing.T) {
	found := platformTools(resolvedFrom(t, bundled(v1alpha1.ConfigLayer{}), managing("bot")).Definitions())
	for _, d := range found {
		if err := configs.Usable(d.InputSchema); err != nil || !json.Valid(d.InputSchema) {
			t.Errorf("%s has the schema %s: %v", d.Name, d.InputSchema, err)
		}
		if len(d.Description) > 4096 {
			t.Errorf("%s has a description of %d bytes", d.Name, len(d.Description))
		}
	}
	if configs.Validate(found.Find(platform.SendTool).InputSchema, `{"session":"a","message":"b"}`) != nil {
		t.Error("a message is refused")
	}
}

// The program of the tools does not know the API.
func TestTheProgramMarksObjectsAsTheAPISays(t *testing.T) {
	for mark, want := range map[string]string{
		platform.AnnotationCall: v1alpha1.AnnotationPlatformCall, platform.LabelArchived: v1alpha1.LabelArchived,
		platform.AnnotationSession: v1alpha1.AnnotationPlatformSession,
		platform.AnnotationDepth:   v1alpha1.AnnotationPlatformDepth,
	} {
		if mark != want {
			t.Errorf("the program writes %s, want %s", mark, want)
		}
	}
}
