package inputschema

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/capstan-dev/capstan/internal/runtime/pattern"
)

const (
	// maxParts is the most objects and booleans of one schema: each may be a schema of its own, which the library turns
	// into a kilobyte.
	maxParts = 2000
	// maxPathBytes is the most that the places of all parts may take together, in bytes: the library writes them out
	// for each part.
	maxPathBytes = 256 * 1024
)

// Estimates of the memory of a compiled schema, in bytes. They are upper bounds, measured by the tests.
const (
	bytesPerSchema = 8 * 1024
	bytesPerPart   = 2048
	bytesPerValue  = 96
	bytesPerUnit   = 120
	bytesPerPath   = 8
)

// bounds counts the content of a schema's document before anything is compiled.
type bounds struct {
	parts, values, pathBytes int
	patterns, units          int
}

// boundsOf counts, and rejects a document that exceeds a bound. The error is the same each time, because members are
// visited in order.
func boundsOf(document any) (bounds, error) {
	var b bounds
	err := b.add(document, 0)
	return b, err
}

// add counts a value whose place in the document takes so many bytes.
func (b *bounds) add(value any, path int) error {
	b.values++
	switch value := value.(type) {
	case bool:
		return b.part(path)
	case []any:
		for _, member := range value {
			if err := b.add(member, path+4); err != nil {
				return err
			}
		}
	case map[string]any:
		if err := b.part(path); err != nil {
			return err
		}
		for _, key := range slices.Sorted(maps.Keys(value)) {
			if err := b.keyword(key, value[key]); err != nil {
				return err
			}
			if err := b.add(value[key], path+len(key)+1); err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *bounds) part(path int) error {
	b.parts++
	b.pathBytes += path
	if b.parts > maxParts {
		return fmt.Errorf("the schema has more than %d parts", maxParts)
	}
	if b.pathBytes > maxPathBytes {
		return errors.New("the schema is too large: its property names are too long for its nesting depth")
	}
	return nil
}

// keyword counts the patterns of a member of an object, which may be a keyword of a schema. A pattern that does not
// parse is ignored: its error is reported later, if the schema uses it.
func (b *bounds) keyword(key string, value any) error {
	switch key {
	case "pattern":
		if pattern, ok := value.(string); ok {
			return b.pattern(pattern)
		}
	case "patternProperties":
		members, _ := value.(map[string]any)
		for _, pattern := range slices.Sorted(maps.Keys(members)) {
			if err := b.pattern(pattern); err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *bounds) pattern(source string) error {
	b.patterns++
	if b.patterns > maxPatterns {
		return fmt.Errorf("the schema has more than %d patterns", maxPatterns)
	}
	units, err := pattern.Parse(source)
	if errors.Is(err, pattern.ErrTooComplex) {
		return err
	}
	b.units += units
	if b.units > maxUnits {
		return errors.New("the patterns of the schema are too complex in total")
	}
	return nil
}

// bytes returns an upper bound of the compiled schema's memory.
func (b *bounds) bytes(schema []byte) int {
	return bytesPerSchema + 4*len(schema) + bytesPerPart*b.parts + bytesPerValue*b.values +
		bytesPerPath*b.pathBytes + bytesPerUnit*b.units
}

// referencesOf lists, in order, the invalid references of a document that the library could not compile. The library
// reports a random one; this checks all.
func referencesOf(document any) []string {
	r := references{root: document, anchors: map[string]bool{}}
	r.visit(document, r.name)
	r.visit(document, r.check)
	slices.Sort(r.findings)
	return slices.Compact(r.findings)
}

type references struct {
	root     any
	anchors  map[string]bool
	ids      bool
	findings []string
}

// visit calls look for each object of a document.
func (r *references) visit(value any, look func(map[string]any)) {
	switch value := value.(type) {
	case []any:
		for _, member := range value {
			r.visit(member, look)
		}
	case map[string]any:
		look(value)
		for _, member := range value {
			r.visit(member, look)
		}
	}
}

// name records the names that references may use.
func (r *references) name(object map[string]any) {
	for _, keyword := range []string{"$anchor", "$dynamicAnchor", "$id", "id"} {
		name, ok := object[keyword].(string)
		switch {
		case !ok || name == "":
		case keyword == "$anchor" || keyword == "$dynamicAnchor":
			r.anchors["#"+name] = true
		case name[0] == '#':
			r.anchors[name] = true
		default:
			r.ids = true
		}
	}
}

// check checks the reference of an object. If parts of the schema have their own ids, the base of a reference is
// unknown.
func (r *references) check(object map[string]any) {
	reference, ok := object["$ref"].(string)
	switch {
	case !ok || r.ids || reference == "" || reference == "#" || r.anchors[reference]:
	case reference[0] != '#':
		r.findings = append(r.findings,
			fmt.Sprintf("%.200q is outside the schema: external references are not loaded", reference))
	case !r.found(reference[1:]):
		r.findings = append(r.findings, fmt.Sprintf("$ref %.200q does not exist in the schema", reference))
	}
}

// found reports whether a JSON pointer leads to something.
func (r *references) found(pointer string) bool {
	_, found := lookup(r.root, pointer)
	return found
}

// kindOf names the kind of a JSON value, with its article.
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
