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
	"sync"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/env"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"k8s.io/utils/lru"

	"github.com/capstan-dev/capstan/internal/runtime/hook"
	"github.com/capstan-dev/capstan/internal/runtime/pattern"
)

const (
	// costLimit is the most that one evaluation may cost, in units of cel-go: about as long as to read 10 MiB of text.
	costLimit = 1_000_000
	// maxTime is the longest evaluation. A loop whose body is a constant costs nothing.
	maxTime = time.Second
	// maxDepth is how deeply an expression may be nested.
	maxDepth = 32
	// maxPrograms is how many compiled expressions are kept, and how many regular expressions.
	maxPrograms = 256
	// maxPatternUnits and maxMatchWork bound regular expressions, as hook.Matcher does.
	maxPatternUnits = 500
	maxMatchWork    = 20_000_000
)

// Executor runs expressions. It keeps what it has compiled. It is safe for concurrent use.
type Executor struct {
	env      *cel.Env
	programs *lru.Cache
	patterns *lru.Cache
	// compiling makes one expression after the other wait: compiling takes more memory than evaluating.
	compiling sync.Mutex
}

// New returns an Executor.
func New() (*Executor, error) {
	subset := env.NewLibrarySubset().
		AddExcludedMacros("map", "filter").
		AddExcludedFunctions(env.NewFunction("matches"))
	e := &Executor{programs: lru.New(maxPrograms), patterns: lru.New(maxPrograms)}
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
				cel.BinaryBinding(e.matches)),
			cel.MemberOverload("bounded_string_matches", []*cel.Type{cel.StringType, cel.StringType}, cel.BoolType,
				cel.BinaryBinding(e.matches))),
		cel.ParserRecursionLimit(maxDepth),
		cel.ParserExpressionSizeLimit(hook.MaxExpressionBytes),
		cel.ASTValidators(cel.ValidateComprehensionNestingLimit(maxNesting)),
	)
	if err != nil {
		return nil, fmt.Errorf("preparing CEL: %w", err)
	}
	return e, nil
}

// maxNesting is how deeply macros over lists may be nested.
const maxNesting = 3

// Check returns why an expression cannot be compiled; nil if it can.
func (e *Executor) Check(expression string) error {
	_, err := e.program(expression)
	return err
}

// Run evaluates the expression of a hook. It implements hook.Executor.
func (e *Executor) Run(ctx context.Context, c hook.Call) hook.Outcome {
	program, err := e.program(c.Spec.CEL.Expression)
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

// compiled is a kept expression, or why it cannot be compiled.
type compiled struct {
	program cel.Program
	err     error
}

func (e *Executor) program(expression string) (cel.Program, error) {
	if kept, ok := e.programs.Get(expression); ok {
		c := kept.(compiled) //nolint:forcetypeassert // Only this function adds to the cache.
		return c.program, c.err
	}
	e.compiling.Lock()
	defer e.compiling.Unlock()
	var c compiled
	c.program, c.err = e.compile(expression)
	e.programs.Add(expression, c)
	return c.program, c.err
}

func (e *Executor) compile(expression string) (cel.Program, error) {
	if len(expression) > hook.MaxExpressionBytes {
		return nil, fmt.Errorf("the expression has %d bytes; the maximum is %d", len(expression), hook.MaxExpressionBytes)
	}
	ast, issues := e.env.Compile(expression)
	if err := issues.Err(); err != nil {
		return nil, fmt.Errorf("the expression is invalid: %.1000s", err.Error())
	}
	switch kind := ast.OutputType().Kind(); kind {
	case types.BoolKind, types.StringKind, types.MapKind, types.DynKind, types.NullTypeKind:
	default:
		return nil, fmt.Errorf("the expression yields %s; it must yield true, false, a reason to block, or a map with a "+
			"decision", ast.OutputType())
	}
	return e.env.Program(ast,
		cel.CostLimit(costLimit),
		cel.CostTracking(costs{e}),
		cel.InterruptCheckFrequency(100),
		cel.CustomDecoratorV2(guarded),
	)
}

// matches is the function of that name, for patterns and texts that are not too large.
func (e *Executor) matches(text, source ref.Val) ref.Val {
	t, ok := text.(types.String)
	s, also := source.(types.String)
	if !ok || !also {
		return types.MaybeNoSuchOverloadErr(text)
	}
	p, err := e.pattern(string(s))
	if err != nil {
		return types.NewErr("%v", err)
	}
	matched, err := p.Match(string(t), maxMatchWork)
	if err != nil {
		return types.NewErr("%v", err)
	}
	return types.Bool(matched)
}

func (e *Executor) pattern(source string) (*pattern.Pattern, error) {
	if kept, ok := e.patterns.Get(source); ok {
		return kept.(*pattern.Pattern), nil //nolint:forcetypeassert // Only this function adds to the cache.
	}
	p, err := pattern.Compile(source, maxPatternUnits)
	if err == nil {
		e.patterns.Add(source, p)
	}
	return p, err
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
