package definition

import (
	"encoding/json"
	"slices"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// ScalarNames are the arguments that a schema declares to be strings, numbers or booleans, in the order of their names.
// A schema that cannot be read declares none.
func ScalarNames(schema *v1alpha1.JSON) []string {
	if schema == nil {
		return nil
	}
	var declared struct {
		Properties map[string]json.RawMessage `json:"properties"`
	}
	if json.Unmarshal(schema.Raw, &declared) != nil {
		return nil
	}
	var names []string
	for name, property := range declared.Properties {
		if DeclaresScalar(property) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// DeclaresScalar reports whether the type of a property is a scalar one, or a list of scalar ones and null.
func DeclaresScalar(property json.RawMessage) bool {
	var one struct {
		Type string `json:"type"`
	}
	if json.Unmarshal(property, &one) == nil {
		return isScalar(one.Type)
	}
	var several struct {
		Type []string `json:"type"`
	}
	if json.Unmarshal(property, &several) != nil {
		return false
	}
	scalars := 0
	for _, name := range several.Type {
		switch {
		case isScalar(name):
			scalars++
		case name != "null":
			return false
		}
	}
	return scalars > 0
}

func isScalar(name string) bool {
	return name == "string" || name == "number" || name == "integer" || name == "boolean"
}
