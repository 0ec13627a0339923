// Package admission does to objects of this API what an API server does before it stores them: it fills in the defaults of the
// CustomResourceDefinition and holds the object against its schema. Of the rules in CEL, for which it has no interpreter, it knows by heart those
// that the runtime relies on; see rules.go. Policies are none of its business.
package admission

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
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

// kind is what is known of one kind.
type kind struct {
	structural *schema.Structural
	validator  *validate.SchemaValidator
}

// kinds reads the definition of a kind when it is first needed: to read them all takes longer than a Turn.
var kinds = map[string]func() (*kind, error){
	"Agent":      reading("agents"),
	"Harness":    reading("harnesses"),
	"Model":      reading("models"),
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
	return &kind{structural: structural, validator: validate.NewSchemaValidator(structural.ToKubeOpenAPI(), nil, "", strfmt.Default)}, nil
}

// Admit fills in the defaults of an object and checks it. Its status is not the user's to set, and becomes what the definition says. The object is
// changed in place, and is as it was after an error.
func Admit(o Object) error {
	name, err := kindOf(o)
	if err != nil {
		return err
	}
	k, err := kinds[name]()
	if err != nil {
		return err
	}
	if problems := validation.IsDNS1123Subdomain(o.GetName()); len(problems) > 0 {
		return fmt.Errorf("%s %q: metadata.name: %s", name, o.GetName(), strings.Join(problems, "; "))
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return fmt.Errorf("%s %q: encoding it: %w", name, o.GetName(), err)
	}
	delete(content, "status")
	fillIn(content, k.structural)
	if result := k.validator.Validate(content); !result.IsValid() {
		return fmt.Errorf("%s %q is not valid: %w", name, o.GetName(), errors.Join(result.Errors...))
	}
	admitted, ok := o.DeepCopyObject().(Object)
	if !ok {
		return fmt.Errorf("%T is no object of this API", o)
	}
	reset(admitted)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, admitted); err != nil {
		return fmt.Errorf("%s %q: decoding it: %w", name, o.GetName(), err)
	}
	if err := checkRules(admitted); err != nil {
		return fmt.Errorf("%s %q is not valid: %w", name, o.GetName(), err)
	}
	replace(o, admitted)
	return nil
}

// fillIn gives what is missing its default.
func fillIn(value any, s *schema.Structural) {
	if s == nil {
		return
	}
	switch v := value.(type) {
	case map[string]any:
		for name := range s.Properties {
			property := s.Properties[name]
			if present, ok := v[name]; property.Default.Object != nil && (!ok || (present == nil && !property.Nullable)) {
				v[name] = runtime.DeepCopyJSONValue(property.Default.Object)
			}
		}
		for name, member := range v {
			if property, ok := s.Properties[name]; ok {
				fillIn(member, &property)
			} else if s.AdditionalProperties != nil {
				fillIn(member, s.AdditionalProperties.Structural)
			}
		}
	case []any:
		for _, item := range v {
			fillIn(item, s.Items)
		}
	}
}
