package policy_test

import (
	"os"
	"strconv"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/capstan-dev/capstan/config/policy"
)

const account = "system:serviceaccount:capstan-system:capstan-manager"

func TestAPolicyThatHoldsLessIsFound(t *testing.T) {
	type cluster struct {
		policy  *admissionregistrationv1.ValidatingAdmissionPolicy
		binding *admissionregistrationv1.ValidatingAdmissionPolicyBinding
	}
	for name, test := range map[string]struct {
		policy string
		change func(*cluster)
		want   string
	}{
		"as installed":    {"capstan-jobs", func(*cluster) {}, ""},
		"as installed, 2": {"capstan-manager-jobs", func(*cluster) {}, ""},
		"as installed, 3": {"capstan-bound-secrets-jobs", func(*cluster) {}, ""},
		"no policy": {
			"capstan-jobs", func(c *cluster) { c.policy = nil }, `ValidatingAdmissionPolicy "capstan-jobs" does not exist`,
		},
		"no binding": {
			"capstan-jobs", func(c *cluster) { c.binding = nil }, `Binding "capstan-jobs" does not exist`,
		},
		"it warns": {
			"capstan-jobs", func(c *cluster) { c.binding.Spec.ValidationActions[0] = admissionregistrationv1.Warn },
			"the validation action Deny",
		},
		"it binds another": {
			"capstan-jobs", func(c *cluster) { c.binding.Spec.PolicyName = "x" }, `binds the policy "x"`,
		},
		"it fails open": {
			"capstan-jobs", func(c *cluster) { *c.policy.Spec.FailurePolicy = admissionregistrationv1.Ignore }, "failurePolicy",
		},
		"an operation is left": {"capstan-jobs", func(c *cluster) { operations(c.policy, "CREATE") }, "matches fewer"},
		"all operations":       {"capstan-jobs", func(c *cluster) { operations(c.policy, "*") }, ""},
		"a resource is left": {
			"capstan-pods", func(c *cluster) { rule(c.policy).Resources = []string{"pods"} }, "matches fewer",
		},
		"some namespaces": {"capstan-jobs", func(c *cluster) {
			c.policy.Spec.MatchConstraints.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
		}, "matches fewer"},
		"some namespaces are bound": {"capstan-jobs", func(c *cluster) {
			c.binding.Spec.MatchResources = &admissionregistrationv1.MatchResources{
				NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}},
			}
		}, "restricted to some objects"},
		"an exception": {"capstan-jobs", func(c *cluster) {
			c.policy.Spec.MatchConstraints.ExcludeResourceRules = c.policy.Spec.MatchConstraints.ResourceRules
		}, "matches fewer"},
		"a further condition": {"capstan-jobs", func(c *cluster) {
			c.policy.Spec.MatchConditions = append(
				c.policy.Spec.MatchConditions, admissionregistrationv1.MatchCondition{Name: "x", Expression: "false"},
			)
		}, `has the additional matchCondition "x"`},
		"a variable that frees": {
			"capstan-jobs", func(c *cluster) { variable(c.policy, "free").Expression = "true" },
			`has a different variable "free"`,
		},
		"own controllers": {
			"capstan-jobs", func(c *cluster) { variable(c.policy, "clusterControllers").Expression = "['a']" }, "",
		},
		"fewer validations": {
			"capstan-jobs", func(c *cluster) { c.policy.Spec.Validations = c.policy.Spec.Validations[1:] }, "lacks validation 1",
		},
		"other parameters": {
			"capstan-bound-secrets-jobs", func(c *cluster) { c.binding.Spec.ParamRef.Selector = nil },
			"has a different paramRef",
		},
		"another manager": {
			"capstan-statuses", func(c *cluster) { variable(c.policy, "manager").Expression = "'other'" },
			"the account of another manager",
		},
		"another is held": {"capstan-manager-jobs", func(c *cluster) {
			c.policy.Spec.MatchConditions[0].Expression = "request.userInfo.username == 'other'"
		}, "the account of another manager"},
		"an old one": {"capstan-jobs", func(c *cluster) { c.policy.Annotations = nil }, "has version 0"},
		"a newer one": {"capstan-jobs", func(c *cluster) {
			c.policy.Annotations[policy.AnnotationVersion] = strconv.Itoa(policy.Version + 1)
			c.policy.Spec.Validations = c.policy.Spec.Validations[1:]
		}, ""},
		"a newer one that matches less": {"capstan-jobs", func(c *cluster) {
			c.policy.Annotations[policy.AnnotationVersion] = strconv.Itoa(policy.Version + 1)
			operations(c.policy, "CREATE")
		}, "matches fewer"},
	} {
		t.Run(name, func(t *testing.T) {
			want, have := find(t, policy.Accounts{Manager: account}, test.policy), find(t, policy.Accounts{}, test.policy)
			c := &cluster{have.Policy, have.Binding}
			test.change(c)
			got := policy.Shortfall(want, c.policy, c.binding)
			if (test.want == "") != (got == "") || !strings.Contains(got, test.want) {
				t.Errorf("it is %q, want %q", got, test.want)
			}
		})
	}
}

func TestTheVersionIsThatOfTheInstall(t *testing.T) {
	content, err := os.ReadFile("kustomization.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var kustomization struct {
		CommonAnnotations map[string]string `json:"commonAnnotations"`
	}
	if err := yaml.Unmarshal(content, &kustomization); err != nil {
		t.Fatal(err)
	}
	if got := kustomization.CommonAnnotations[policy.AnnotationVersion]; got != strconv.Itoa(policy.Version) {
		t.Errorf("kustomization.yaml has %q, and the manager %d", got, policy.Version)
	}
}

func find(t *testing.T, accounts policy.Accounts, name string) policy.Policy {
	t.Helper()
	policies, err := policy.Policies(accounts)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range policies {
		if p.Policy.Name == name {
			return p
		}
	}
	t.Fatalf("there is no policy %s", name)
	return policy.Policy{}
}

func rule(p *admissionregistrationv1.ValidatingAdmissionPolicy) *admissionregistrationv1.NamedRuleWithOperations {
	return &p.Spec.MatchConstraints.ResourceRules[0]
}

func operations(p *admissionregistrationv1.ValidatingAdmissionPolicy, list ...admissionregistrationv1.OperationType) {
	rule(p).Operations = list
}

func variable(p *admissionregistrationv1.ValidatingAdmissionPolicy, name string) *admissionregistrationv1.Variable {
	for i := range p.Spec.Variables {
		if p.Spec.Variables[i].Name == name {
			return &p.Spec.Variables[i]
		}
	}
	return &admissionregistrationv1.Variable{}
}
