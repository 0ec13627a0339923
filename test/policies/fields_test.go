package policies_test

import (
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// pointing are the fields that point to secrets of a Session, or to arguments that refer to them. They name no Secret:
// the policy session-secrets is about who sets one and where it may be sent.
func pointing() []string {
	return []string{
		"MCPServer spec.headers[].sessionSecret.name", "MCPServer spec.headers[].sessionSecret.scheme",
		"MCPServer spec.tools[].secretArguments[]",
		"Tool spec.http.headers[].sessionSecret.name", "Tool spec.http.headers[].sessionSecret.scheme",
		"Tool spec.http.secretArguments[]",
	}
}

// walk visits every field without fields of its own.
func walk(path string, schema apiextensionsv1.JSONSchemaProps, visit func(path string)) {
	switch {
	case schema.Items != nil:
		walk(path+"[]", *schema.Items.Schema, visit)
	case len(schema.Properties) == 0:
		visit(path)
	}
	for name, property := range schema.Properties {
		walk(strings.TrimPrefix(path+"."+name, "."), property, visit)
	}
}
