package readiness

import (
	"errors"
	"strings"
	"testing"

	"github.com/capstan-dev/capstan/api/v1alpha1"
	"github.com/capstan-dev/capstan/internal/runtime/tool/inputschema"
)

// checker refuses the schema of a test, and records the schemas that it has checked.
type checker struct {
	refused string
	asked   int
}

func (c *checker) CheckSchema(schema []byte) error {
	c.asked++
	if string(schema) == c.refused {
		return errors.New(`type: "nonsense" is no type`)
	}
	return nil
}

func TestReadinessOfATool(t *testing.T) {
	const object, nonsense = `{"type":"object"}`, `{"type":"nonsense"}`
	largest := `"` + strings.Repeat("x", inputschema.MaxBytes-2) + `"`
	for name, test := range map[string]struct {
		schema  string
		http    *v1alpha1.HTTPTool
		reason  string
		message string
		asked   int
	}{
		"no schema":      {reason: v1alpha1.ReasonReady},
		"a valid schema": {schema: object, reason: v1alpha1.ReasonReady, asked: 1},
		"an invalid schema": {
			schema: nonsense, reason: v1alpha1.ReasonInvalidSchema, message: `"nonsense" is no type`, asked: 1,
		},
		"the largest schema": {schema: largest, reason: v1alpha1.ReasonReady, asked: 1},
		"arguments for a query that are scalars": {
			schema: `{"type":"object","properties":{"city":{"type":"string"}}}`, http: &v1alpha1.HTTPTool{
				URL: "https://example.org", Method: v1alpha1.HTTPMethodGet,
			},
			reason: v1alpha1.ReasonReady, asked: 1,
		},
		"arguments for a query that are none": {
			schema: `{"type":"object","properties":{"cities":{"type":"array"}}}`, http: &v1alpha1.HTTPTool{
				URL: "https://example.org", Method: v1alpha1.HTTPMethodGet,
			},
			reason: v1alpha1.ReasonInvalidSchema,
			message: `Calls cannot be sent: the arguments are sent in the query of http.url, ` +
				`but the property "cities" is not declared`,
			asked: 1,
		},
		"a schema too large": {schema: largest + " ", reason: v1alpha1.ReasonInvalidSchema, message: "32769 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			spec := &v1alpha1.ToolSpec{HTTP: test.http}
			if test.schema != "" {
				spec.InputSchema = &v1alpha1.JSON{Raw: []byte(test.schema)}
			}
			schemas := &checker{refused: nonsense}
			reason, message := Of(spec, schemas)
			if reason != test.reason || message == "" || !strings.Contains(message, test.message) {
				t.Errorf("Readiness = %s, %q, want %s with %s", reason, message, test.reason, test.message)
			}
			if schemas.asked != test.asked {
				t.Errorf("the schema was checked %d times, want %d", schemas.asked, test.asked)
			}
		})
	}
}
