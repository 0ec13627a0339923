package tool

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

const (
	// maxWork is how many steps one validation may take, a step being about as long as to compare two numbers.
	maxWork = 500_000
	// maxPatternBytes and maxPatternSize are how long a regular expression may be, as text and as a program.
	maxPatternBytes = 1024
	maxPatternSize  = 5000
	// matchSpeed is how many bytes times instructions a regular expression gets through in one step.
	matchSpeed = 100
	// scanSpeed is how many bytes of a string are looked at in one step.
	scanSpeed = 100
)

// errTooMuchWork ends a validation.
var errTooMuchWork = errors.New("the arguments take too long to check against the schema of the tool")

// meter bounds the work of one validation at a time. A schema of a few hundred bytes can ask for more than any machine can do, by
// references that double at each step; the library has no limit of its own, but it asks a hook for each part of a schema that it is
// about to apply.
type meter struct {
	mu   sync.Mutex
	left int
}

// outOfWork is what a validation is stopped with from deep inside the library.
type outOfWork struct{}

func (m *meter) spend(steps int) {
	if m.left -= max(steps, 1); m.left < 0 {
		panic(outOfWork{})
	}
}

// validate checks a value. Validations of one schema come one after another.
func (s *compiledSchema) validate(value any) (err error) {
	s.meter.mu.Lock()
	defer s.meter.mu.Unlock()
	s.meter.left = maxWork
	defer func() {
		switch stopped := recover().(type) {
		case nil:
		case outOfWork:
			err = errTooMuchWork
		default:
			panic(stopped)
		}
	}()
	var invalid *jsonschema.ValidationError
	if err := s.schema.Validate(value); errors.As(err, &invalid) {
		return explainArguments(invalid)
	}
	return nil
}

// attach puts the hook into every part of a schema, and refuses schemas whose parts cannot all be found from the top.
func (m *meter) attach(top *jsonschema.Schema) error {
	seen := map[*jsonschema.Schema]bool{top: true}
	for queue := []*jsonschema.Schema{top}; len(queue) > 0; queue = queue[1:] {
		s := queue[0]
		if !strings.HasPrefix(s.Location, schemaLocation) {
			return fmt.Errorf("the schema refers to %s, which lies outside it", s.Location)
		}
		if s.DynamicRef != nil || s.RecursiveRef != nil {
			return errors.New("the schema uses $dynamicRef or $recursiveRef; use $ref")
		}
		parts := partsOf(s)
		for _, part := range parts.all() {
			if !seen[part] {
				seen[part] = true
				queue = append(queue, part)
			}
		}
		m.hook(s, parts)
	}
	return nil
}

// hook makes the library pay before it applies a part of a schema. Formats are checked first, before anything is descended into. What is
// checked even before, like the type or an enum, is paid for by the part around it.
func (m *meter) hook(s *jsonschema.Schema, p parts) {
	once := 1 + len(s.Required)
	for _, part := range p.once {
		once += entryPrice(part)
	}
	each := 1
	for _, part := range p.each {
		each += entryPrice(part)
	}
	format := &jsonschema.Format{}
	asked := s.Format
	if asked != nil {
		format.Name = asked.Name
	}
	unique := s.UniqueItems
	format.Validate = func(value any) error {
		steps := once + elements(value)*each
		if unique {
			steps += nodes(value)
		}
		m.spend(steps)
		if asked != nil {
			return asked.Validate(value)
		}
		return nil
	}
	s.Format = format
}

// entryPrice is what it takes to find out whether a part applies at all.
func entryPrice(s *jsonschema.Schema) int {
	price := 1
	if s.Const != nil {
		price += nodes(*s.Const)
	}
	if s.Enum != nil {
		for _, value := range s.Enum.Values {
			price += nodes(value)
		}
	}
	return price
}

// elements is how many members a value has, or for a string how many steps it takes to read it.
func elements(value any) int {
	switch value := value.(type) {
	case map[string]any:
		return len(value)
	case []any:
		return len(value)
	case string:
		return len(value) / scanSpeed
	default:
		return 0
	}
}

// nodes is how many values there are in a value, itself included.
func nodes(value any) int {
	count := 1
	switch value := value.(type) {
	case map[string]any:
		for _, member := range value {
			count += nodes(member)
		}
	case []any:
		for _, member := range value {
			count += nodes(member)
		}
	case string:
		count += len(value) / scanSpeed
	}
	return count
}

// parts are the schemas directly inside a schema: those that are applied at most once to a value or to one member of it, and
// those that are applied to each member.
type parts struct {
	once, each []*jsonschema.Schema
}

func (p *parts) all() []*jsonschema.Schema {
	return append(append([]*jsonschema.Schema(nil), p.once...), p.each...)
}

func partsOf(s *jsonschema.Schema) parts {
	var p parts
	p.addOnce(s.Ref, s.Not, s.If, s.Then, s.Else)
	p.addOnce(s.AllOf...)
	p.addOnce(s.AnyOf...)
	p.addOnce(s.OneOf...)
	p.addOnce(s.PrefixItems...)
	for _, part := range s.Properties {
		p.addOnce(part)
	}
	for _, part := range s.DependentSchemas {
		p.addOnce(part)
	}
	for _, part := range s.Dependencies {
		if part, ok := part.(*jsonschema.Schema); ok {
			p.addOnce(part)
		}
	}
	if items, ok := s.Items.([]*jsonschema.Schema); ok {
		p.addOnce(items...)
	}
	for _, part := range s.PatternProperties {
		p.addEach(part)
	}
	p.addEach(s.PropertyNames, s.UnevaluatedProperties, s.Contains, s.Items2020, s.UnevaluatedItems, s.ContentSchema)
	for _, part := range []any{s.AdditionalProperties, s.AdditionalItems, s.Items} {
		if part, ok := part.(*jsonschema.Schema); ok {
			p.addEach(part)
		}
	}
	return p
}

func (p *parts) addOnce(schemas ...*jsonschema.Schema) { p.once = appendSchemas(p.once, schemas) }
func (p *parts) addEach(schemas ...*jsonschema.Schema) { p.each = appendSchemas(p.each, schemas) }

func appendSchemas(list, schemas []*jsonschema.Schema) []*jsonschema.Schema {
	for _, s := range schemas {
		if s != nil {
			list = append(list, s)
		}
	}
	return list
}

// meteredRegexp is a regular expression that is paid for.
type meteredRegexp struct {
	*regexp.Regexp
	meter *meter
	size  int
}

// MatchString says whether the expression matches somewhere in s.
func (r *meteredRegexp) MatchString(s string) bool {
	r.meter.spend(1 + r.size*len(s)/matchSpeed)
	return r.Regexp.MatchString(s)
}

// compileRegexp compiles a regular expression. They have the syntax of Go (RE2).
func (m *meter) compileRegexp(pattern string) (jsonschema.Regexp, error) {
	if len(pattern) > maxPatternBytes {
		return nil, fmt.Errorf("the pattern has %d bytes, the most is %d", len(pattern), maxPatternBytes)
	}
	parsed, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return nil, err
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return nil, err
	}
	if len(program.Inst) > maxPatternSize {
		return nil, fmt.Errorf("the pattern %.64q is too complex", pattern)
	}
	compiled, err := regexp.Compile(pattern)
	if err != nil {
		return nil, err
	}
	return &meteredRegexp{Regexp: compiled, meter: m, size: len(program.Inst)}, nil
}
