package cel

import (
	"context"
	"fmt"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/types"

	"github.com/capstan-dev/capstan/internal/runtime/hook"
)

const (
	// maxDepth is how deeply an expression may be nested, and maxNesting macros over lists.
	maxDepth   = 32
	maxNesting = 3
	// maxNodes is the most constants, variables, calls and macros of an expression, with what macros stand for. To check
	// the types of a list takes time and memory by the square of its elements.
	maxNodes = 500
	// maxShownErrors is how many errors of an expression are shown.
	maxShownErrors = 3
	// nodeBytes is what a node takes once it is compiled, and programBytes what an expression takes besides.
	nodeBytes    = 512
	programBytes = 8 << 10
)

// compiled is a kept expression, or why it cannot be compiled.
type compiled struct {
	program cel.Program
	err     error
}

func (e *Executor) program(ctx context.Context, namespace, expression string) (cel.Program, error) {
	c, err := e.programs.Of(ctx, namespace, expression, func(text string) (compiled, int64) {
		program, bytes, err := e.compile(text)
		return compiled{program, err}, bytes
	})
	if err != nil {
		return nil, err
	}
	return c.program, c.err
}

// compile returns a program, and about how much memory it takes.
func (e *Executor) compile(expression string) (cel.Program, int64, error) {
	if len(expression) > hook.MaxExpressionBytes {
		return nil, 0, fmt.Errorf("the expression has %d bytes; the maximum is %d", len(expression), hook.MaxExpressionBytes)
	}
	parsed, issues := e.env.Parse(expression)
	if err := invalid(issues); err != nil {
		return nil, 0, err
	}
	nodes := 0
	ast.PreOrderVisit(parsed.NativeRep().Expr(), ast.NewExprVisitor(func(ast.Expr) { nodes++ }))
	if nodes > maxNodes {
		return nil, 0, fmt.Errorf("the expression has %d constants, variables and calls, with what its macros stand for; "+
			"the maximum is %d", nodes, maxNodes)
	}
	checked, issues := e.env.Check(parsed)
	if err := invalid(issues); err != nil {
		return nil, 0, err
	}
	issues = cel.NewIssuesWithSourceInfo(common.NewErrors(checked.Source()), checked.NativeRep().SourceInfo())
	cel.ValidateComprehensionNestingLimit(maxNesting).Validate(e.env, nil, checked.NativeRep(), issues)
	if err := invalid(issues); err != nil {
		return nil, 0, err
	}
	switch kind := checked.OutputType().Kind(); kind {
	case types.BoolKind, types.StringKind, types.MapKind, types.DynKind, types.NullTypeKind:
	default:
		return nil, 0, fmt.Errorf("the expression yields %.200s; it must yield true, false, a reason to block, or a map "+
			"with a decision", checked.OutputType())
	}
	p := patterns{}
	program, err := e.env.Program(checked,
		cel.CostLimit(costLimit),
		cel.CostTracking(costs{p}),
		cel.InterruptCheckFrequency(100),
		cel.CustomDecoratorV2(p.guarded),
	)
	if err != nil {
		return nil, 0, err
	}
	return program, int64(programBytes + nodes*nodeBytes + p.units()*unitBytes), nil
}

// invalid is an error with the first issues; nil for none. Each is shown without the line of the expression: to print
// that, with a mark below it, takes time by the square of its length.
func invalid(issues *cel.Issues) error {
	all := issues.Errors()
	if len(all) == 0 {
		return nil
	}
	var shown []string
	for i, e := range all {
		if i == maxShownErrors {
			shown = append(shown, fmt.Sprintf("and %d more", len(all)-i))
			break
		}
		shown = append(shown, fmt.Sprintf("%d:%d: %.300s", e.Location.Line(), e.Location.Column()+1, e.Message))
	}
	return fmt.Errorf("the expression is invalid: %s", strings.Join(shown, "; "))
}
