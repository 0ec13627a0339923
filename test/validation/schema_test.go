package validation_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/capstan-dev/capstan/config/crd"
)

type jsonSchema = apiextensionsv1.JSONSchemaProps

// userKinds are the kinds that people and pipelines write.
var userKinds = []string{
	"Agent", "Budget", "Capability", "Harness", "MCPServer", "Model", "Schedule", "Session", "Tool", "ToolResult",
	"Turn",
}

// The keywords under which a constraint is listed. The values of the first group are simple enough for the suite to
// find an accepted and a rejected object by itself.
const (
	keywordType          = "type"
	keywordMaxLength     = "maxLength"
	keywordMinLength     = "minLength"
	keywordMaximum       = "maximum"
	keywordMinimum       = "minimum"
	keywordMaxItems      = "maxItems"
	keywordMinItems      = "minItems"
	keywordMaxProperties = "maxProperties"
	keywordUniqueKeys    = "uniqueKeys"

	keywordFormat   = "format"
	keywordEnum     = "enum"
	keywordPattern  = "pattern"
	keywordRequired = "required"
	keywordRule     = "rule"
)

var mechanicalKeywords = []string{
	keywordType, keywordMaxLength, keywordMinLength, keywordMaximum, keywordMinimum,
	keywordMaxItems, keywordMinItems, keywordMaxProperties, keywordUniqueKeys,
}

// formatTime is the format of a point in time.
const formatTime = "date-time"

// constraint is one thing that a schema demands of an object.
type constraint struct {
	kind string
	// path of the schema, for example spec.tools[].name. [] stands for the items of a list, [*] for the values of a map.
	path    string
	keyword string
	// detail distinguishes constraints of one path and keyword: the name of a required field, the message of a rule.
	detail string
	schema jsonSchema
}

// id is how a case of the table names its constraint.
func (c constraint) id() string {
	return strings.TrimSpace(strings.Join([]string{c.path, c.keyword, c.detail}, " "))
}

func (c constraint) mechanical() bool {
	return slices.Contains(mechanicalKeywords, c.keyword)
}

// definitionsByKind panics on an error, because the specs are generated from what it returns before any of them runs.
func definitionsByKind() map[string]*apiextensionsv1.CustomResourceDefinition {
	definitions, err := crd.Definitions()
	if err != nil {
		panic(err)
	}
	byKind := make(map[string]*apiextensionsv1.CustomResourceDefinition, len(definitions))
	for _, definition := range definitions {
		byKind[definition.Spec.Names.Kind] = definition
	}
	return byKind
}

func rootSchema(definition *apiextensionsv1.CustomResourceDefinition) jsonSchema {
	return *definition.Spec.Versions[0].Schema.OpenAPIV3Schema
}

// walk visits a schema and everything below it, in a stable order.
func walk(path string, schema jsonSchema, visit func(path string, schema jsonSchema)) {
	visit(path, schema)
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		walk(strings.TrimPrefix(path+"."+name, "."), schema.Properties[name], visit)
	}
	if schema.Items != nil {
		walk(path+"[]", *schema.Items.Schema, visit)
	}
	if schema.AdditionalProperties != nil && schema.AdditionalProperties.Schema != nil {
		walk(path+"[*]", *schema.AdditionalProperties.Schema, visit)
	}
}

// userSchema is the part of a kind's schema that a user fills in: all but the type, the metadata and the status.
func userSchema(definition *apiextensionsv1.CustomResourceDefinition) jsonSchema {
	root := rootSchema(definition)
	properties := maps.Clone(root.Properties)
	for _, name := range []string{"apiVersion", "kind", "metadata", "status"} {
		delete(properties, name)
	}
	root.Properties = properties
	return root
}

// constraintsOf lists everything that the schema of a kind demands of what a user writes. It panics on a keyword that
// it does not know, so that none goes untested.
func constraintsOf(kind string) []constraint {
	var found []constraint
	walk("", userSchema(definitionsByKind()[kind]), func(path string, schema jsonSchema) {
		if unknown := unknownKeywords(schema); unknown != "" {
			panic(fmt.Sprintf("%s %s has %s, which this suite does not know how to test: teach it", kind, path, unknown))
		}
		add := func(present bool, keyword, detail string) {
			if present {
				found = append(found, constraint{kind: kind, path: path, keyword: keyword, detail: detail, schema: schema})
			}
		}
		add(path != "" && (schema.Type != "" || schema.XIntOrString), keywordType, "")
		add(schema.Format == formatTime, keywordFormat, "")
		add(schema.MaxLength != nil, keywordMaxLength, "")
		add(schema.MinLength != nil, keywordMinLength, "")
		add(schema.Maximum != nil, keywordMaximum, "")
		add(schema.Minimum != nil, keywordMinimum, "")
		add(schema.MaxItems != nil, keywordMaxItems, "")
		add(schema.MinItems != nil, keywordMinItems, "")
		add(schema.MaxProperties != nil, keywordMaxProperties, "")
		add(schema.XListType != nil && *schema.XListType != "atomic", keywordUniqueKeys, "")
		add(len(schema.Enum) > 0, keywordEnum, "")
		add(schema.Pattern != "", keywordPattern, "")
		for _, name := range schema.Required {
			add(true, keywordRequired, name)
		}
		for _, rule := range schema.XValidations {
			add(true, keywordRule, rule.Message)
		}
	})
	return found
}

// unknownKeywords names the constraining keywords of a schema that constraintsOf has no entry for.
func unknownKeywords(schema jsonSchema) string {
	var names []string
	note := func(present bool, name string) {
		if present {
			names = append(names, name)
		}
	}
	note(schema.MinProperties != nil, "minProperties")
	note(schema.ExclusiveMaximum, "exclusiveMaximum")
	note(schema.ExclusiveMinimum, "exclusiveMinimum")
	note(schema.MultipleOf != nil, "multipleOf")
	note(schema.UniqueItems, "uniqueItems")
	note(len(schema.AllOf) > 0, "allOf")
	note(len(schema.OneOf) > 0, "oneOf")
	note(len(schema.AnyOf) > 0 && !schema.XIntOrString, "anyOf")
	note(schema.Not != nil, "not")
	note(schema.XEmbeddedResource, "x-kubernetes-embedded-resource")
	note(!slices.Contains([]string{"", "int32", "int64", formatTime}, schema.Format), "format "+schema.Format)
	for _, rule := range schema.XValidations {
		note(rule.Message == "", "a rule without a message")
		note(rule.MessageExpression != "", "messageExpression")
	}
	return strings.Join(names, ", ")
}
