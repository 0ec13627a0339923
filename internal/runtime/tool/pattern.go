package tool

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

const (
	// maxPatternBytes is the longest regular expression, in bytes, and maxPatternUnits the most instructions that one
	// may be compiled to.
	maxPatternBytes = 1024
	maxPatternUnits = 5000
	// maxPatterns is the most regular expressions of one schema, and maxSchemaUnits the most instructions of all of
	// them together.
	maxPatterns    = 64
	maxSchemaUnits = 20_000
	// runesPerUnit is how many bounds of a character class take as much memory as one instruction.
	runesPerUnit = 8
	// matchSpeed is how many bytes times instructions a regular expression gets through in one step.
	matchSpeed = 100
)

var errTooComplex = errors.New("too complex")

// parsePattern parses a regular expression of a schema and returns how many instructions it is compiled to, at most.
// They have the syntax of Go (RE2). Nothing is expanded or compiled here: a pattern of 20 bytes can stand for a program
// of megabytes.
func parsePattern(pattern string) (units int, err error) {
	if len(pattern) > maxPatternBytes {
		return 0, fmt.Errorf("the pattern has %d bytes; the maximum is %d", len(pattern), maxPatternBytes)
	}
	parsed, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return 0, fmt.Errorf("the pattern %.200q is not valid: %w", pattern, err)
	}
	units = min(instructionsOf(parsed)+runesOf(parsed)/runesPerUnit, maxPatternUnits+1)
	if units > maxPatternUnits {
		return 0, fmt.Errorf("the pattern %.64q is %w", pattern, errTooComplex)
	}
	return units, nil
}

// instructionsOf is an upper bound of the instructions of a parsed pattern. It stops growing above maxPatternUnits, so
// that it cannot overflow.
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
	return min(count, maxPatternUnits+1)
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

// meteredRegexp is a regular expression whose use is metered. It is compiled at its first use, so that checking a
// schema compiles nothing.
type meteredRegexp struct {
	pattern string
	meter   *meter
	units   int
	// matcher is nil until the first use. Validations of one schema are serialized.
	matcher *regexp.Regexp
}

// String is the source of the expression.
func (r *meteredRegexp) String() string {
	return r.pattern
}

// MatchString reports whether the expression matches somewhere in s.
func (r *meteredRegexp) MatchString(s string) bool {
	r.meter.spend(1 + r.units*len(s)/matchSpeed)
	if r.matcher == nil {
		r.meter.spend(r.units)
		// Within a group no pattern is compiled a second time, for matching in one pass, with a copy of each class for
		// each repetition.
		r.matcher = regexp.MustCompile("(" + r.pattern + ")")
	}
	return r.matcher.MatchString(s)
}

// regexpOf passes a regular expression to the library, without compiling it yet.
func (m *meter) regexpOf(pattern string) (jsonschema.Regexp, error) {
	units, err := parsePattern(pattern)
	if err != nil {
		return nil, err
	}
	return &meteredRegexp{pattern: pattern, meter: m, units: units}, nil
}
