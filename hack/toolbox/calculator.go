package main

import (
	"errors"
	"fmt"
	"math/big"
	"strings"
)

// Bounds of an expression: its arithmetic is exact, and would use any amount of memory.
const (
	maxExpression = 1000
	maxDepth      = 100
	maxDecimals   = 12
)

// evaluate computes an expression of decimal numbers, + - * / and parentheses, exactly.
func evaluate(expression string) (*big.Rat, error) {
	if len(expression) > maxExpression {
		return nil, fmt.Errorf("the expression is longer than %d characters", maxExpression)
	}
	p := &parser{rest: expression}
	value, err := p.sum(0)
	if err != nil {
		return nil, err
	}
	if !p.ended() {
		return nil, fmt.Errorf("unexpected %q", p.rest)
	}
	return value, nil
}

// formatNumber writes a number as a decimal: exactly where it has few decimals, else rounded.
func formatNumber(value *big.Rat) string {
	if decimals, exact := value.FloatPrec(); exact && decimals <= maxDecimals {
		return value.FloatString(decimals)
	}
	rounded := strings.TrimRight(value.FloatString(maxDecimals), "0")
	rounded = strings.TrimSuffix(rounded, ".")
	if rounded == "-0" {
		return "0"
	}
	return rounded
}

// parser reads an expression from left to right, a function for each level of precedence.
type parser struct{ rest string }

// ended skips white space, and reports whether nothing is left.
func (p *parser) ended() bool {
	p.rest = strings.TrimLeft(p.rest, " \t\r\n")
	return p.rest == ""
}

// next consumes the next character if it is one of those wanted, and returns it or 0.
func (p *parser) next(wanted string) byte {
	if p.ended() || strings.IndexByte(wanted, p.rest[0]) < 0 {
		return 0
	}
	c := p.rest[0]
	p.rest = p.rest[1:]
	return c
}

func (p *parser) sum(depth int) (*big.Rat, error) {
	total, err := p.product(depth)
	if err != nil {
		return nil, err
	}
	for {
		operator := p.next("+-")
		if operator == 0 {
			return total, nil
		}
		operand, err := p.product(depth)
		if err != nil {
			return nil, err
		}
		if operator == '+' {
			total.Add(total, operand)
			continue
		}
		total.Sub(total, operand)
	}
}

func (p *parser) product(depth int) (*big.Rat, error) {
	total, err := p.factor(depth)
	if err != nil {
		return nil, err
	}
	for {
		operator := p.next("*/")
		if operator == 0 {
			return total, nil
		}
		operand, err := p.factor(depth)
		if err != nil {
			return nil, err
		}
		switch {
		case operator == '*':
			total.Mul(total, operand)
		case operand.Sign() == 0:
			return nil, errors.New("division by zero")
		default:
			total.Quo(total, operand)
		}
	}
}

func (p *parser) factor(depth int) (*big.Rat, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("the expression is nested deeper than %d levels", maxDepth)
	}
	switch p.next("+-(") {
	case '-':
		value, err := p.factor(depth + 1)
		if err != nil {
			return nil, err
		}
		return value.Neg(value), nil
	case '+':
		return p.factor(depth + 1)
	case '(':
		value, err := p.sum(depth + 1)
		if err != nil {
			return nil, err
		}
		if p.next(")") == 0 {
			return nil, errors.New("a parenthesis is not closed")
		}
		return value, nil
	default:
		return p.number()
	}
}

func (p *parser) number() (*big.Rat, error) {
	if p.ended() {
		return nil, errors.New("the expression ends where a number should be")
	}
	end := 0
	for end < len(p.rest) && strings.IndexByte("0123456789.", p.rest[end]) >= 0 {
		end++
	}
	value, valid := new(big.Rat).SetString(p.rest[:end])
	if !valid {
		return nil, fmt.Errorf("%q does not start with a number", p.rest)
	}
	p.rest = p.rest[end:]
	return value, nil
}
