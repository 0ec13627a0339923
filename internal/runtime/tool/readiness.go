package tool

import (
	"fmt"

	"github.com/capstan-dev/capstan/api/v1alpha1"
)

// SchemaChecker checks an inputSchema.
type SchemaChecker interface {
	// CheckSchema returns an error if the schema is not a JSON Schema of an object. Its text must be the same each
	// time.
	CheckSchema(schema []byte) error
}

// Readiness returns the reason and message of a Tool's Ready condition. A schema that is too large is not checked.
func Readiness(spec *v1alpha1.ToolSpec, schemas SchemaChecker) (reason, message string) {
	mustBeWhole(spec)
	schema := spec.InputSchema
	if schema == nil {
		return v1alpha1.ReasonReady, "The Tool can be used. It has no inputSchema: any object is accepted."
	}
	if size := len(schema.Raw); size > MaxSchemaBytes {
		return v1alpha1.ReasonInvalidSchema, fmt.Sprintf(
			"inputSchema has %d bytes; at most %d are allowed. Make it shorter.",
			size,
			MaxSchemaBytes,
		)
	}
	if err := schemas.CheckSchema(schema.Raw); err != nil {
		return v1alpha1.ReasonInvalidSchema, fmt.Sprintf("inputSchema is not valid: %v", err)
	}
	if why := CheckHTTP(spec); why != "" {
		return v1alpha1.ReasonInvalidSchema, fmt.Sprintf("Calls cannot be sent: %s.", why)
	}
	return v1alpha1.ReasonReady, "The Tool can be used."
}
