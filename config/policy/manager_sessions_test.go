package policy_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/config/policy"
)

// The Session of a sub-agent has of the fields of a layer only those that narrow it. A new field has to be decided
// about.
func TestTheManagerConfiguresNoSession(t *testing.T) {
	narrows := map[string]bool{"networkAccess": true, "maxIterations": true}
	policies, err := policy.Policies(policy.Accounts{})
	if err != nil {
		t.Fatal(err)
	}
	var rules strings.Builder
	for _, p := range policies {
		if p.Policy.Name != "capstan-manager-sessions" {
			continue
		}
		for _, v := range p.Policy.Spec.Validations {
			rules.WriteString(v.Expression)
		}
	}
	layer := reflect.TypeFor[v1alpha1.ConfigLayer]()
	for i := range layer.NumField() {
		name, _, _ := strings.Cut(layer.Field(i).Tag.Get("json"), ",")
		if denied := strings.Contains(rules.String(), "!has(object.spec."+name+")"); denied == narrows[name] {
			t.Errorf("the field %s is denied: %v", name, denied)
		}
	}
}
