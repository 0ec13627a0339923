package policy_test

import (
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/config/policy"
)

func TestUsernamesArePutIntoThePolicies(t *testing.T) {
	policies, err := policy.Policies(policy.Accounts{Manager: "it's me", JobController: "player"})
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]int{}
	for _, p := range policies {
		if !strings.HasPrefix(p.Policy.Name, "capstan-") || p.Binding.Spec.PolicyName != p.Policy.Name || p.Binding.Name != p.Policy.Name {
			t.Errorf("policy %q, binding %q of %q", p.Policy.Name, p.Binding.Name, p.Binding.Spec.PolicyName)
		}
		for _, variable := range p.Policy.Spec.Variables {
			found[variable.Name+" "+variable.Expression]++
			if strings.Contains(variable.Expression, "capstan-manager") || strings.Contains(variable.Name, "jobControllers") && strings.Contains(variable.Expression, "kube-system") {
				t.Errorf("%s: the variable %s is still %s", p.Policy.Name, variable.Name, variable.Expression)
			}
		}
		for _, condition := range p.Policy.Spec.MatchConditions {
			found[condition.Name+" "+condition.Expression]++
		}
	}
	if held := found[`by-the-manager request.userInfo.username == 'it\'s me'`]; held != 4 {
		t.Errorf("%d policies hold the manager, want 4", held)
	}
	if found[`manager 'it\'s me'`] != 4 || found["jobControllers ['player']"] != 2 {
		t.Errorf("the variables are %v", found)
	}
}

func TestEachCallGivesObjectsOfItsOwn(t *testing.T) {
	first, err := policy.Policies(policy.Accounts{})
	if err != nil {
		t.Fatal(err)
	}
	first[0].Policy.Spec.Validations[0].Expression = "true"
	second, err := policy.Policies(policy.Accounts{})
	if err != nil {
		t.Fatal(err)
	}
	if second[0].Policy.Spec.Validations[0].Expression == "true" {
		t.Error("a caller's change is seen by the next")
	}
}
