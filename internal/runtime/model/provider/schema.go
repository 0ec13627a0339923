package provider

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/model"
)

// CheckSchema reports the keywords at the top of a tool's schema that the provider refuses, and a type other than
// object. Such a schema would fail every request of the Session at the provider; here it costs nothing, and the error
// names the tool. A schema that is not a JSON object is left to the driver.
func CheckSchema(provider string, d model.ToolDefinition, refused ...string) error {
	var top map[string]json.RawMessage
	if len(d.InputSchema) == 0 || json.Unmarshal(d.InputSchema, &top) != nil {
		return nil
	}
	var found []string
	for _, keyword := range refused {
		if top[keyword] != nil {
			found = append(found, keyword)
		}
	}
	var kind any
	if json.Unmarshal(top["type"], &kind) == nil && kind != nil && kind != "object" {
		found = append(found, "a type other than object")
	}
	if len(found) == 0 {
		return nil
	}
	slices.Sort(found)
	problem := fmt.Sprintf("%s does not accept the inputSchema of tool %s: it has %s at the top level. "+
		"Move it into a property.",
		provider, d.Name, strings.Join(found, ", "))
	return &Error{
		Provider:  provider,
		code:      v1alpha1.ErrorCodeProcessingError,
		Problem:   problem,
		text:      problem,
		elsewhere: true,
	}
}

// Tools returns the definitions of tools in the form of an API. check returns an error for one that the provider would
// refuse; schemaOf and toolOf return the form of a schema, and of a tool that has it.
func Tools[S, T any](
	definitions []model.ToolDefinition,
	check func(model.ToolDefinition) error,
	schemaOf func(json.RawMessage) (S, error),
	toolOf func(model.ToolDefinition, S) T,
) ([]T, error) {
	var tools []T
	for _, d := range definitions {
		if err := check(d); err != nil {
			return nil, err
		}
		schema, err := schemaOf(d.InputSchema)
		if err != nil {
			return nil, fmt.Errorf("reading the schema of tool %s: %w", d.Name, err)
		}
		tools = append(tools, toolOf(d, schema))
	}
	return tools, nil
}
