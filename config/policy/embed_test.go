package policy_test

import (
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/config/policy"
)

func TestUsernamesArePutIntoThePolicies(t *testing.T) {
	policies, err := policy.Policies(policy.Accounts{Manager: "it's me", JobController: "player"})
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]int{}
	for _, p := range policies {
		if !strings.HasPrefix(p.Policy.Name, "capstan-") || p.Binding.Spec.PolicyName != p.Policy.Name ||
			p.Binding.Name != p.Policy.Name {
			t.Errorf("policy %q, binding %q of %q", p.Policy.Name, p.Binding.Name, p.Binding.Spec.PolicyName)
		}
		for _, variable := range p.Policy.Spec.Variables {
			found[variable.Name+" "+variable.Expression]++
			if strings.Contains(variable.Expression, "capstan-manager") ||
				strings.Contains(variable.Name, "jobControllers") && strings.Contains(variable.Expression, "kube-system") {
				t.Errorf("%s: the variable %s is still %s", p.Policy.Name, variable.Name, variable.Expression)
			}
		}
		for _, condition := range p.Policy.Spec.MatchConditions {
			found[condition.Name+" "+condition.Expression]++
		}
	}
	if held := found[`by-the-manager request.userInfo.username == 'it\'s me'`]; held != 7 {
		t.Errorf("%d policies hold the manager, want 7", held)
	}
	if found[`manager 'it\'s me'`] != 10 || found["jobControllers ['player']"] != 2 {
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

// TestPoliciesWithParametersSelectTheirObjects holds down what the policies cost others: one with parameters is
// evaluated once for each object that is a parameter, so that it must not match what a namespace has many writes of.
func TestPoliciesWithParametersSelectTheirObjects(t *testing.T) {
	policies, err := policy.Policies(policy.Accounts{})
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, p := range policies {
		if p.Policy.Spec.ParamKind == nil {
			continue
		}
		found++
		constraints := p.Policy.Spec.MatchConstraints
		for _, rule := range constraints.ResourceRules {
			if !slices.Equal(rule.APIGroups, []string{"capstan.dev"}) && constraints.ObjectSelector == nil {
				t.Errorf("policy %s has parameters and matches all %v", p.Policy.Name, rule.Resources)
			}
		}
		if p.Policy.Name != "capstan-job-pods" {
			continue
		}
		selector, err := metav1.LabelSelectorAsSelector(constraints.ObjectSelector)
		if err != nil {
			t.Fatal(err)
		}
		for what, pod := range map[string]struct {
			labels  labels.Set
			matches bool
		}{
			"a pod without labels": {nil, false},
			"the pod of a tool call": {labels.Set{
				v1alpha1.LabelTurnUID: "1", v1alpha1.LabelManagedBy: "capstan", batchv1.ControllerUidLabel: "2",
			}, false},
			"a pod with the UID of a Job": {labels.Set{batchv1.ControllerUidLabel: "2"}, true},
		} {
			if got := selector.Matches(pod.labels); got != pod.matches {
				t.Errorf("policy %s matches %s: %t, want %t", p.Policy.Name, what, got, pod.matches)
			}
		}
	}
	if found == 0 {
		t.Error("no policy has parameters")
	}
}

// TestBoundSecretsAreKeptFromEachJobOfATool covers those of background tasks, which belong to a Session and have no
// label of a Turn.
func TestBoundSecretsAreKeptFromEachJobOfATool(t *testing.T) {
	policies, err := policy.Policies(policy.Accounts{})
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(policies, func(p policy.Policy) bool { return p.Policy.Name == "capstan-bound-secrets-jobs" })
	if at < 0 {
		t.Fatal("no policy bound-secrets-jobs")
	}
	selector, err := metav1.LabelSelectorAsSelector(policies[at].Policy.Spec.MatchConstraints.ObjectSelector)
	if err != nil {
		t.Fatal(err)
	}
	for what, job := range map[string]struct {
		labels  labels.Set
		matches bool
	}{
		"the Job of a call": {labels.Set{
			v1alpha1.LabelTurnUID: "1", v1alpha1.LabelManagedBy: v1alpha1.ManagedByCapstan,
		}, true},
		"the Job of a background task": {labels.Set{
			v1alpha1.LabelTask: "0123456789abcdef", v1alpha1.LabelManagedBy: v1alpha1.ManagedByCapstan,
		}, true},
		"a Job of others": {labels.Set{v1alpha1.LabelManagedBy: "Helm"}, false},
	} {
		if got := selector.Matches(job.labels); got != job.matches {
			t.Errorf("the policy matches %s: %t, want %t", what, got, job.matches)
		}
	}
}
