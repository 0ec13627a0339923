package inputschema

import (
	"container/list"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/capstan-dev/capstan/internal/runtime/tool"
	"github.com/capstan-dev/capstan/internal/runtime/tool/result"
)

const (
	// MaxBytes is the maximum size of the inputSchema of a Tool.
	MaxBytes = 32 * 1024
	// location is the address under which a schema is compiled. References that lead elsewhere are refused.
	location = "schema:///tool"
	// maxCompiledBytes is the most memory of the compiled schemas of a Validator, by an upper bound.
	maxCompiledBytes = 16 << 20
)

// Validator checks arguments against the inputSchema of a Tool: JSON Schema, draft 2020-12 unless the schema names
// another. It caches the most recently used compiled schemas. It is safe for concurrent use; the zero value is not
// usable, use NewValidator.
//
// Schemas come from users and arguments from models, so both are bounded: in size, in nesting, in the length of
// numbers, and in the work that one check may take; schemas also in their parts and patterns, before anything is
// compiled. References that lead out of the schema are refused, and nothing is ever loaded.
type Validator struct {
	mu sync.Mutex
	// compiled are the elements of recent, by the digest of the schema.
	compiled map[digest]*list.Element
	// recent are *compiledSchema, the most recently used first, and bytes their total size.
	recent *list.List
	bytes  int

	// compiling is held while a schema is compiled, so that only one compilation uses memory at a time.
	compiling sync.Mutex
}

type digest = [sha256.Size]byte

// compiledSchema is a schema, or why it cannot be used.
type compiledSchema struct {
	key    digest
	schema *jsonschema.Schema
	meter  *meter
	err    error
	// bytes is the most memory of the schema.
	bytes int
}

// NewValidator returns a Validator that has no schemas yet.
func NewValidator() *Validator {
	return &Validator{compiled: map[digest]*list.Element{}, recent: list.New()}
}

// Check checks whether a schema can be used: it is JSON of at most MaxBytes, valid JSON Schema, refers to nothing
// outside, and describes an object. An empty schema accepts every object. The text of an error is the same each time.
func Check(schema []byte) error {
	if len(schema) == 0 {
		return nil
	}
	return compile(schema).err
}

// CheckSchema is Check, one schema at a time. It caches nothing: a schema that is checked may never be used.
func (v *Validator) CheckSchema(schema []byte) error {
	v.compiling.Lock()
	defer v.compiling.Unlock()
	return Check(schema)
}

// Usable returns why a schema cannot be used, as Check does, and keeps what it has compiled.
func (v *Validator) Usable(schema []byte) error {
	if len(schema) == 0 {
		return nil
	}
	return v.get(schema).err
}

// Validate checks arguments against a schema. Blank arguments stand for {}; without a schema every object is accepted.
// The text of an error is for the model: the position and the problem, at most MaxErrorBytes, the same each time.
func (v *Validator) Validate(schema []byte, arguments string) error {
	if len(arguments) > tool.MaxArgumentsBytes {
		return errors.New(tool.ArgumentsTooLarge(len(arguments)))
	}
	value, err := decodeJSON(tool.ArgumentsOrEmpty(arguments))
	if err != nil {
		return fmt.Errorf("the arguments are not valid JSON: %w", err)
	}
	if _, ok := value.(map[string]any); !ok {
		return fmt.Errorf("the arguments must be a JSON object, not %s", kindOf(value))
	}
	if len(schema) == 0 {
		return nil
	}
	s := v.get(schema)
	if s.err != nil {
		return fmt.Errorf("the schema of the tool cannot be used: %w", s.err)
	}
	return s.validate(value)
}

// get compiles a schema, or finds it compiled.
func (v *Validator) get(schema []byte) *compiledSchema {
	key := sha256.Sum256(schema)
	if found := v.find(key); found != nil {
		return found
	}
	v.compiling.Lock()
	defer v.compiling.Unlock()
	if found := v.find(key); found != nil {
		return found // compiled meanwhile
	}
	made := compile(schema)
	made.key = key
	v.keep(made)
	return made
}

func (v *Validator) find(key digest) *compiledSchema {
	v.mu.Lock()
	defer v.mu.Unlock()
	found := v.compiled[key]
	if found == nil {
		return nil
	}
	v.recent.MoveToFront(found)
	return found.Value.(*compiledSchema)
}

// keep caches a compiled schema, and drops the least recently used ones.
func (v *Validator) keep(s *compiledSchema) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.compiled[s.key] = v.recent.PushFront(s)
	v.bytes += s.bytes
	for v.bytes > maxCompiledBytes {
		oldest := v.recent.Remove(v.recent.Back()).(*compiledSchema)
		delete(v.compiled, oldest.key)
		v.bytes -= oldest.bytes
	}
}

func compile(schema []byte) *compiledSchema {
	s, err := compileBounded(schema)
	if err != nil {
		return &compiledSchema{err: err, bytes: bytesPerSchema}
	}
	return s
}

func compileBounded(schema []byte) (*compiledSchema, error) {
	if len(schema) > MaxBytes {
		return nil, fmt.Errorf("the schema has %d bytes; the maximum is %d", len(schema), MaxBytes)
	}
	document, err := decodeJSON(string(schema))
	if err != nil {
		return nil, fmt.Errorf("the schema is not valid JSON: %w", err)
	}
	object, ok := document.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("the schema must be a JSON object, not %s", kindOf(document))
	}
	if kind, given := object["type"]; given && kind != "object" {
		return nil, errors.New(`the type of the schema must be "object", because arguments are always an object`)
	}
	bounds, err := boundsOf(document)
	if err != nil {
		return nil, err
	}
	compiled, limit, err := compileDocument(document)
	if err != nil {
		return nil, err
	}
	if err := limit.attach(compiled); err != nil {
		return nil, err
	}
	return &compiledSchema{schema: compiled, meter: limit, bytes: bounds.bytes(schema)}, nil
}

// compileDocument compiles the document of a schema. The library visits the parts of a schema in random order and stops
// at the first error; the returned error does not depend on the order.
func compileDocument(document any) (*jsonschema.Schema, *meter, error) {
	limit := &meter{}
	patterns := patternErrors{}
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	compiler.UseLoader(nothingToLoad{})
	compiler.UseRegexpEngine(patterns.collect(limit.regexpOf))
	if err := compiler.AddResource(location, document); err != nil {
		return nil, nil, explainSchema(err, document)
	}
	compiled, err := compiler.Compile(location)
	if err != nil {
		return nil, nil, explainSchema(err, document)
	}
	if err := patterns.first(); err != nil {
		return nil, nil, fmt.Errorf("the schema is not a valid JSON Schema: %s", result.Head(err.Error(), MaxErrorBytes/2))
	}
	return compiled, limit, nil
}

// patternErrors collects the errors in the patterns of a schema, so that the library continues to the end.
type patternErrors struct {
	errs map[string]error
}

// collect is an engine that never fails.
func (p *patternErrors) collect(engine jsonschema.RegexpEngine) jsonschema.RegexpEngine {
	return func(pattern string) (jsonschema.Regexp, error) {
		re, err := engine(pattern)
		if err != nil {
			if p.errs == nil {
				p.errs = map[string]error{}
			}
			p.errs[pattern] = err
			return &meteredRegexp{pattern: pattern}, nil
		}
		return re, nil
	}
}

// first is the error of the alphabetically first pattern that has one.
func (p *patternErrors) first() error {
	if len(p.errs) == 0 {
		return nil
	}
	return p.errs[slices.Min(slices.Collect(maps.Keys(p.errs)))]
}

// nothingToLoad refuses every reference that leads out of a schema.
type nothingToLoad struct{}

// Load refuses.
func (nothingToLoad) Load(url string) (any, error) {
	return nil, fmt.Errorf("%q is outside the schema: external references are not loaded", url)
}
