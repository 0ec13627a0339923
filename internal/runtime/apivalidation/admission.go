// Package apivalidation treats objects of this API as an API server does before it stores them, with the API server's
// own packages: it sets the defaults of the CustomResourceDefinition, and validates the object against its schema and
// its CEL rules. It does not evaluate policies.
package apivalidation

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/kube-openapi/pkg/validation/strfmt"
	"k8s.io/kube-openapi/pkg/validation/validate"
	"sigs.k8s.io/yaml"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/config/crd"
)

// Object is an object of this API.
type Object interface {
	runtime.Object
	metav1.Object
}

// kind is the definition of one kind.
type kind struct {
	structural *schema.Structural
	validator  *validate.SchemaValidator
	rules      *cel.Validator
}

// kinds reads the definition of a kind when it is first needed: to read them all takes longer than a Turn.
var kinds = map[string]func() (*kind, error){
	"Agent":      reading("agents"),
	"Budget":     reading("budgets"),
	"Capability": reading("capabilities"),
	"Harness":    reading("harnesses"),
	"MCPServer":  reading("mcpservers"),
	"Model":      reading("models"),
	"Schedule":   reading("schedules"),
	"Session":    reading("sessions"),
	"Tool":       reading("tools"),
	"ToolResult": reading("toolresults"),
	"Turn":       reading("turns"),
}

func reading(plural string) func() (*kind, error) {
	return sync.OnceValues(func() (*kind, error) {
		k, err := read(plural)
		if err != nil {
			return nil, fmt.Errorf("reading the definition of %s: %w", plural, err)
		}
		return k, nil
	})
}

func read(plural string) (*kind, error) {
	manifests, err := crd.Manifests()
	if err != nil {
		return nil, err
	}
	var definition apiextensionsv1.CustomResourceDefinition
	if err := yaml.Unmarshal(manifests["bases/"+v1alpha1.GroupVersion.Group+"_"+plural+".yaml"], &definition); err != nil {
		return nil, err
	}
	if len(definition.Spec.Versions) != 1 || definition.Spec.Versions[0].Schema == nil {
		return nil, errors.New("it does not have exactly one version with a schema")
	}
	var props apiextensions.JSONSchemaProps
	if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(
		definition.Spec.Versions[0].Schema.OpenAPIV3Schema, &props, nil); err != nil {
		return nil, err
	}
	structural, err := schema.NewStructural(&props)
	if err != nil {
		return nil, err
	}
	return &kind{
		structural: structural,
		validator:  validate.NewSchemaValidator(structural.ToKubeOpenAPI(), nil, "", strfmt.Default),
		rules:      cel.NewValidator(structural, true, celconfig.PerCallLimit),
	}, nil
}

// Admit sets the defaults of an object and validates it. Users cannot set its status, which becomes the default of the
// definition. The object is changed in place, and is unchanged after an error.
func Admit(o Object) error {
	name, err := kindOf(o)
	if err != nil {
		return err
	}
	k, err := kinds[name]()
	if err != nil {
		return err
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return fmt.Errorf("%s %q: encoding it: %w", name, o.GetName(), err)
	}
	if err := k.check(content, o.GetName()); err != nil {
		return fmt.Errorf("%s %q %w", name, o.GetName(), err)
	}
	admitted, ok := o.DeepCopyObject().(Object)
	if !ok {
		return fmt.Errorf("%T is no object of this API", o)
	}
	reset(admitted)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, admitted); err != nil {
		return fmt.Errorf("%s %q: decoding it: %w", name, o.GetName(), err)
	}
	replace(o, admitted)
	return nil
}

// Decode reads an object of a kind from YAML or JSON, and validates it. An unknown field is an error, as it is for
// kubectl. An empty string counts as a value here, which the Go types would lose.
func Decode(name string, document []byte) (Object, error) {
	o := New(name)
	if o == nil {
		return nil, fmt.Errorf("unknown kind %q, or one that only the manager writes", name)
	}
	if err := yaml.UnmarshalStrict(document, o); err != nil {
		return nil, fmt.Errorf("reading a %s: %w", name, err)
	}
	k, err := kinds[name]()
	if err != nil {
		return nil, err
	}
	content, err := contentOf(document)
	if err != nil {
		return nil, fmt.Errorf("reading a %s: %w", name, err)
	}
	if err := k.check(content, o.GetName()); err != nil {
		return nil, fmt.Errorf("%s %q %w", name, o.GetName(), err)
	}
	return o, nil
}

// contentOf returns a document in which whole numbers are integers, as in an API server.
func contentOf(document []byte) (map[string]any, error) {
	raw, err := yaml.YAMLToJSON(document)
	if err != nil {
		return nil, err
	}
	var content map[string]any
	if err := json.Unmarshal(raw, &content); err != nil {
		return nil, err
	}
	return content, nil
}

// check sets the defaults of an object and validates it, without its status.
func (k *kind) check(content map[string]any, name string) error {
	if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
		return fmt.Errorf("is not valid: metadata.name: %s", strings.Join(problems, "; "))
	}
	delete(content, "status")
	defaulting.PruneNonNullableNullsWithoutDefaults(content, k.structural)
	defaulting.Default(content, k.structural)
	if result := k.validator.Validate(content); !result.IsValid() {
		return fmt.Errorf("is not valid: %w", errors.Join(result.Errors...))
	}
	if problems, _ := k.rules.Validate(
		context.Background(),
		nil,
		k.structural,
		content,
		nil,
		celconfig.RuntimeCELCostBudget,
	); len(
		problems,
	) > 0 {
		return fmt.Errorf("is not valid: %w", problems.ToAggregate())
	}
	return nil
}
