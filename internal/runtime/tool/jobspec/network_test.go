package jobspec

import (
	"os"
	"strings"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// other is a foreign NetworkPolicy that selects pods by a selector and permits all their traffic.
func other(selector metav1.LabelSelector) networkingv1.NetworkPolicy {
	return networkingv1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "other"},
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: selector,
			Egress:      []networkingv1.NetworkPolicyEgressRule{{}},
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeEgress},
		},
	}
}

func expression(key string, operator metav1.LabelSelectorOperator, values ...string) metav1.LabelSelector {
	return metav1.LabelSelector{
		MatchExpressions: []metav1.LabelSelectorRequirement{{Key: key, Operator: operator, Values: values}},
	}
}

func TestWhetherAPodIsCutOff(t *testing.T) {
	params := testParams()
	params.Tool.Job.Network = v1alpha1.NetworkReachNone
	job := Build(params)
	ours := *NetworkPolicyNone("default")
	changed := func(change func(*networkingv1.NetworkPolicySpec)) networkingv1.NetworkPolicy {
		policy := ours.DeepCopy()
		change(&policy.Spec)
		return *policy
	}
	for name, test := range map[string]struct {
		policies []networkingv1.NetworkPolicy
		why      string
		missing  bool
	}{
		"nothing there": {nil, "", true},
		"ours":          {[]networkingv1.NetworkPolicy{ours}, "", false},
		"ours, for all pods": {
			[]networkingv1.NetworkPolicy{
				changed(func(s *networkingv1.NetworkPolicySpec) { s.PodSelector = metav1.LabelSelector{} }),
			},
			"", false,
		},
		"ours, of other pods": {
			[]networkingv1.NetworkPolicy{
				changed(func(s *networkingv1.NetworkPolicySpec) { s.PodSelector.MatchLabels["app"] = "x" }),
			},
			"was changed", false,
		},
		"ours, ingress only": {
			[]networkingv1.NetworkPolicy{changed(func(s *networkingv1.NetworkPolicySpec) { s.PolicyTypes = s.PolicyTypes[:1] })},
			"was changed", false,
		},
		"ours, egress only": {
			[]networkingv1.NetworkPolicy{changed(func(s *networkingv1.NetworkPolicySpec) { s.PolicyTypes = s.PolicyTypes[1:] })},
			"was changed", false,
		},
		"ours, opened": {[]networkingv1.NetworkPolicy{changed(func(s *networkingv1.NetworkPolicySpec) {
			s.Ingress = []networkingv1.NetworkPolicyIngressRule{{}}
		})}, "capstan-network-none", false},
		"another for all pods": {
			[]networkingv1.NetworkPolicy{ours, other(metav1.LabelSelector{})}, `"other"`, false,
		},
		"another before ours is there": {[]networkingv1.NetworkPolicy{other(metav1.LabelSelector{})}, `"other"`, true},
		"another for our pods": {
			[]networkingv1.NetworkPolicy{ours, other(expression(v1alpha1.LabelManagedBy, metav1.LabelSelectorOpIn, "capstan"))},
			`"other"`, false,
		},
		"another for pods of Jobs": {
			[]networkingv1.NetworkPolicy{ours, other(expression("job-name", metav1.LabelSelectorOpExists))}, `"other"`, false,
		},
		"another for pods of some Job": {
			[]networkingv1.NetworkPolicy{
				ours, other(expression("batch.kubernetes.io/controller-uid", metav1.LabelSelectorOpIn, "1")),
			},
			`"other"`, false,
		},
		"another in an unknown form": {
			[]networkingv1.NetworkPolicy{ours, other(expression("x", "Near", "1"))}, `"other"`, false,
		},
		"another for pods of another app": {
			[]networkingv1.NetworkPolicy{ours, other(expression("app", metav1.LabelSelectorOpIn, "x"))}, "", false,
		},
		"another that leaves out our label": {
			[]networkingv1.NetworkPolicy{ours, other(expression(v1alpha1.LabelNetwork, metav1.LabelSelectorOpDoesNotExist))},
			"",
			false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			why, missing := Opening(test.policies, job)
			if (why == "") != (test.why == "") || !strings.Contains(why, test.why) {
				t.Errorf("why is %q, want one with %q", why, test.why)
			}
			if why == "" && missing != test.missing {
				t.Errorf("missing is %t", missing)
			}
		})
	}
}

func TestAnotherPolicyThatAllowsNothingOpensNothing(t *testing.T) {
	denyAll := other(metav1.LabelSelector{})
	denyAll.Spec.Egress = nil
	params := testParams()
	params.Tool.Job.Network = v1alpha1.NetworkReachNone
	if why, missing := Opening([]networkingv1.NetworkPolicy{denyAll}, Build(params)); why != "" || !missing {
		t.Errorf("why is %q, missing %t", why, missing)
	}
}

func TestOnlyPodsWithoutNetworkHaveTheLabel(t *testing.T) {
	for network, want := range map[v1alpha1.NetworkReach]string{
		"": "", v1alpha1.NetworkReachDefault: "", v1alpha1.NetworkReachNone: "None",
	} {
		params := testParams()
		params.Tool.Job.Network = network
		job := Build(params)
		if got := job.Spec.Template.Labels[v1alpha1.LabelNetwork]; got != want {
			t.Errorf("with network %q the pod has the label %q, want %q", network, got, want)
		}
		if _, ok := job.Labels[v1alpha1.LabelNetwork]; ok {
			t.Errorf("with network %q the Job has the label, which is for pods", network)
		}
	}
}

// example reads a NetworkPolicy of config/tool-network, and returns what it selects.
func example(t *testing.T, file string) (networkingv1.NetworkPolicy, labels.Selector) {
	t.Helper()
	content, err := os.ReadFile("../../../../config/tool-network/" + file)
	if err != nil {
		t.Fatal(err)
	}
	var policy networkingv1.NetworkPolicy
	if err := yaml.UnmarshalStrict(content, &policy); err != nil {
		t.Fatal(err)
	}
	selector, err := metav1.LabelSelectorAsSelector(&policy.Spec.PodSelector)
	if err != nil {
		t.Fatal(err)
	}
	return policy, selector
}

// Rules: SVC-04.
func TestTheExampleForTheAPIServerSelectsThePodsOfThePlatformAlone(t *testing.T) {
	policy, selector := example(t, "api_server.yaml")
	_, tools := example(t, "network_policy.yaml")
	for capability, want := range map[string]bool{"": false, "platform": true, "another": false} {
		params := testParams()
		params.Capability, params.Tool.Job.Command = capability, []string{"platform"}
		pod := labels.Set(Build(params).Spec.Template.Labels)
		if got := selector.Matches(pod); got != want || !tools.Matches(pod) {
			t.Errorf("the pod of %q is selected: %t, want %t, and as a tool: %t", capability, got, want, tools.Matches(pod))
		}
	}
	if len(policy.Spec.Ingress) > 0 || len(policy.Spec.Egress) != 1 || len(policy.Spec.Egress[0].Ports) != 2 {
		t.Errorf("the policy permits %+v", policy.Spec)
	}
}

// TestTheExampleNetworkPolicySelectsThePodsOfAllTools covers those of background tasks, which have no label of a Turn.
func TestTheExampleNetworkPolicySelectsThePodsOfAllTools(t *testing.T) {
	_, selector := example(t, "network_policy.yaml")
	for _, task := range []string{"", "0123456789abcdef"} {
		for _, reach := range []v1alpha1.NetworkReach{"", v1alpha1.NetworkReachNone} {
			params := testParams()
			params.Task.ID, params.Tool.Job.Network = task, reach
			got := selector.Matches(labels.Set(Build(params).Spec.Template.Labels))
			if want := reach != v1alpha1.NetworkReachNone; got != want {
				t.Errorf("the pod of task %q with network %q is selected: %t, want %t", task, reach, got, want)
			}
		}
	}
}
