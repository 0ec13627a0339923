package tool

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

const (
	// schemaLocation is the address under which a schema is compiled. References that lead elsewhere are refused.
	schemaLocation = "schema:///tool"
	// maxDepth is how deep schemas and arguments may be nested.
	maxDepth = 64
	// maxNumberBytes is how long a number in schemas and arguments may be, and maxExponent how large its exponent.
	maxNumberBytes = 64
	maxExponent    = 400
	// maxSchemas is how many compiled schemas a Validator keeps.
	maxSchemas = 256
	// errorTries is how often a schema with errors is compiled again.
	errorTries = 8
	// schemaDigestDigits is how much of its SHA-256 stands for a schema in Turn status.
	schemaDigestDigits = 16
)

// Validator checks arguments against the inputSchema of a Tool: JSON Schema, draft 2020-12 unless the schema names another. It keeps
// compiled schemas. It is safe for concurrent use; the zero value is not usable, use NewValidator.
//
// Schemas come from users and arguments from models, so both are bounded: in size, in nesting, in the length of numbers, and in the
// work that one check may take. References that lead out of the schema are refused, and nothing is ever loaded.
type Validator struct {
	mu       sync.Mutex
	compiled map[[sha256.Size]byte]*compiledSchema
}

// compiledSchema is a schema, or why it is none.
type compiledSchema struct {
	schema *jsonschema.Schema
	meter  *meter
	err    error
}

// NewValidator makes a Validator that has no schemas yet.
func NewValidator() *Validator {
	return &Validator{compiled: map[[sha256.Size]byte]*compiledSchema{}}
}

// SchemaDigest is the start of the SHA-256 of a schema, 16 hexadecimal digits.
func SchemaDigest(schema []byte) string {
	sum := sha256.Sum256(schema)
	return hex.EncodeToString(sum[:])[:schemaDigestDigits]
}

// CheckSchema says whether a schema can be used: it is JSON of at most MaxSchemaBytes, valid JSON Schema, refers to nothing outside, and
// describes an object. An empty schema accepts every object. The text of an error is the same each time.
func CheckSchema(schema []byte) error {
	if len(schema) == 0 {
		return nil
	}
	return compile(schema).err
}

// CheckSchema is CheckSchema, and keeps the compiled schema.
func (v *Validator) CheckSchema(schema []byte) error {
	if len(schema) == 0 {
		return nil
	}
	return v.get(schema).err
}

// Validate checks arguments against a schema. Blank arguments stand for {}; without a schema every object is accepted. The text of an error
// is for the model: where in the arguments what is wrong, at most MaxErrorBytes, the same each time.
func (v *Validator) Validate(schema []byte, arguments string) error {
	if len(arguments) > MaxArgumentsBytes {
		return errors.New(ArgumentsTooLarge(len(arguments)))
	}
	value, err := decodeJSON(withDefault(arguments))
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

// get compiles a schema, or finds it compiled. When too many are kept, all are dropped: they are cheap to make again, and no order of
// use is worth its upkeep.
func (v *Validator) get(schema []byte) *compiledSchema {
	key := sha256.Sum256(schema)
	v.mu.Lock()
	found := v.compiled[key]
	v.mu.Unlock()
	if found != nil {
		return found
	}
	made := compile(schema)
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.compiled) >= maxSchemas {
		clear(v.compiled)
	}
	v.compiled[key] = made
	return made
}

func compile(schema []byte) *compiledSchema {
	if len(schema) > MaxSchemaBytes {
		return &compiledSchema{err: fmt.Errorf("the schema has %d bytes, the most is %d", len(schema), MaxSchemaBytes)}
	}
	document, err := decodeJSON(string(schema))
	if err != nil {
		return &compiledSchema{err: fmt.Errorf("the schema is not valid JSON: %w", err)}
	}
	object, ok := document.(map[string]any)
	if !ok {
		return &compiledSchema{err: fmt.Errorf("the schema must be a JSON object, not %s", kindOf(document))}
	}
	if kind, given := object["type"]; given && kind != "object" {
		return &compiledSchema{err: errors.New(`the type of the schema must be "object", because arguments are always an object`)}
	}
	compiled, limit, err := compileDocument(document)
	if err != nil {
		return &compiledSchema{err: firstOf(err, document)}
	}
	if err := limit.attach(compiled); err != nil {
		return &compiledSchema{err: err}
	}
	return &compiledSchema{schema: compiled, meter: limit}
}

func compileDocument(document any) (*jsonschema.Schema, *meter, error) {
	limit := &meter{}
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	compiler.UseLoader(nothingToLoad{})
	compiler.UseRegexpEngine(limit.compileRegexp)
	if err := compiler.AddResource(schemaLocation, document); err != nil {
		return nil, nil, explainSchema(err)
	}
	compiled, err := compiler.Compile(schemaLocation)
	if err != nil {
		return nil, nil, explainSchema(err)
	}
	return compiled, limit, nil
}

// firstOf makes the choice between several errors in a schema the same each time. The library visits the parts of a schema in random
// order and stops at the first error; of a few tries the alphabetically first one is told.
func firstOf(err error, document any) error {
	for range errorTries {
		if _, _, other := compileDocument(document); other != nil && other.Error() < err.Error() {
			err = other
		}
	}
	return err
}

// nothingToLoad refuses every reference that leads out of a schema.
type nothingToLoad struct{}

// Load refuses.
func (nothingToLoad) Load(url string) (any, error) {
	return nil, fmt.Errorf("%q lies outside the schema, and nothing is loaded from elsewhere", url)
}

// decodeJSON reads one JSON value, with numbers as they are written. What would be out of proportion to check is refused.
func decodeJSON(text string) (any, error) {
	if !utf8.ValidString(text) {
		return nil, errors.New("it is not UTF-8")
	}
	if err := checkTokens(text); err != nil {
		return nil, err
	}
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		return nil, err
	}
	return value, nil
}

// checkTokens reads one JSON value token by token, before anything is built from it.
func checkTokens(text string) error {
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	depth := 0
	for ended := false; !ended; {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return errors.New("it ends too early")
		}
		if err != nil {
			return err
		}
		switch token := token.(type) {
		case json.Delim:
			depth += step(token)
			if depth > maxDepth {
				return fmt.Errorf("it is nested more than %d levels deep", maxDepth)
			}
		case json.Number:
			if err := checkNumber(token.String()); err != nil {
				return err
			}
		}
		ended = depth == 0
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the value")
	}
	return nil
}

// step is how much deeper a delimiter leads.
func step(delimiter json.Delim) int {
	if delimiter == '}' || delimiter == ']' {
		return -1
	}
	return 1
}

// checkNumber refuses numbers that take long to compare.
func checkNumber(number string) error {
	if len(number) > maxNumberBytes {
		return fmt.Errorf("a number has more than %d digits", maxNumberBytes)
	}
	at := strings.IndexAny(number, "eE")
	if at < 0 {
		return nil
	}
	exponent := json.Number(strings.TrimPrefix(number[at+1:], "+"))
	if value, err := exponent.Int64(); err != nil || value > maxExponent || value < -maxExponent {
		return fmt.Errorf("the exponent of the number %s is out of range", number)
	}
	return nil
}

func kindOf(value any) string {
	switch value.(type) {
	case nil:
		return "null"
	case bool:
		return "a boolean"
	case string:
		return "a string"
	case json.Number:
		return "a number"
	case []any:
		return "an array"
	default:
		return "an object"
	}
}
