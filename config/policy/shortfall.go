package policy

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Version counts the changes of the policies: it grows with every one. kustomization.yaml has the same number.
const Version = 22

// AnnotationVersion is on every policy, with its Version.
const AnnotationVersion = "capstan.dev/policy-version"

const wildcard = "*"

// editable are the variables that an operator may change: accounts of a cluster whose own are named otherwise.
var editable = []string{jobControllersVariable, "clusterControllers", "statusWriters"}

// Shortfall returns how the objects of a cluster enforce less than a policy and its binding do; empty when they enforce
// all. Objects that do not exist are nil. Of a policy that is newer than ours the expressions are not compared, but for
// the account that it takes for the manager.
func Shortfall(
	want Policy, policy *admissionregistrationv1.ValidatingAdmissionPolicy,
	binding *admissionregistrationv1.ValidatingAdmissionPolicyBinding,
) string {
	switch {
	case policy == nil:
		return fmt.Sprintf("ValidatingAdmissionPolicy %q does not exist", want.Policy.Name)
	case binding == nil:
		return fmt.Sprintf("ValidatingAdmissionPolicyBinding %q does not exist", want.Binding.Name)
	}
	if why := bindsLess(&want.Binding.Spec, &binding.Spec); why != "" {
		return fmt.Sprintf("ValidatingAdmissionPolicyBinding %q %s", want.Binding.Name, why)
	}
	if why := holdsLess(want.Policy, policy); why != "" {
		return fmt.Sprintf("ValidatingAdmissionPolicy %q %s", want.Policy.Name, why)
	}
	return ""
}

// bindsLess compares bindings.
func bindsLess(want, have *admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec) string {
	switch {
	case have.PolicyName != want.PolicyName:
		return fmt.Sprintf("binds the policy %q", have.PolicyName)
	case !slices.Contains(have.ValidationActions, admissionregistrationv1.Deny):
		return "does not have the validation action Deny"
	case have.MatchResources != nil && narrower(&admissionregistrationv1.MatchResources{}, have.MatchResources),
		have.MatchResources != nil && len(have.MatchResources.ResourceRules) > 0:
		return "is restricted to some objects by matchResources"
	case !apiequality.Semantic.DeepEqual(want.ParamRef, have.ParamRef):
		return "has a different paramRef"
	}
	return ""
}

// holdsLess compares policies.
func holdsLess(want, have *admissionregistrationv1.ValidatingAdmissionPolicy) string {
	version, _ := strconv.Atoi(have.Annotations[AnnotationVersion])
	switch spec := &have.Spec; {
	case spec.FailurePolicy != nil && *spec.FailurePolicy != admissionregistrationv1.Fail:
		return "has a failurePolicy other than Fail"
	case version < Version:
		return fmt.Sprintf("has version %d, but the manager requires %d: apply the manifests of the manager's version",
			version, Version)
	case spec.MatchConstraints == nil || narrower(want.Spec.MatchConstraints, spec.MatchConstraints):
		return "matches fewer requests than the installed manifests require"
	case !knowsManager(&want.Spec, spec):
		return "has the account of another manager: if the cluster has several installations, name the accounts of " +
			"all managers in the policies of one of them"
	case version > Version:
		return ""
	}
	if !apiequality.Semantic.DeepEqual(want.Spec.ParamKind, have.Spec.ParamKind) {
		return "has a different paramKind"
	}
	for _, condition := range have.Spec.MatchConditions {
		if !slices.ContainsFunc(want.Spec.MatchConditions, func(c admissionregistrationv1.MatchCondition) bool {
			return same(c.Expression, condition.Expression) || (c.Name == managerCondition && condition.Name == managerCondition)
		}) {
			return fmt.Sprintf("has the additional matchCondition %q", condition.Name)
		}
	}
	for _, variable := range want.Spec.Variables {
		if variable.Name == managerVariable || slices.Contains(editable, variable.Name) {
			continue
		}
		if !slices.ContainsFunc(have.Spec.Variables, func(v admissionregistrationv1.Variable) bool {
			return v.Name == variable.Name && same(v.Expression, variable.Expression)
		}) {
			return fmt.Sprintf("has a different variable %q", variable.Name)
		}
	}
	for i, validation := range want.Spec.Validations {
		if !slices.ContainsFunc(have.Spec.Validations, func(v admissionregistrationv1.Validation) bool {
			return same(v.Expression, validation.Expression)
		}) {
			return fmt.Sprintf("lacks validation %d", i+1)
		}
	}
	return ""
}

// knowsManager reports whether the account that we take for the manager is one of those that the policy does.
func knowsManager(want, have *admissionregistrationv1.ValidatingAdmissionPolicySpec) bool {
	for _, variable := range want.Variables {
		if variable.Name == managerVariable &&
			!slices.ContainsFunc(have.Variables, func(v admissionregistrationv1.Variable) bool {
				return v.Name == managerVariable && same(v.Expression, variable.Expression)
			}) {
			return false
		}
	}
	for _, condition := range want.MatchConditions {
		if condition.Name != managerCondition {
			continue
		}
		for _, c := range have.MatchConditions {
			if c.Name == managerCondition && !same(c.Expression, condition.Expression) {
				return false
			}
		}
	}
	return true
}

// narrower reports whether constraints match less than others.
func narrower(want, have *admissionregistrationv1.MatchResources) bool {
	if len(have.ExcludeResourceRules) > 0 || narrows(want.NamespaceSelector, have.NamespaceSelector) ||
		narrows(want.ObjectSelector, have.ObjectSelector) {
		return true
	}
	for _, rule := range want.ResourceRules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, operation := range rule.Operations {
					if !matched(have.ResourceRules, group, resource, operation) {
						return true
					}
				}
			}
		}
	}
	return false
}

// matched reports whether rules match a resource and an operation, in all versions and namespaces.
func matched(
	rules []admissionregistrationv1.NamedRuleWithOperations, group, resource string,
	operation admissionregistrationv1.OperationType,
) bool {
	return slices.ContainsFunc(rules, func(rule admissionregistrationv1.NamedRuleWithOperations) bool {
		return len(rule.ResourceNames) == 0 && (rule.Scope == nil || *rule.Scope == admissionregistrationv1.AllScopes) &&
			slices.Contains(rule.APIVersions, wildcard) &&
			(slices.Contains(rule.APIGroups, group) || slices.Contains(rule.APIGroups, wildcard)) &&
			(slices.Contains(rule.Resources, resource) || slices.Contains(rule.Resources, "*/*")) &&
			(slices.Contains(rule.Operations, operation) ||
				slices.Contains(rule.Operations, admissionregistrationv1.OperationAll))
	})
}

// narrows reports whether a selector selects less than another, which selects everything where it is nil.
func narrows(want, have *metav1.LabelSelector) bool {
	empty := have == nil || len(have.MatchLabels)+len(have.MatchExpressions) == 0
	return !empty && !apiequality.Semantic.DeepEqual(want, have)
}

// same compares expressions, whatever their white space, and with texts that were put together of parts.
func same(a, b string) bool {
	return normal(a) == normal(b)
}

func normal(expression string) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(expression), " "), "' + '", "")
}
