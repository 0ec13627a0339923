package inputschema

import (
	"regexp"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/capstan-dev/capstan/internal/runtime/pattern"
)

const (
	// maxPatterns is the most regular expressions of one schema, and maxUnits the most instructions of all of them
	// together.
	maxPatterns = 64
	maxUnits    = 20_000
	// matchSpeed is how many bytes times instructions a regular expression gets through in one step.
	matchSpeed = 100
)

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
		r.matcher = pattern.MustCompile(r.pattern)
	}
	return r.matcher.MatchString(s)
}

// regexpOf passes a regular expression to the library, without compiling it yet.
func (m *meter) regexpOf(source string) (jsonschema.Regexp, error) {
	units, err := pattern.Parse(source)
	if err != nil {
		return nil, err
	}
	return &meteredRegexp{pattern: source, meter: m, units: units}, nil
}
