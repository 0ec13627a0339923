package cel

import (
	"fmt"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/interpreter"

	"github.com/capstan-dev/capstan/internal/runtime/pattern"
)

const (
	// maxPatternUnits and maxMatchWork bound regular expressions, as hook.Matcher does, and maxUnits those of one
	// expression together.
	maxPatternUnits = 500
	maxMatchWork    = 20_000_000
	maxUnits        = 2000
	// unitBytes is what an instruction of a compiled regular expression takes.
	unitBytes = 256
)

// patterns are the regular expressions that an expression has as constants. They are compiled with it.
type patterns map[string]*pattern.Pattern

// add compiles the second operand of a call of matches if it is a constant.
func (p patterns) add(call interpreter.InterpretableCall) error {
	constant, ok := call.Args()[1].(interpreter.InterpretableConst)
	if !ok {
		return nil
	}
	source, ok := constant.Value().(types.String)
	if !ok || p[string(source)] != nil {
		return nil
	}
	compiled, err := pattern.Compile(string(source), maxPatternUnits)
	if err != nil {
		return err
	}
	p[string(source)] = compiled
	if p.units() > maxUnits {
		return fmt.Errorf("the regular expressions of the expression are together %w", pattern.ErrTooComplex)
	}
	return nil
}

// units are the instructions of all.
func (p patterns) units() int {
	units := 0
	for _, compiled := range p {
		units += int(compiled.Work(1)) //nolint:gosec // The instructions of one are an int.
	}
	return units
}

// of returns a regular expression. One that is not a constant is compiled for each call.
func (p patterns) of(source string) (*pattern.Pattern, error) {
	if compiled, ok := p[source]; ok {
		return compiled, nil
	}
	return pattern.Compile(source, maxPatternUnits)
}

// matches is the function of that name, for patterns and texts that are not too large.
func (p patterns) matches(text, source ref.Val) ref.Val {
	t, ok := text.(types.String)
	s, also := source.(types.String)
	if !ok || !also {
		return types.MaybeNoSuchOverloadErr(text)
	}
	compiled, err := p.of(string(s))
	if err != nil {
		return types.NewErr("%v", err)
	}
	matched, err := compiled.Match(string(t), maxMatchWork)
	if err != nil {
		return types.NewErr("%v", err)
	}
	return types.Bool(matched)
}

// matches is the function where it is called with other operands than a text and a pattern.
func matches(text, source ref.Val) ref.Val {
	return patterns(nil).matches(text, source)
}

// work is how much it takes to search a text of a length.
func (p patterns) work(source string, length uint64) uint64 {
	if compiled, ok := p[source]; ok {
		return compiled.Work(1) * length
	}
	units, err := pattern.Parse(source)
	if err != nil {
		return 0
	}
	return uint64(units) * length //nolint:gosec // It is not negative.
}
