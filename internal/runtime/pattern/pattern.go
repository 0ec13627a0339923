// Package pattern compiles regular expressions that a tenant has written. It bounds them by their parsed form, before
// anything is expanded or compiled: a pattern of 20 bytes can stand for a program of megabytes.
package pattern

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
)

const (
	// MaxBytes is the longest regular expression, in bytes.
	MaxBytes = 1024
	// MaxUnits is the most instructions that one may be compiled to.
	MaxUnits = 5000
	// runesPerUnit is how many bounds of a character class take as much memory as one instruction.
	runesPerUnit = 8
)

var (
	// ErrTooComplex is why a pattern is not compiled that stands for a large program.
	ErrTooComplex = errors.New("too complex")
	// ErrTooMuchWork is why a text is not searched.
	ErrTooMuchWork = errors.New("searching the text for the pattern takes too long")
)

// Parse returns how many instructions a regular expression is compiled to, at most, or why it is invalid. It has the
// syntax of Go (RE2).
func Parse(pattern string) (units int, err error) {
	if len(pattern) > MaxBytes {
		return 0, fmt.Errorf("the pattern has %d bytes; the maximum is %d", len(pattern), MaxBytes)
	}
	parsed, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return 0, fmt.Errorf("the pattern %.200q is not valid: %w", pattern, err)
	}
	units = min(instructionsOf(parsed)+runesOf(parsed)/runesPerUnit, MaxUnits+1)
	if units > MaxUnits {
		return 0, fmt.Errorf("the pattern %.64q is %w", pattern, ErrTooComplex)
	}
	return units, nil
}

// Pattern is a compiled regular expression.
type Pattern struct {
	units   int
	matcher *regexp.Regexp
}

// Compile returns a regular expression of at most a number of instructions, or why it is invalid.
func Compile(pattern string, maxUnits int) (*Pattern, error) {
	units, err := Parse(pattern)
	if err != nil {
		return nil, err
	}
	if units > maxUnits {
		return nil, fmt.Errorf("the pattern %.64q is %w", pattern, ErrTooComplex)
	}
	matcher, err := compile(pattern)
	if err != nil {
		return nil, fmt.Errorf("the pattern %.200q is not valid: %w", pattern, err)
	}
	return &Pattern{units: units, matcher: matcher}, nil
}

// MustCompile compiles a regular expression that Parse has accepted. It panics for any other.
func MustCompile(pattern string) *regexp.Regexp {
	matcher, err := compile(pattern)
	if err != nil {
		panic(err)
	}
	return matcher
}

// compile compiles a regular expression as a group: no group is compiled a second time, for matching in one pass, with
// a copy of each class for each repetition.
func compile(pattern string) (*regexp.Regexp, error) {
	matcher, err := regexp.Compile("(" + pattern + ")")
	if err != nil {
		// After \Q the rest of an expression is text, and so would be the end of the group.
		matcher, err = regexp.Compile("(" + pattern + `\E)`)
	}
	return matcher, err
}

// Match reports whether the expression matches somewhere in a text. It is ErrTooMuchWork if the instructions times the
// bytes of the text exceed a limit.
func (p *Pattern) Match(text string, maxWork int) (bool, error) {
	if p.Work(len(text)) > uint64(max(maxWork, 0)) {
		return false, ErrTooMuchWork
	}
	return p.matcher.MatchString(text), nil
}

// Work is the instructions times the bytes of a text of a length.
func (p *Pattern) Work(length int) uint64 {
	return uint64(p.units) * uint64(max(length, 0))
}

// instructionsOf is an upper bound of the instructions of a parsed pattern. It stops growing above MaxUnits, so that it
// cannot overflow.
func instructionsOf(re *syntax.Regexp) int {
	count := 0
	for _, sub := range re.Sub {
		count += instructionsOf(sub)
	}
	switch re.Op {
	case syntax.OpLiteral:
		count = len(re.Rune)
	case syntax.OpRepeat:
		count = (count+1)*max(re.Min, re.Max, 1) + 2
	case syntax.OpConcat:
	default:
		count += max(2, len(re.Sub))
	}
	return min(count, MaxUnits+1)
}

// runesOf is how many bounds the character classes of a parsed pattern have. Repetitions share them.
func runesOf(re *syntax.Regexp) int {
	count := 0
	if re.Op == syntax.OpCharClass {
		count = len(re.Rune)
	}
	for _, sub := range re.Sub {
		count += runesOf(sub)
	}
	return count
}
