package jobspec

import (
	"fmt"
	"maps"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/tool"
)

// NetworkPolicyNone returns the NetworkPolicy that denies all traffic of the pods of tools with `network: None`. It has
// no owner: it must outlast every pod that it selects.
func NetworkPolicyNone(namespace string) *networkingv1.NetworkPolicy {
	return &networkingv1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{
			Name:      v1alpha1.NetworkPolicyNone,
			Namespace: namespace,
			Labels:    map[string]string{v1alpha1.LabelManagedBy: v1alpha1.ManagedByCapstan},
		},
		Spec: networkingv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{
				MatchLabels: map[string]string{v1alpha1.LabelNetwork: string(v1alpha1.NetworkReachNone)},
			},
			PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress},
		},
	}
}

// Unenforceable is the outcome of a call for whose pod networkAccess cannot be enforced.
func Unenforceable() tool.Outcome {
	return tool.Outcome{
		State:  v1alpha1.ToolCallStateNotExecuted,
		Reason: v1alpha1.ToolCallReasonNetworkAccessUnenforceable,
		Error:  "The tool was not executed: the networkAccess in effect cannot be enforced for this tool.",
	}
}

// Opening returns why the NetworkPolicies of a namespace do not isolate the pod of a Job, empty if they do. missing
// reports whether the only problem is that the manager's policy does not exist. NetworkPolicies add up, so that any
// other one may permit more than the manager's policy.
func Opening(policies []networkingv1.NetworkPolicy, job *batchv1.Job) (why string, missing bool) {
	missing = true
	for i := range policies {
		policy := &policies[i]
		if policy.Name == v1alpha1.NetworkPolicyNone {
			missing = false
			if !selects(policy, job) || !slices.Contains(policy.Spec.PolicyTypes, networkingv1.PolicyTypeIngress) ||
				!slices.Contains(policy.Spec.PolicyTypes, networkingv1.PolicyTypeEgress) {
				return fmt.Sprintf("NetworkPolicy %q was changed and no longer isolates the tool; "+
					"delete it, and the manager creates it again", policy.Name), false
			}
		}
		if len(policy.Spec.Ingress)+len(policy.Spec.Egress) > 0 && selects(policy, job) {
			return fmt.Sprintf("NetworkPolicy %q permits network traffic of the tool's pod; "+
				"exclude from its podSelector the pods with the label %s", policy.Name, v1alpha1.LabelNetwork), false
		}
	}
	return "", missing
}

// selects reports whether a NetworkPolicy selects the pod of a Job. The Job controller labels the pod with the name and
// UID of the Job; the UID is not known before the Job exists, so that a selector on the UID is assumed to select it,
// and so is an invalid selector.
func selects(policy *networkingv1.NetworkPolicy, job *batchv1.Job) bool {
	selector, err := metav1.LabelSelectorAsSelector(&policy.Spec.PodSelector)
	if err != nil {
		return true
	}
	requirements, selectable := selector.Requirements()
	if !selectable {
		return false
	}
	pod := labels.Set{batchv1.JobNameLabel: job.Name, legacyJobNameLabel: job.Name}
	maps.Copy(pod, job.Spec.Template.Labels)
	for _, requirement := range requirements {
		if key := requirement.Key(); key == batchv1.ControllerUidLabel || key == legacyControllerUIDLabel {
			continue
		}
		if !requirement.Matches(pod) {
			return false
		}
	}
	return true
}

// The labels of the Job controller without a prefix, from early versions, which it still sets.
const (
	legacyJobNameLabel       = "job-name"
	legacyControllerUIDLabel = "controller-uid"
)
