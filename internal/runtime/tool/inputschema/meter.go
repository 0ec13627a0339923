package inputschema

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/capstan-dev/capstan/internal/runtime/pattern"
)

const (
	// maxWork is how many steps one validation may take, a step being about as long as to compare two numbers.
	maxWork = 500_000
	// scanSpeed is how many bytes of a string are read in one step.
	scanSpeed = 100
	// formatRegex is the format of a string that is a regular expression.
	formatRegex = "regex"
)

// errTooMuchWork ends a validation that exceeds maxWork.
var errTooMuchWork = errors.New("validating the arguments against the schema of the tool takes too long")

// meter bounds the work of one validation at a time. A schema of a few hundred bytes can require more work than any
// machine can do, by references that double at each step; the library has no limit of its own, but it calls a hook for
// each part of a schema that it is about to apply.
type meter struct {
	mu   sync.Mutex
	left int
}

// outOfWork stops a validation from deep inside the library.
type outOfWork struct{}

func (m *meter) spend(steps int) {
	if m.left -= max(steps, 1); m.left < 0 {
		panic(outOfWork{})
	}
}

// validate checks a value. Validations of one schema are serialized.
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

// attach adds the hook to every part of a schema, and rejects schemas whose parts cannot all be found from the top.
func (m *meter) attach(top *jsonschema.Schema) error {
	seen := map[*jsonschema.Schema]bool{top: true}
	var outside []string
	for queue := []*jsonschema.Schema{top}; len(queue) > 0; queue = queue[1:] {
		s := queue[0]
		if !strings.HasPrefix(s.Location, location) {
			outside = append(outside, s.Location)
			continue
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
	if len(outside) > 0 {
		return fmt.Errorf("the schema refers to %.200s, which is outside it", slices.Min(outside))
	}
	return nil
}

// hook charges the library before it applies a part of a schema. Formats are checked first, before anything is
// descended into. Keywords that are checked even earlier, like the type or an enum, are charged to the enclosing part.
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
		if asked == nil {
			return nil
		}
		if asked.Name == formatRegex {
			return m.checkRegex(value)
		}
		return asked.Validate(value)
	}
	s.Format = format
}

// checkRegex is the format "regex" of values. They are parsed only.
func (m *meter) checkRegex(value any) error {
	text, ok := value.(string)
	if !ok {
		return nil
	}
	m.spend(len(text))
	_, err := pattern.Parse(text)
	return err
}

// entryPrice is the work to find out whether a part applies at all.
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

// elements returns how many members a value has, or for a string how many steps it takes to read it.
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

// parts are the direct subschemas of a schema: those that are applied at most once to a value or to one member of it,
// and those that are applied to each member.
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
