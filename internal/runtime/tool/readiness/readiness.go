// Package readiness decides whether a Tool can be used.
package readiness

import (
	"fmt"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/tool/definition"
	"github.com/capstan-dev/capstan/internal/runtime/tool/httpcall"
	"github.com/capstan-dev/capstan/internal/runtime/tool/inputschema"
)

// SchemaChecker checks an inputSchema.
type SchemaChecker interface {
	// CheckSchema returns an error if the schema is not a JSON Schema of an object. Its text must be the same each
	// time.
	CheckSchema(schema []byte) error
}

// Of returns the reason and message of a Tool's Ready condition. A schema that is too large is not checked.
func Of(spec *v1alpha1.ToolSpec, schemas SchemaChecker) (reason, message string) {
	definition.MustBeWhole(spec)
	if spec.InputSchema == nil && spec.Agent != nil {
		return v1alpha1.ReasonReady, "The Tool can be used. It has no inputSchema: the argument message is required."
	}
	if spec.InputSchema == nil {
		return v1alpha1.ReasonReady, "The Tool can be used. It has no inputSchema: any object is accepted."
	}
	if size := len(spec.InputSchema.Raw); size > inputschema.MaxBytes {
		return v1alpha1.ReasonInvalidSchema, fmt.Sprintf(
			"inputSchema has %d bytes; at most %d are allowed. Make it shorter.",
			size,
			inputschema.MaxBytes,
		)
	}
	if err := schemas.CheckSchema(spec.InputSchema.Raw); err != nil {
		return v1alpha1.ReasonInvalidSchema, fmt.Sprintf("inputSchema is not valid: %v", err)
	}
	if why := httpcall.Check(spec); why != "" {
		return v1alpha1.ReasonInvalidSchema, fmt.Sprintf("Calls cannot be sent: %s.", why)
	}
	return v1alpha1.ReasonReady, "The Tool can be used."
}
