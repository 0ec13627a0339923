package cel

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/interpreter"

	"github.com/capstan-dev/capstan/internal/runtime/hook"
)

// guarded replaces the operators whose work the cost limit does not bound.
func (p patterns) guarded(i interpreter.InterpretableV2) (interpreter.InterpretableV2, error) {
	call, ok := i.(interpreter.InterpretableCall)
	if !ok || len(call.Args()) != 2 {
		return i, nil
	}
	var apply func(left, right ref.Val) ref.Val
	switch call.Function() {
	case operators.Equals:
		apply = types.Equal
	case operators.NotEquals:
		apply = func(left, right ref.Val) ref.Val { return types.Bool(types.Equal(left, right) != types.True) }
	case operators.In:
		apply = in
	case operators.Add:
		apply = add
	case "matches":
		if err := p.add(call); err != nil {
			return nil, err
		}
		apply = p.matches
	default:
		return i, nil
	}
	return &guard{InterpretableCall: call, apply: apply}, nil
}

// guard is a call of an operator whose operands are not both lists or maps.
type guard struct {
	interpreter.InterpretableCall
	apply func(left, right ref.Val) ref.Val
}

// Exec evaluates the operands, each once, and then the operator.
func (g *guard) Exec(frame *interpreter.ExecutionFrame) ref.Val {
	args := g.Args()
	left, right := args[0].Exec(frame), args[1].Exec(frame)
	switch {
	case types.IsUnknownOrError(left):
		return left
	case types.IsUnknownOrError(right):
		return right
	case composite(left) && (composite(right) || g.Function() == operators.Add):
		return types.NewErr("operator %s does not take two lists or maps: use their elements", name(g.Function()))
	default:
		return g.apply(left, right)
	}
}

// Eval implements interpreter.Interpretable.
func (g *guard) Eval(a interpreter.Activation) ref.Val {
	return g.Exec(interpreter.AsFrame(a))
}

func name(function string) string {
	if symbol, ok := operators.FindReverseBinaryOperator(function); ok {
		return symbol
	}
	return function
}

// composite reports whether a value has elements.
func composite(v ref.Val) bool {
	switch v.(type) {
	case traits.Lister, traits.Mapper:
		return true
	default:
		return false
	}
}

func in(element, container ref.Val) ref.Val {
	c, ok := container.(traits.Container)
	if !ok {
		return types.MaybeNoSuchOverloadErr(container)
	}
	return c.Contains(element)
}

func add(left, right ref.Val) ref.Val {
	a, ok := left.(traits.Adder)
	if !ok {
		return types.MaybeNoSuchOverloadErr(left)
	}
	return a.Add(right)
}

// costs is what calls cost. That of cel-go is 1 for a call whose operands have no known type, however large they are.
type costs struct{ patterns }

const (
	// bytesPerUnit is how many bytes of text are read for one unit, and workPerUnit how many instructions times bytes
	// of a regular expression.
	bytesPerUnit = 10
	workPerUnit  = 40
	// compileCost is the cost of a regular expression that is compiled.
	compileCost = 200
)

// CallCost implements interpreter.ActualCostEstimator.
func (c costs) CallCost(function, _ string, args []ref.Val, result ref.Val) *uint64 {
	cost := 1 + textBytes(result)/bytesPerUnit
	for _, arg := range args {
		cost += textBytes(arg) / bytesPerUnit
	}
	switch {
	case function == operators.In && len(args) == 2:
		if list, ok := args[1].(traits.Lister); ok {
			if size, ok := list.Size().(types.Int); ok {
				cost += uint64(size) //nolint:gosec // A size is not negative.
			}
		}
	case function == "matches" && len(args) == 2:
		cost += compileCost
		if source, ok := args[1].(types.String); ok {
			cost += c.work(string(source), textBytes(args[0])) / workPerUnit
		}
	}
	return &cost
}

func textBytes(v ref.Val) uint64 {
	switch v := v.(type) {
	case types.String:
		return uint64(len(v))
	case types.Bytes:
		return uint64(len(v))
	default:
		return 0
	}
}

// errTooLarge ends the encoding of a value that no output may have.
var errTooLarge = errors.New("it is too large")

// encode is a value as JSON, of at most hook.MaxOutputBytes. A value may contain another one many times, so that it is
// not converted before it is known to be small.
func encode(v ref.Val) ([]byte, error) {
	left := hook.MaxOutputBytes
	native, err := plain(v, &left)
	if err != nil {
		return nil, err
	}
	return json.Marshal(native)
}

func plain(v ref.Val, left *int) (any, error) {
	*left--
	if *left < 0 {
		return nil, errTooLarge
	}
	switch v := v.(type) {
	case types.String:
		*left -= len(v)
		return string(v), nil
	case types.Bool, types.Int, types.Uint, types.Double:
		return v.Value(), nil
	case types.Null:
		return nil, nil
	case traits.Mapper:
		object := map[string]any{}
		for it := v.Iterator(); it.HasNext() == types.True; {
			key := it.Next()
			text, ok := key.(types.String)
			if !ok {
				return nil, fmt.Errorf("a key of a map is of type %s", key.Type().TypeName())
			}
			*left -= len(text)
			member, err := plain(v.Get(key), left)
			if err != nil {
				return nil, err
			}
			object[string(text)] = member
		}
		return object, nil
	case traits.Lister:
		list := []any{}
		for it := v.Iterator(); it.HasNext() == types.True; {
			element, err := plain(it.Next(), left)
			if err != nil {
				return nil, err
			}
			list = append(list, element)
		}
		return list, nil
	default:
		return nil, fmt.Errorf("it has a value of type %s", v.Type().TypeName())
	}
}
