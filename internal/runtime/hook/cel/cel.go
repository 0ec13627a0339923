// Package cel runs hooks that are expressions in CEL.
//
// They run in the manager, and cel-go's cost limit alone does not bound them: it counts a call after it has been
// evaluated, and takes the comparison of two lists for one step, however much they contain. So expressions have no
// means to build large values: no macro that makes a list, no sum of lists, no comparison of lists or maps with each
// other.
package cel

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/env"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"github.com/capstan-dev/capstan/internal/runtime/hook"
	"github.com/capstan-dev/capstan/internal/runtime/hook/cache"
)

const (
	// costLimit is the most that one evaluation may cost, in units of cel-go: about as long as to read 10 MiB of text.
	costLimit = 1_000_000
	// maxTime is the longest evaluation. A loop whose body is a constant costs nothing.
	maxTime = time.Second
	// maxKeptBytes is the most memory of compiled expressions that are kept.
	maxKeptBytes = 16 << 20
)

// Executor runs expressions. It keeps what it has compiled. It is safe for concurrent use.
type Executor struct {
	env      *cel.Env
	programs *cache.Values[compiled]
}

// New returns an Executor.
func New() (*Executor, error) {
	subset := env.NewLibrarySubset().
		AddExcludedMacros("map", "filter").
		AddExcludedFunctions(env.NewFunction("matches"))
	e := &Executor{programs: cache.New[compiled](maxKeptBytes)}
	var err error
	e.env, err = cel.NewCustomEnv(
		cel.StdLib(cel.StdLibSubset(subset)),
		cel.Variable("event", cel.StringType),
		cel.Variable("session", cel.StringType),
		cel.Variable("turn", cel.StringType),
		cel.Variable("agent", cel.StringType),
		cel.Variable("data", cel.MapType(cel.StringType, cel.DynType)),
		cel.Function("matches",
			cel.Overload("bounded_matches", []*cel.Type{cel.StringType, cel.StringType}, cel.BoolType,
				cel.BinaryBinding(matches)),
			cel.MemberOverload("bounded_string_matches", []*cel.Type{cel.StringType, cel.StringType}, cel.BoolType,
				cel.BinaryBinding(matches))),
		cel.ParserRecursionLimit(maxDepth),
		cel.ParserExpressionSizeLimit(hook.MaxExpressionBytes),
	)
	if err != nil {
		return nil, fmt.Errorf("preparing CEL: %w", err)
	}
	return e, nil
}

// Check returns why an expression of a namespace cannot be compiled; nil if it can.
func (e *Executor) Check(ctx context.Context, namespace, expression string) error {
	_, err := e.program(ctx, namespace, expression)
	return err
}

// Run evaluates the expression of a hook. It implements hook.Executor.
func (e *Executor) Run(ctx context.Context, c hook.Call) hook.Outcome {
	program, err := e.program(ctx, c.Identity.Namespace, c.Spec.CEL.Expression)
	if err != nil {
		return hook.Fail("compiling the expression: %v", err)
	}
	var p struct {
		Event     string         `json:"event"`
		SessionID string         `json:"session_id"`
		TurnID    string         `json:"turn_id"`
		AgentID   string         `json:"agent_id"`
		Data      map[string]any `json:"data"`
	}
	if err := json.Unmarshal(c.Payload, &p); err != nil {
		return hook.Fail("reading the payload: %v", err)
	}
	ctx, cancel := context.WithTimeout(ctx, maxTime)
	defer cancel()
	value, _, err := program.ContextEval(ctx, map[string]any{
		"event": p.Event, "session": p.SessionID, "turn": p.TurnID, "agent": p.AgentID, "data": p.Data,
	})
	if err != nil {
		return hook.Fail("evaluating the expression: %v", err)
	}
	return outcome(value)
}

// outcome is what the value of an expression stands for: true and null allow, false blocks, a text blocks with this
// reason, and a map is what a script would print.
func outcome(value ref.Val) hook.Outcome {
	switch v := value.(type) {
	case types.Bool:
		if v {
			return hook.Outcome{Decision: hook.Allow}
		}
		return hook.ParseJSON([]byte(`{"decision":"block"}`))
	case types.Null:
		return hook.Outcome{Decision: hook.Allow}
	case types.String:
		if v == "" {
			return hook.Outcome{Decision: hook.Allow}
		}
		return hook.Outcome{Decision: hook.Block, Reason: string(v)}
	}
	object, err := encode(value)
	if err != nil {
		return hook.Fail("the value of the expression: %v", err)
	}
	return hook.ParseJSON(object)
}
