package inputschema

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/capstan-dev/capstan/internal/runtime/tool"
)

const weather = `{
  "type": "object",
  "properties": {
    "city": {"type": "string", "minLength": 1, "maxLength": 20, "pattern": "^[A-Za-z ]+$"},
    "days": {"type": "integer", "minimum": 1, "maximum": 7},
    "unit": {"enum": ["C", "F"]},
    "spots": {"type": "array",
      "items": {"type": "object", "required": ["lat"], "properties": {"lat": {"type": "number"}}}}
  },
  "required": ["city"],
  "additionalProperties": false
}`

func TestArgumentsThatMatchTheSchema(t *testing.T) {
	v := NewValidator()
	for _, arguments := range []string{
		`{"city": "Bern"}`,
		` {"city":"Bern","days":7,"unit":"F","spots":[{"lat":1.5e2},{"lat":-3}]} `,
		`{"city": "Bern", "days": 2.0}`,
	} {
		if err := v.Validate([]byte(weather), arguments); err != nil {
			t.Errorf("%s: %v", arguments, err)
		}
	}
}

func TestArgumentsThatDoNotMatchTellWhereAndWhat(t *testing.T) {
	v := NewValidator()
	for arguments, want := range map[string][]string{
		`{}`:                             {"at the top", "missing", "'city'"},
		``:                               {"at the top", "missing", "'city'"},
		`{"city": 5}`:                    {"at /city", "got number, want string"},
		`{"city": ""}`:                   {"at /city", "minLength"},
		`{"city": "B3rn"}`:               {"at /city", "pattern", "^[A-Za-z ]+$"},
		`{"city": "Bern", "days": 0}`:    {"at /days", "minimum", "1"},
		`{"city": "Bern", "days": 1.5}`:  {"at /days", "integer"},
		`{"city": "Bern", "unit": "K"}`:  {"at /unit", "'C'", "'F'"},
		`{"city": "Bern", "z": 1}`:       {"at the top", "additional", "'z'"},
		`{"city": 1, "days": "x"}`:       {"at /city", "at /days"},
		`{"city":"B","spots":[{},{}]}`:   {"at /spots/0", "at /spots/1", "'lat'"},
		`{"city":"Bern","spots":{}}`:     {"at /spots", "want array"},
		`[]`:                             {"must be a JSON object, not an array"},
		`"x"`:                            {"must be a JSON object, not a string"},
		`null`:                           {"must be a JSON object, not null"},
		`12`:                             {"must be a JSON object, not a number"},
		`true`:                           {"must be a JSON object, not a boolean"},
		`{"city": "Bern"`:                {"not valid JSON"},
		`{"city": "Bern"} {}`:            {"not valid JSON", "unexpected data"},
		`{"city": "Bern",}`:              {"not valid JSON"},
		`{city: "Bern"}`:                 {"not valid JSON"},
		"{\"city\": \"B\xffn\"}":         {"not valid JSON", "UTF-8"},
		`{"city": "Bern", "days": 1e99}`: {"at /days", "maximum"},
	} {
		err := v.Validate([]byte(weather), arguments)
		if err == nil {
			t.Errorf("%s: no error", arguments)
			continue
		}
		for _, part := range want {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %q is not in %q", arguments, part, err)
			}
		}
	}
}

func TestWithoutASchemaEveryObjectIsAccepted(t *testing.T) {
	v := NewValidator()
	for _, arguments := range []string{"", " \n", "{}", `{"a": [1]}`} {
		if err := v.Validate(nil, arguments); err != nil {
			t.Errorf("%q: %v", arguments, err)
		}
	}
	for _, arguments := range []string{"[]", "x", "{"} {
		if err := v.Validate(nil, arguments); err == nil {
			t.Errorf("%q: no error", arguments)
		}
	}
}

func TestArgumentsOutOfProportionAreRefused(t *testing.T) {
	v := NewValidator()
	for name, arguments := range map[string]string{
		"too large":         `{"a": "` + strings.Repeat("x", tool.MaxArgumentsBytes) + `"}`,
		"too deep":          `{"a": ` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}`,
		"a long number":     `{"a": 1` + strings.Repeat("0", 100) + `}`,
		"a large exponent":  `{"a": 1e999999999}`,
		"a small exponent":  `{"a": 1E-999999999}`,
		"an odd exponent":   `{"a": 1e+99999999999999999999}`,
		"endless nesting":   strings.Repeat(`{"a":`, 20_000),
		"nesting of arrays": strings.Repeat(`[`, 90_000),
	} {
		if err := v.Validate([]byte(weather), arguments); err == nil || len(err.Error()) > MaxErrorBytes {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, arguments := range []string{`{"a": 1e400}`, `{"a": -1.5E-400}`, `{"a": 123456789012345678901234567890}`} {
		if err := v.Validate([]byte(`{"properties": {"a": {"type": "number"}}}`), arguments); err != nil {
			t.Errorf("%s: %v", arguments, err)
		}
	}
}

func TestErrorsAreBoundedAndDoNotDependOnChance(t *testing.T) {
	many := map[string]any{}
	for i := range 150 {
		many[fmt.Sprintf("property-%d\n%s", i, strings.Repeat("ä", 200))] = strings.Repeat("x", 100)
	}
	text, err := json.Marshal(many)
	if err != nil {
		t.Fatal(err)
	}
	schema := []byte(`{"type": "object", "additionalProperties": {"type": "string", "pattern": "^y+$", "maxLength": 3}}`)
	first := ""
	for range 5 {
		err := NewValidator().Validate(schema, string(text))
		if err == nil || len(err.Error()) > MaxErrorBytes || !utf8.ValidString(err.Error()) ||
			!strings.Contains(err.Error(), "more") {
			t.Fatalf("the error is %v", err)
		}
		if first == "" {
			first = err.Error()
		}
		if err.Error() != first {
			t.Errorf("the error is once\n%s\nand once\n%s", first, err)
		}
	}
	err = NewValidator().Validate([]byte(weather), `{"city": "Bern", "z": 1, "y": 1, "x": 1}`)
	if err == nil || !strings.Contains(err.Error(), "'x', 'y', 'z'") {
		t.Errorf("the error is %v", err)
	}
}

func TestSchemasThatCanBeUsed(t *testing.T) {
	for name, schema := range map[string]string{
		"none":           ``,
		"an empty one":   `{}`,
		"an object":      weather,
		"without a type": `{"properties": {"a": {"type": "string"}}}`,
		"local references": `{"type": "object", "$defs": {"a": {"type": "string"}}, ` +
			`"properties": {"b": {"$ref": "#/$defs/a"}}}`,
		"an anchor": `{"type": "object", "$defs": {"a": {"$anchor": "here"}}, "properties": {"b": {"$ref": "#here"}}}`,
		"recursion": `{"type": "object", "properties": {"child": {"$ref": "#"}}}`,
		"an id": `{"$id": "https://example.org/tool", "type": "object", ` +
			`"properties": {"b": {"$ref": "#/$defs/a"}}, "$defs": {"a": {}}}`,
		"draft 7": `{"$schema": "http://json-schema.org/draft-07/schema#", "type": "object", ` +
			`"definitions": {"a": {}}, "properties": {"b": {"$ref": "#/definitions/a"}}}`,
		"draft 2020-12":    `{"$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object"}`,
		"a reference name": `{"type": "object", "properties": {"$ref": {"type": "string"}}}`,
	} {
		if err := Check([]byte(schema)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := NewValidator().CheckSchema([]byte(schema)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestSchemasThatCannotBeUsed(t *testing.T) {
	for name, c := range map[string]struct{ schema, want string }{
		"no JSON":         {`{`, "not valid JSON"},
		"no object":       {`[]`, "must be a JSON object, not an array"},
		"true":            {`true`, "must be a JSON object, not a boolean"},
		"another type":    {`{"type": "array"}`, `must be "object"`},
		"several types":   {`{"type": ["object", "null"]}`, `must be "object"`},
		"an unknown type": {`{"properties": {"a": {"type": "text"}}}`, "/properties/a/type"},
		"a bad keyword":   {`{"required": "city"}`, "/required"},
		"a bad pattern":   {`{"properties": {"a": {"pattern": "("}}}`, "("},
		"a Perl pattern":  {`{"properties": {"a": {"pattern": "(?=x)"}}}`, "(?=x)"},
		"a long pattern":  {`{"properties": {"a": {"pattern": "` + strings.Repeat("x", 2000) + `"}}}`, "pattern"},
		"a complex pattern": {
			`{"properties": {"a": {"pattern": "` + strings.Repeat("(abcdefgh){900}", 5) + `"}}}`, "too complex",
		},
		"a remote reference": {`{"properties": {"a": {"$ref": "https://example.org/other"}}}`, "outside the schema"},
		"a file":             {`{"properties": {"a": {"$ref": "file:///etc/passwd"}}}`, "outside the schema"},
		"a relative one":     {`{"properties": {"a": {"$ref": "other.json"}}}`, "outside the schema"},
		"the meta schema": {
			`{"properties": {"a": {"$ref": "https://json-schema.org/draft/2020-12/schema"}}}`, "outside it",
		},
		"an unknown draft":   {`{"$schema": "https://example.org/draft"}`, "outside the schema"},
		"a broken reference": {`{"properties": {"a": {"$ref": "#/$defs/none"}}}`, "#/$defs/none"},
		"a dynamic one":      {`{"$dynamicAnchor": "x", "properties": {"a": {"$dynamicRef": "#x"}}}`, "$dynamicRef"},
		"too large":          {`{"description": "` + strings.Repeat("x", MaxBytes) + `"}`, "the maximum is"},
		"too deep":           {strings.Repeat(`{"not":`, 100) + "{}" + strings.Repeat("}", 100), "levels deep"},
		"a large number":     {`{"properties": {"a": {"maximum": 1e99999999}}}`, "out of range"},
	} {
		t.Run(name, func(t *testing.T) {
			err := Check([]byte(c.schema))
			if err == nil || !strings.Contains(err.Error(), c.want) || len(err.Error()) > MaxErrorBytes {
				t.Fatalf("the error is %v", err)
			}
			v := NewValidator()
			if again := v.CheckSchema([]byte(c.schema)); again == nil || again.Error() != err.Error() {
				t.Errorf("the error is once %q and once %q", err, again)
			}
			if err := v.Validate([]byte(c.schema), `{}`); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("arguments are checked with it: %v", err)
			}
		})
	}
}

func TestOfSeveralErrorsInASchemaTheSameIsReported(t *testing.T) {
	var properties []string
	for i := range 20 {
		properties = append(properties, fmt.Sprintf(`"p%d": {"pattern": "(%d"}, "r%d": {"$ref": "#/none/%d"}`, i, i, i, i))
	}
	schema := []byte(`{"properties": {` + strings.Join(properties[:2], ",") + `}}`)
	first := Check(schema)
	for range 10 {
		if err := Check(schema); err == nil || err.Error() != first.Error() {
			t.Fatalf("the error is once %q and once %q", first, err)
		}
	}
}

// bombs are small schemas that would take longer than any machine has.
func bombs() map[string][2]string {
	doubling := `{"$ref": "#/$defs/d0"`
	doubling += `, "$defs": {`
	for i := range 60 {
		doubling += fmt.Sprintf(`"d%d": {"allOf": [{"$ref": "#/$defs/d%d"}, {"$ref": "#/$defs/d%d"}]},`, i, i+1, i+1)
	}
	doubling += `"d60": {"minProperties": 0}}}`
	nested := strings.Repeat("[", 60) + strings.Repeat("]", 60)
	numbers := "[" + strings.TrimSuffix(strings.Repeat("7,", 40_000), ",") + "]"
	choices := "["
	for i := range 4000 {
		choices += fmt.Sprintf("%d,", 1000+i)
	}
	choices += "0]"
	return map[string][2]string{
		"references that double": {doubling, `{}`},
		"items that double": {
			`{"properties": {"a": {"$ref": "#/$defs/x"}}, "$defs": {"x": {"allOf": [{"items": {"$ref": "#/$defs/x"}}, ` +
				`{"items": {"$ref": "#/$defs/x"}}]}}}`,
			`{"a": ` + nested + `}`,
		},
		"negations that double": {
			`{"properties": {"a": {"$ref": "#/$defs/x"}}, ` +
				`"$defs": {"x": {"not": {"anyOf": [` +
				`{"items": {"$ref": "#/$defs/x"}}, {"not": {"items": {"$ref": "#/$defs/x"}}}]}}}}`,
			`{"a": ` + nested + `}`,
		},
		"a long enum for each item": {
			`{"properties": {"a": {"items": {"enum": ` + choices + `}}}}`,
			`{"a": ` + numbers + `}`,
		},
		"a pattern for each item": {
			`{"properties": {"a": {"items": {"pattern": "(a|b|ab)*c(x|y|[^z]){0,900}$"}}}}`,
			`{"a": [` + strings.TrimSuffix(strings.Repeat(`"`+strings.Repeat("ab", 450)+`",`, 100), ",") + `]}`,
		},
		"a pattern for each name": {
			`{"patternProperties": {"(a|b|ab)*c(x|y|[^z]){0,500}$": {}}}`,
			`{"` + strings.Repeat("ab", 40_000) + `": 1}`,
		},
	}
}

func TestNoSchemaHoldsUpTheManager(t *testing.T) {
	for name, bomb := range bombs() {
		t.Run(name, func(t *testing.T) {
			if err := Check([]byte(bomb[0])); err != nil {
				t.Fatalf("the schema is refused: %v", err)
			}
			begin := time.Now()
			err := NewValidator().Validate([]byte(bomb[0]), bomb[1])
			if err == nil || !strings.Contains(err.Error(), "takes too long") {
				t.Errorf("the error is %.300v", err)
			}
			if took := time.Since(begin); took > 20*time.Second {
				t.Errorf("that took %v", took)
			}
		})
	}
}

func TestLargeArgumentsAreWithinTheLimit(t *testing.T) {
	var items []string
	for i := range 1500 {
		items = append(items, fmt.Sprintf(`{"id": %d, "name": "item %d", "tags": ["a", "b"]}`, i, i))
	}
	arguments := `{"items": [` + strings.Join(items, ",") + `]}`
	schema := `{"type": "object",
		"properties": {"items": {"type": "array", "uniqueItems": true, "items": {"$ref": "#/$defs/item"}}},
	  "$defs": {"item": {"type": "object", "required": ["id"], "additionalProperties": false, "properties": {
	    "id": {"type": "integer", "minimum": 0}, "name": {"type": "string", "pattern": "^item [0-9]+$", "maxLength": 100},
	    "tags": {"type": "array", "items": {"enum": ["a", "b", "c"]}}}}}}`
	if len(arguments) > tool.MaxArgumentsBytes {
		t.Fatalf("the arguments have %d bytes", len(arguments))
	}
	if err := NewValidator().Validate([]byte(schema), arguments); err != nil {
		t.Error(err)
	}
}

func TestAValidatorCanBeShared(t *testing.T) {
	v := NewValidator()
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			for range 50 {
				if err := v.Validate([]byte(weather), `{"city": "Bern"}`); err != nil {
					t.Error(err)
				}
				if err := v.Validate([]byte(weather), fmt.Sprintf(`{"city": %d}`, i)); err == nil {
					t.Error("a number is a city")
				}
			}
		})
	}
	group.Wait()
}

func FuzzValidate(f *testing.F) {
	f.Add(weather, `{"city": "Bern"}`)
	f.Add(
		`{"$ref": "#/$defs/x", "$defs": {"x": {"allOf": [{"not": {"$ref": "#/$defs/y"}}], "if": true}, "y": {"enum": [1]}}}`,
		`{}`,
	)
	f.Add(`{"properties": {"a": {"multipleOf": 0.1, "uniqueItems": true, "contains": {}}}}`, `{"a": [1, 1.0]}`)
	f.Fuzz(func(t *testing.T, schema, arguments string) {
		v := NewValidator()
		if err := v.CheckSchema([]byte(schema)); err != nil && len(err.Error()) > MaxErrorBytes {
			t.Errorf("the error has %d bytes", len(err.Error()))
		}
		if err := v.Validate(
			[]byte(schema),
			arguments,
		); err != nil &&
			(len(err.Error()) > MaxErrorBytes+64 || !utf8.ValidString(err.Error())) {
			t.Errorf("the error is %q", err)
		}
	})
}

// TestAQuotationThatIsNotClosedMatchesItsText: in the syntax of Go, \Q quotes up to \E or to the end of the pattern.
func TestAQuotationThatIsNotClosedMatchesItsText(t *testing.T) {
	schema := []byte(`{"type":"object","properties":{"name":{"type":"string","pattern":"^\\Qa.b("}}}`)
	if err := Check(schema); err != nil {
		t.Fatal(err)
	}
	v := NewValidator()
	if err := v.Validate(schema, `{"name":"a.b(c"}`); err != nil {
		t.Error(err)
	}
	if err := v.Validate(schema, `{"name":"axb("}`); err == nil {
		t.Error("the text was not quoted")
	}
}
