// Package testmath registers the capability test_math: tools that add, subtract, multiply and divide, for tests of
// agents. Only test kits import it.
package testmath

import (
	"context"

	"github.com/capstan-dev/capstan/internal/runtime/tool/builtin"
)

// Capability is the name of the capability.
const Capability = "test_math"

const schema = `{
  "type": "object",
  "properties": {"a": {"type": "number"}, "b": {"type": "number"}},
  "required": ["a", "b"]
}`

func init() {
	builtin.Register(builtin.Capability{Name: Capability, Tools: []builtin.Tool{
		operation("add", "Adds b to a.", func(a, b float64) float64 { return a + b }),
		operation("subtract", "Subtracts b from a.", func(a, b float64) float64 { return a - b }),
		operation("multiply", "Multiplies a by b.", func(a, b float64) float64 { return a * b }),
		operation("divide", "Divides a by b.", func(a, b float64) float64 { return a / b }),
	}})
}

func operation(name, description string, of func(a, b float64) float64) builtin.Tool {
	return builtin.Tool{
		Name: name, Description: description, InputSchema: schema,
		Run: func(_ context.Context, call builtin.Call) (any, error) {
			var operands struct {
				A float64 `json:"a"`
				B float64 `json:"b"`
			}
			if err := call.Decode(&operands); err != nil {
				return nil, err
			}
			if name == "divide" && operands.B == 0 {
				return nil, builtin.Errorf("A number cannot be divided by 0.")
			}
			return map[string]float64{"result": of(operands.A, operands.B)}, nil
		},
	}
}
