package docs_test

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/capstan-dev/capstan/config/crd"
)

var (
	// getCommand is a command that prints fields of one kind.
	getCommand = regexp.MustCompile(`kubectl get ([a-z]+) [^\n]*`)
	// fieldPath is a path to a field in a JSONPath or in a custom column.
	fieldPath = regexp.MustCompile(`(?:\{|range |=|,[A-Z]+:|=[A-Z]+:)(\.(?:spec|status)(?:\.?[a-zA-Z]+|\[[^\]]*\])*)`)
	// element is a choice of elements of a list.
	element = regexp.MustCompile(`\[[^\]]*\]`)
)

// TestTheCommandsOfThePagesNameFieldsThatExist looks the fields of our kinds up in their definitions.
func TestTheCommandsOfThePagesNameFieldsThatExist(t *testing.T) {
	known := schemas(t)
	pages, err := filepath.Glob("*.md")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, page := range pages {
		text := strings.ReplaceAll(read(t, page), "\\\n", " ")
		for _, command := range getCommand.FindAllStringSubmatch(text, -1) {
			schema := known[command[1]]
			if schema == nil {
				continue
			}
			for _, path := range fieldPath.FindAllStringSubmatch(command[0], -1) {
				seen++
				if !hasField(schema, path[1]) {
					t.Errorf("%s: a %s has no field %s, in %q", page, command[1], path[1], command[0])
				}
			}
		}
	}
	if seen < 40 {
		t.Errorf("the pages name %d fields only", seen)
	}
}

// schemas returns the schemas of our kinds, by their names in singular and plural.
func schemas(t *testing.T) map[string]*apiextensionsv1.JSONSchemaProps {
	t.Helper()
	definitions, err := crd.Definitions()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]*apiextensionsv1.JSONSchemaProps{}
	for _, definition := range definitions {
		for _, name := range []string{definition.Spec.Names.Singular, definition.Spec.Names.Plural} {
			all[name] = definition.Spec.Versions[0].Schema.OpenAPIV3Schema
		}
	}
	return all
}

// hasField reports whether a schema has the field of a path such as .status.toolCalls[*].name.
func hasField(schema *apiextensionsv1.JSONSchemaProps, path string) bool {
	for name := range strings.SplitSeq(strings.Trim(element.ReplaceAllString(path, ""), "."), ".") {
		if schema.Items != nil {
			schema = schema.Items.Schema
		}
		if schema.AdditionalProperties != nil {
			schema = schema.AdditionalProperties.Schema
			continue
		}
		field, found := schema.Properties[name]
		if !found {
			return false
		}
		schema = &field
	}
	return true
}
