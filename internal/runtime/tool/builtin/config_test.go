package builtin

import (
	"slices"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/tool/inputschema"
)

// Rules: CAP-01, CAP-06.
func TestEveryCapabilityIsComplete(t *testing.T) {
	for _, name := range Names() {
		if strings.HasPrefix(name, "test_") {
			continue
		}
		c, _ := Find(name)
		if c.Description == "" || c.Risk == "" ||
			(c.ConfigSchema == "") != (c.Configure == nil) {
			t.Errorf("%s is registered as %+v", name, c)
		}
		if c.ConfigSchema != "" && inputschema.Check([]byte(c.ConfigSchema)) != nil {
			t.Errorf("%s has the schema %s", name, c.ConfigSchema)
		}
		for _, dependency := range c.DependsOn {
			if !slices.Contains(Names(), dependency) {
				t.Errorf("%s depends on %s, which does not exist", name, dependency)
			}
		}
	}
}

// Rules: CAP-04.
func TestTheConfigurationOfTheCurrentTime(t *testing.T) {
	set, err := Configured("current_time", `{"timezone":"Europe/Berlin"}`)
	if err != nil || len(set) != 1 {
		t.Fatalf("the tools are %+v, %v", set, err)
	}
	if _, schema := set[0].Offer(); !strings.Contains(string(schema), "Default: Europe/Berlin.") {
		t.Errorf("the schema is %s", schema)
	}
	outcome, defect := run(t, set[0], `{}`)
	if defect != nil || outcome.Result == nil || !strings.Contains(*outcome.Result, `"2031-05-04T14:00:00+02:00"`) {
		t.Errorf("the time is %+v, %v", outcome, defect)
	}
	plain := definitionOf(t, "current_time", "get_current_time")
	if plain.Digest() == set[0].Digest() {
		t.Error("the configuration does not count in the digest")
	}
	planned := v1alpha1.ToolCall{Name: "get_current_time"}
	set[0].Pin(&planned)
	if plain.Holds(planned) || !set[0].Holds(planned) {
		t.Error("a call runs with another configuration than the one that it was planned with")
	}
}
