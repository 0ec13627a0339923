// Package policy carries the ValidatingAdmissionPolicies of Capstan inside the binary, so that tests and tools can
// install them without knowing where the source tree is.
package policy

import (
	"bytes"
	"embed"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// prefix is the name prefix of installed objects, as in config/install.
const prefix = "capstan-"

// The variables of the policies that hold usernames.
const (
	managerVariable        = "manager"
	jobControllersVariable = "jobControllers"
)

// managerCondition is the match condition of the policies on the manager itself: it asks who makes the request.
const managerCondition = "by-the-manager"

//go:embed *.yaml
var files embed.FS

// Accounts are the usernames that the policies let through. Where one is empty, it is that of a usual install.
type Accounts struct {
	// Manager is the user that the manager is to the API server. Default: the ServiceAccount capstan-manager in
	// capstan-system.
	Manager string
	// JobController is the user that makes the pods of Jobs. Default: the cluster's own.
	JobController string
}

// Policy is a ValidatingAdmissionPolicy with its binding.
type Policy struct {
	Policy  *admissionregistrationv1.ValidatingAdmissionPolicy
	Binding *admissionregistrationv1.ValidatingAdmissionPolicyBinding
}

// Policies returns every policy with its binding, in the order of their file names. Each call returns new objects,
// which the caller may change. They need an API server of version 1.30 or later.
func Policies(accounts Accounts) ([]Policy, error) {
	names, err := fs.Glob(files, "*.yaml")
	if err != nil {
		return nil, fmt.Errorf("listing the embedded policies: %w", err)
	}
	var policies []Policy
	for _, name := range names {
		if name == "kustomization.yaml" {
			continue
		}
		policy, err := read(name)
		if err != nil {
			return nil, fmt.Errorf("reading the embedded file %s: %w", name, err)
		}
		for i := range policy.Policy.Spec.Variables {
			accounts.fill(&policy.Policy.Spec.Variables[i])
		}
		for i := range policy.Policy.Spec.MatchConditions {
			accounts.fillCondition(&policy.Policy.Spec.MatchConditions[i])
		}
		policies = append(policies, policy)
	}
	return policies, nil
}

// read returns the two objects of a file.
func read(name string) (Policy, error) {
	content, err := files.ReadFile(name)
	if err != nil {
		return Policy{}, err
	}
	p := Policy{
		Policy:  &admissionregistrationv1.ValidatingAdmissionPolicy{},
		Binding: &admissionregistrationv1.ValidatingAdmissionPolicyBinding{},
	}
	first, second, found := bytes.Cut(content, []byte("\n---\n"))
	if !found {
		return Policy{}, fmt.Errorf("it has one document; expected a policy and its binding")
	}
	if err := yaml.UnmarshalStrict(first, p.Policy); err != nil {
		return Policy{}, fmt.Errorf("parsing the policy: %w", err)
	}
	if err := yaml.UnmarshalStrict(second, p.Binding); err != nil {
		return Policy{}, fmt.Errorf("parsing the binding: %w", err)
	}
	for _, object := range []metav1.Object{p.Policy, p.Binding} {
		object.SetName(prefix + object.GetName())
		object.SetAnnotations(map[string]string{AnnotationVersion: strconv.Itoa(Version)})
	}
	p.Binding.Spec.PolicyName = prefix + p.Binding.Spec.PolicyName
	return p, nil
}

// fill puts a username into a variable that holds one.
func (a Accounts) fill(variable *admissionregistrationv1.Variable) {
	switch {
	case variable.Name == managerVariable && a.Manager != "":
		variable.Expression = literal(a.Manager)
	case variable.Name == jobControllersVariable && a.JobController != "":
		variable.Expression = "[" + literal(a.JobController) + "]"
	}
}

// fillCondition puts the manager's username into the match condition that asks for it.
func (a Accounts) fillCondition(condition *admissionregistrationv1.MatchCondition) {
	if condition.Name == managerCondition && a.Manager != "" {
		condition.Expression = "request.userInfo.username == " + literal(a.Manager)
	}
}

// literal is a string as CEL has it.
func literal(text string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(text) + "'"
}
