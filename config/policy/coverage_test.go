package policy_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/capstan-dev/capstan/config/crd"
	"github.com/capstan-dev/capstan/config/policy"
)

// lending are the fields by which the manager acts with something that the author must be allowed to use, or in the
// name of a user, and the words that a policy asks its rights or its user with.
var lending = map[string][]string{
	"secretKeyRef":       {"resource('secrets')", "check('get')"},
	"configMapKeyRef":    {"resource('configmaps')", "check('get')"},
	"imagePullSecrets":   {"resource('secrets')", "check('get')"},
	"serviceAccountName": {"resource('serviceaccounts')", "check('create')"},
	"serviceRef":         {"resource('services')", "check('create')"},
	"connection":         {"resource('connections')", "check('use')"},
	"payment":            {"resource('secrets')", "check('pay')"},
	"walletRef":          {"resource('secrets')", "check('pay')"},
	"hooks":              {"resource('capabilities')", "check('assign-high-risk')"},
	"disabledHooks":      {"resource('capabilities')", "check('assign-high-risk')"},
	"maxRisk":            {"resource('capabilities')", "check('assign-high-risk')"},
	"riskLevel":          {"resource('capabilities')", "check('assign-high-risk')"},
	"submittedBy":        {"request.userInfo.username"},
	"origin":             {"request.userInfo.username"},
}

// suspicious are parts of the names of fields that lend something, which have to be in lending.
var suspicious = []string{
	"secretref", "secretkeyref", "pullsecret", "serviceaccount", "configmap", "credential", "password", "walletref",
	"payment", "serviceref", "connection", "token", "hostpath", "volume", "envfrom", "impersonat", "asuser", "submittedby",
}

// harmless are the fields with such a name that lend nothing.
var harmless = map[string]string{
	"Tool spec.job.connections":       "what the tool may find missing; it is given no token",
	"ToolResult spec.turnSubmittedBy": "it is compared with the Turn, and grants nothing by itself",
	"JournalEntry":                    "only the manager writes it",
	"Record":                          "only the manager writes it",
}

func TestEveryFieldThatLendsSomethingHasAPolicy(t *testing.T) {
	definitions, err := crd.Definitions()
	if err != nil {
		t.Fatal(err)
	}
	policies, err := policy.Policies(policy.Accounts{})
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, problem := range uncovered(definitions, policies, &found) {
		t.Error(problem)
	}
	if found < 25 {
		t.Errorf("only %d fields were found", found)
	}
}

// A kind with a field that no policy covers is found, and so is a field that this test does not know.
func TestAFieldWithoutAPolicyIsFound(t *testing.T) {
	policies, err := policy.Policies(policy.Accounts{})
	if err != nil {
		t.Fatal(err)
	}
	for name, field := range map[string]string{
		"on a new kind": "secretKeyRef", "of a new sort": "credentialName", "of a token": "accessTokenFrom",
		"on another kind": "connection",
	} {
		for plural, want := range map[string]int{"widgets": 1, "budgets": 1} {
			leaf := apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{
				field: {Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"name": {Type: "string"}}},
			}}
			spec := apiextensionsv1.JSONSchemaProps{Properties: map[string]apiextensionsv1.JSONSchemaProps{
				"parts": {Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &leaf}},
			}}
			d := &apiextensionsv1.CustomResourceDefinition{Spec: apiextensionsv1.CustomResourceDefinitionSpec{
				Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: "Widget", Plural: plural},
				Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
					Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
						Properties: map[string]apiextensionsv1.JSONSchemaProps{"spec": spec},
					}},
				}},
			}}
			found := 0
			if got := uncovered([]*apiextensionsv1.CustomResourceDefinition{d}, policies, &found); len(got) != want {
				t.Errorf("%s, of %s: %q", name, plural, got)
			}
		}
	}
}

// uncovered returns the fields of specs that lend something and that no policy covers.
func uncovered(
	definitions []*apiextensionsv1.CustomResourceDefinition, policies []policy.Policy, found *int,
) []string {
	var problems []string
	for _, d := range definitions {
		kind := d.Spec.Names.Kind
		if _, own := harmless[kind]; own {
			continue
		}
		for _, version := range d.Spec.Versions {
			visit("spec", version.Schema.OpenAPIV3Schema.Properties["spec"], func(path, name string) {
				words, lends := lending[name]
				_, known := harmless[kind+" "+path]
				switch {
				case known:
				case lends:
					*found++
					if !slices.ContainsFunc(policies, func(p policy.Policy) bool {
						return covers(p.Policy, d.Spec.Names.Plural, name, words)
					}) {
						problems = append(problems, fmt.Sprintf("%s of %s has no policy that asks %q", path, kind, words))
					}
				case slices.ContainsFunc(suspicious, func(part string) bool {
					// Tokens in the plural are those that models count.
					return strings.Contains(strings.ReplaceAll(strings.ToLower(name), "tokens", ""), part)
				}):
					problems = append(problems, fmt.Sprintf("%s of %s is not known to lend something, or not to", path, kind))
				}
			})
		}
	}
	return problems
}

// visit calls back for every field, with its path and its name.
func visit(path string, schema apiextensionsv1.JSONSchemaProps, each func(path, name string)) {
	if schema.Items != nil && schema.Items.Schema != nil {
		visit(path+"[]", *schema.Items.Schema, each)
	}
	if schema.AdditionalProperties != nil && schema.AdditionalProperties.Schema != nil {
		visit(path+"{}", *schema.AdditionalProperties.Schema, each)
	}
	for name, property := range schema.Properties {
		each(path+"."+name, name)
		visit(path+"."+name, property, each)
	}
}

// covers reports whether a policy matches the creation and the change of a resource, and asks these words about a
// field.
func covers(
	p *admissionregistrationv1.ValidatingAdmissionPolicy, resource, field string, words []string,
) bool {
	matches := slices.ContainsFunc(p.Spec.MatchConstraints.ResourceRules,
		func(r admissionregistrationv1.NamedRuleWithOperations) bool {
			return slices.Contains(r.Resources, resource) && slices.Contains(r.APIGroups, "capstan.dev") &&
				slices.Contains(r.Operations, admissionregistrationv1.Create) &&
				(slices.Contains(r.Operations, admissionregistrationv1.Update) || field == "submittedBy")
		})
	var text strings.Builder
	for _, v := range p.Spec.Variables {
		text.WriteString(v.Expression + "\n")
	}
	for _, v := range p.Spec.Validations {
		text.WriteString(v.Expression + "\n")
	}
	for _, c := range p.Spec.MatchConditions {
		text.WriteString(c.Expression + "\n")
	}
	return matches && strings.Contains(text.String(), field) && !slices.ContainsFunc(words, func(word string) bool {
		return !strings.Contains(text.String(), word)
	})
}
